// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/trace"
)

// LL spends half of the wire on flags, LL128 a sixteenth.
func TestProtocolsCostWhatTheirFlagsCost(t *testing.T) {
	for _, c := range []struct {
		proto    string
		share    float64
		channels int // So many that a chunk's time on the wire is long beside the latency of a hop.
	}{{"simple", 1, 2}, {"ll128", 120. / 128, 32}, {"ll", 0.5, 128}} {
		const bytes = 1 << 30
		s, o := singleOf(t, Job{DP: 8, SyncBytes: bytes, Proto: c.proto, Channels: c.channels}, trace.AllReduce)
		e := s.evaluate(o, Never-1, false, false)
		volume := 2 * float64(bytes) * 7 / 8
		near(t, c.proto+" seconds", last(e.left).Seconds(), volume/c.share/50e9, 0.1)
	}
}

// LL's small chunks make short operations fast: a chunk need not be full before it goes on.
func TestLLHasTheShorterLatency(t *testing.T) {
	took := func(proto string) float64 {
		s, o := singleOf(t, Job{DP: 8, SyncBytes: 256 << 10, Proto: proto}, trace.AllReduce)
		e := evaluation{sim: s, comm: o.comm, op: o, until: Never - 1}
		e.ring()
		return last(e.left).Seconds()
	}
	if ll, simple := took("ll"), took("simple"); ll >= simple {
		t.Errorf("256 KiB take %g s by LL and %g s by Simple", ll, simple)
	}
}

// What a sender may have under way is bounded by its window: on a long wire the rate is window over round trip, not that
// of the line.
func TestWindowBoundsTheRateOnLongWires(t *testing.T) {
	for _, lat := range []time.Duration{time.Millisecond, 5 * time.Millisecond} {
		const bytes = 1 << 30
		s, o := single(t, 2, trace.AllGather, 1)
		s.cfg.Hardware.NetLatency = lat
		o.p2p, o.src, o.dst, o.size = true, 0, 1, bytes
		e := s.evaluate(o, Never-1, false, false)
		window := float64(smallWindow * p2pChunk * p2pChannels)
		wire := p2pChunk / 25e9
		near(t, "seconds", last(e.left).Seconds(), bytes/(window/(lat.Seconds()+wire)), 0.05)
	}
}

// No more is posted than the window holds, and whatever moves, the counters of a flow keep their order.
func TestCreditsBoundWhatIsUnderWay(t *testing.T) {
	for _, proto := range []string{"simple", "ll", "ll128"} {
		s, o := single(t, 4, trace.AllReduce, 256<<20, Fault{Kind: NICDown, Rank: 2, At: 5 * time.Millisecond})
		s.cfg.Job.Proto = proto
		e := s.evaluate(o, seconds(1), true, false)
		for _, l := range e.links {
			for _, d := range []*side{&l.send, &l.recv} {
				if d.posted-d.done > windowOf(proto) || d.posted < d.ready || d.ready < d.transmitted || d.transmitted < d.done {
					t.Errorf("%s %d->%d: posted %d, ready %d, transmitted %d, done %d", proto, l.src, l.dst, d.posted, d.ready, d.transmitted, d.done)
				}
			}
			if l.src == 2 && l.send.head != trace.FlowSendNet {
				t.Errorf("%s: the dead NIC's sender is in state %v", proto, l.send.head)
			}
		}
	}
}

// Edges within a host have no proxy: tensor-parallel operations on one host leave no network steps.
func TestEdgesWithinAHostHaveNoProxySteps(t *testing.T) {
	rec, _ := mustRun(t, Config{Seed: 3, Until: 12 * time.Second, Job: gpt64()})
	seen := map[slot]int{}
	for i := range rec.s.ranks {
		rec.s.ranks[i].finishedOps(func(o *op, m int32) {
			d := rec.s.dirsOf(o, m)
			steps := d.send.steps + d.recv.steps
			switch o.comm.slot {
			case slotTP:
				if steps != 0 || o.comm.hosts != 1 {
					t.Errorf("a tensor-parallel operation on %d hosts has %d network steps", o.comm.hosts, steps)
				}
			case slotDP:
				if steps == 0 {
					t.Error("a data-parallel operation over four hosts has no network steps")
				}
			}
			seen[o.comm.slot]++
		})
	}
	if seen[slotTP] == 0 || seen[slotDP] == 0 {
		t.Errorf("operations seen: %v", seen)
	}
	for h := range rec.Hosts() {
		st, err := rec.State(h)
		if err != nil {
			t.Fatal(err)
		}
		for i := range st.Processes {
			p := &st.Processes[i]
			for _, f := range p.Flows {
				if p.Comms[f.CommIndex].Flags&trace.CommHasProxy == 0 {
					t.Errorf("rank %d has a flow on %s, which needs no proxy", p.Rank, p.Comms[f.CommIndex].Name)
				}
			}
		}
	}
}

// sent sums what a rank sent over the network on a communicator's role per iteration, bytes.
func sent(rec *Recording, rank int32, sl slot, fn trace.Func) float64 {
	total, iters := 0.0, map[int32]bool{}
	r := &rec.s.ranks[rank]
	r.finishedOps(func(o *op, m int32) {
		if o.comm.slot != sl || int(o.mem[m].iter) >= len(r.ends) || o.fn() != fn && !o.p2p {
			return
		}
		iters[o.mem[m].iter] = true
		d := rec.s.dirsOf(o, m)
		total += float64(d.send.bytes)
	})
	return total / float64(max(1, len(iters)))
}

// ZeRO's reduce-scatter of gradients in four bytes and all-gather of parameters in two move (s-1)/s of them each.
func TestZeROMovesGradientsAndParametersOnce(t *testing.T) {
	job := gpt64()
	rec, _ := mustRun(t, Config{Seed: 3, Until: 30 * time.Second, Job: job})
	b := builder{job: &rec.s.cfg.Job, hw: &rec.s.cfg.Hardware, stage: 0}
	near(t, "bytes of gradients", sent(rec, 0, slotDP, trace.ReduceScatter), b.params()*4*3/4, 0.02)
	near(t, "bytes of parameters", sent(rec, 0, slotDP, trace.AllGather), b.params()*2*3/4, 0.02)
}

// Context parallelism gathers keys and values of the other parts of the sequence, forward and backward, in each layer.
func TestContextParallelismGathersKeysAndValues(t *testing.T) {
	job := Job{Model: GPT70B, TP: 8, CP: 4, DP: 1, PP: 2, MicroBatches: 2, Sharding: ZeRO}
	rec, _ := mustRun(t, Config{Seed: 3, Until: 40 * time.Second, Job: job})
	r := &rec.s.ranks[0]
	if c := rec.s.comms[r.comms[slotCP].comm]; len(c.members) != 4 || c.hosts != 4 || c.members[1]-c.members[0] != 8 {
		t.Fatalf("context-parallel group %v on %d hosts", c.members, c.hosts)
	}
	// A quarter of the sequence on each rank, grouped-query heads a quarter of the width, keys and values in two bytes.
	j := &rec.s.cfg.Job
	part := float64(j.Model.Seq) / 4 * float64(j.Model.Hidden) / 4 * 2 / 8
	layers := float64(j.Model.Layers / 2)
	passes := float64(j.MicroBatches) * 2
	near(t, "bytes gathered from three others", sent(rec, 0, slotCP, trace.AllGather), 3*part*layers*passes, 0.05)
	// Half the tokens on each rank halve the computation.
	whole := builder{job: &Job{Model: GPT70B, TP: 8, CP: 1, PP: 2, LayerGroups: 2, MicroBatchSize: 1}, hw: &rec.s.cfg.Hardware}
	parts := builder{job: &Job{Model: GPT70B, TP: 8, CP: 2, PP: 2, LayerGroups: 2, MicroBatchSize: 1}, hw: &rec.s.cfg.Hardware}
	near(t, "computation of half a sequence", parts.groupTime(true).Seconds(), whole.groupTime(true).Seconds()/2, 1e-6)
}

// An expert with three times its tokens receives three times the bytes and computes three times as long.
func TestUnevenRoutingMovesBytesAndWork(t *testing.T) {
	job := Job{Model: Mixtral, TP: 8, DP: 4, EP: 4, MicroBatches: 2, Sharding: ZeRO, Jitter: 1e-6}
	rec, _ := mustRun(t, Config{Seed: 3, Until: 20 * time.Second, Job: job, Faults: []Fault{{Kind: ExpertImbalance, Rank: 8, Remaining: 1. / 3}}})
	received := func(rank int32) float64 {
		total := 0.0
		rec.s.ranks[rank].finishedOps(func(o *op, m int32) {
			if o.p2p && o.comm.slot == slotEP && m == 1 && !o.mem[m].in.combine {
				total += float64(o.size)
			}
		})
		return total
	}
	near(t, "bytes to the busy expert over those to another", received(8)/received(16), 3, 0.02)
	work := func(rank int32) float64 {
		s, r := rec.s, &rec.s.ranks[rank]
		for pc := range s.programs[0].train {
			if in := &s.programs[0].train[pc]; in.label == expertWork {
				return r.duration(s, &item{in: in, iter: 3, pc: int32(pc)}).Seconds()
			}
		}
		return 0
	}
	near(t, "work of the busy expert over another's", work(8)/work(16), 3, 0.02)
}
