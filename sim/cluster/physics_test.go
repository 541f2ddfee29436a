// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"math"
	"testing"
	"time"

	"github.com/culprit-project/culprit/trace"
)

// flat is a host with one GPU and one NIC of 400 Gb/s.
func flat() Hardware {
	hw := H100()
	hw.GPUsPerHost, hw.NICsPerHost, hw.NICRate = 1, 1, 50e9
	return hw
}

// single makes a simulation with one communicator over n hosts and an operation that everybody enters at once.
func single(t *testing.T, n int, fn trace.Func, bytes int64, faults ...Fault) (*sim, *op) {
	t.Helper()
	return singleOf(t, Job{DP: n, SyncBytes: bytes}, fn, faults...)
}

// singleOf is single with other settings of the job.
func singleOf(t *testing.T, job Job, fn trace.Func, faults ...Fault) (*sim, *op) {
	t.Helper()
	n, bytes := job.DP, job.SyncBytes
	job.Workload = AllReduceLoop
	s, err := newSim(Config{Seed: 1, Hardware: flat(), Until: time.Minute, Faults: faults, Job: job})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.applyFaults(); err != nil {
		t.Fatal(err)
	}
	o := &op{comm: s.comms[0], mem: make([]member, n)}
	in := &instr{kind: doCollect, slot: slotWorld, fn: fn, bytes: bytes, dtype: fp32}
	for i := range o.mem {
		o.mem[i] = member{in: in, enq: 0, entered: 1}
	}
	return s, o
}

func last(times []Time) Time {
	out := Time(0)
	for _, t := range times {
		out = max(out, t)
	}
	return out
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s: got %g, want %g within %g%%", what, got, want, 100*tolerance)
	}
}

// P3: a ring AllReduce of n bytes over s ranks moves 2n(s-1)/s bytes through every NIC.
func TestRingAllReduceTakesTheTheoreticalTime(t *testing.T) {
	for _, n := range []int{2, 4, 8, 32, 64} {
		const bytes = 4 << 30
		s, o := single(t, n, trace.AllReduce, bytes)
		e := s.evaluate(o, Never-1, false, false)
		volume := 2 * float64(bytes) * float64(n-1) / float64(n)
		// NCCL's kernel ends a loop before it begins the next: with few ranks the pipe runs dry between loops.
		near(t, "seconds of the AllReduce", last(e.left).Seconds(), volume/50e9, max(0.03, 0.22/float64(n)))
		for i := range o.mem {
			d := e.dirs(i)
			near(t, "bytes sent", float64(d.send.bytes), volume, 0.01)
			near(t, "bytes received", float64(d.recv.bytes), volume, 0.01)
		}
	}
}

// AllGather and ReduceScatter move n(s-1) bytes, n the part of one rank.
func TestRingAllGatherTakesTheTheoreticalTime(t *testing.T) {
	for _, fn := range []trace.Func{trace.AllGather, trace.ReduceScatter} {
		const bytes = 256 << 20
		s, o := single(t, 8, fn, bytes)
		e := s.evaluate(o, Never-1, false, false)
		near(t, fn.String(), last(e.left).Seconds(), 7*float64(bytes)/50e9, 0.03)
	}
}

// The tree moves n bytes up and n bytes down, over two trees.
func TestTreeAllReduceTakesTheTheoreticalTime(t *testing.T) {
	const bytes = 1 << 30
	s, o := single(t, 15, trace.AllReduce, bytes)
	s.cfg.Job.Tree = true
	o.comm.slot = slotDP
	e := s.evaluate(o, Never-1, false, false)
	near(t, "seconds", last(e.left).Seconds(), 2*float64(bytes)/50e9, 0.1)
}

// Pulse, section 6: with two channels at 400 Gb/s a slice takes 40 us; a straggler at 1/p of the bandwidth leaves gaps of
// 40(p-1) us on the others.
func TestStragglerLeavesPulsesGaps(t *testing.T) {
	for _, p := range []float64{2, 4, 10} {
		s, o := single(t, 4, trace.AllReduce, 1<<30, Fault{Kind: NICBandwidth, Rank: 1, Remaining: 1 / p})
		e := s.evaluate(o, Never-1, false, false)
		slice := float64(1<<20) / 25e9 * 1e6
		for i := range o.mem {
			d := e.dirs(i)
			elapsed := float64(d.send.last-d.send.first) / 1e3
			perFlow := float64(d.send.steps) / float64(d.send.flows)
			gap := (elapsed - float64(d.send.active)/1e3) / perFlow
			if i == 1 {
				near(t, "active share of the straggler", float64(d.send.active)/1e3/elapsed, 1, 0.15)
				continue
			}
			near(t, "gap per slice in us", gap, slice*(p-1), 0.15)
		}
	}
}

// Mycroft's figure 2: in an AllGather over four ranks in which rank 0 sends slowly, step 0 is late at rank 0 only, step 1
// at rank 1, step 2 at rank 2, and all finish together.
func TestSlowSenderDelaysItsNeighboursStepByStep(t *testing.T) {
	const slow = 10
	s, o := single(t, 4, trace.AllGather, 4<<20, Fault{Kind: NICBandwidth, Rank: 0, Remaining: 1.0 / slow})
	e := s.evaluate(o, Never-1, false, false)
	good, ref := single(t, 4, trace.AllGather, 4<<20)
	expect := good.evaluate(ref, Never-1, false, false)
	late := func(rank, hop int) bool {
		k := hop*2 + 1 // The second slice of the hop.
		return float64(e.links[rank].done[k]) > 2*float64(expect.links[rank].done[k])
	}
	for _, c := range []struct {
		rank, hop int
		want      bool
	}{
		{0, 0, true},
		{1, 0, false},
		{2, 0, false},
		{3, 0, false},
		{1, 1, true},
		{2, 1, false},
		{3, 1, false},
		{2, 2, true},
	} {
		if got := late(c.rank, c.hop); got != c.want {
			t.Errorf("rank %d step %d late: %v, want %v", c.rank, c.hop, got, c.want)
		}
	}
	s, o = single(t, 4, trace.AllGather, 1<<30, Fault{Kind: NICBandwidth, Rank: 0, Remaining: 1.0 / slow})
	e = s.evaluate(o, Never-1, false, false)
	first, end := Never, last(e.left)
	for _, l := range e.left {
		first = min(first, l)
	}
	if spread := float64(end-first) / float64(end); spread > 0.02 {
		t.Errorf("the ranks leave %g of the operation apart", spread)
	}
}

// The bubble of 1F1B is (p-1)/(m+p-1) of the iteration.
func TestPipelineBubble(t *testing.T) {
	for _, c := range []struct{ p, m int }{{2, 4}, {4, 4}, {4, 16}, {8, 8}} {
		job := Job{Model: GPT32B, PP: c.p, MicroBatches: c.m, Jitter: 1e-6, TP: 8}
		rec, _, err := Run(t.Context(), Config{Seed: 3, Until: 3 * time.Minute, Job: job})
		if err != nil {
			t.Fatal(err)
		}
		ends := rec.Iterations(0)
		n := len(ends)
		if n < 4 {
			t.Fatalf("p=%d m=%d: %d iterations", c.p, c.m, n)
		}
		iteration := (ends[n-1] - ends[n-2]).Seconds()
		var work Time
		s := rec.s
		for _, in := range s.programs[1].train {
			switch in.kind {
			case doCompute:
				if in.label != optimizer {
					work += in.work
				}
			case doCollect:
				if in.slot == slotTP {
					cal, ok := s.calib[calibKey{shape: s.comms[s.ranks[0].comms[slotTP].comm].shape, fn: in.fn, bytes: in.bytes}]
					if !ok {
						t.Fatal("no calibration of the tensor-parallel AllReduce")
					}
					work += cal.time
				}
			}
		}
		bubble := 1 - work.Seconds()/iteration
		want := float64(c.p-1) / float64(c.m+c.p-1)
		if math.Abs(bubble-want) > 0.04 {
			t.Errorf("p=%d m=%d: bubble %.3f, want %.3f", c.p, c.m, bubble, want)
		}
	}
}

// The closed form and the step-by-step evaluation give the same iterations and the same waits.
func TestFluidAgreesWithChunks(t *testing.T) {
	for i, c := range []struct {
		name string
		job  Job
	}{
		{"zero", Job{Model: GPT70B, TP: 8, DP: 4, PP: 2, MicroBatches: 4, Sharding: ZeRO, Overlap: true, SeqImbalance: 0.2}},
		{"fsdp", Job{Model: Llama7B, DP: 32, MicroBatches: 2, Sharding: FSDP, LayerGroups: 4, Channels: 8, SeqImbalance: 0.2}},
		{"tree", Job{Model: GPT32B, TP: 8, DP: 4, MicroBatches: 2, Tree: true, Proto: "ll128", SeqImbalance: 0.2}},
		{"experts", Job{Model: Mixtral, TP: 8, DP: 4, EP: 4, MicroBatches: 2, MicroBatchSize: 2, Sharding: ZeRO, RoutingImbalance: 0.05}},
		{"context", Job{Model: GPT70B, TP: 8, CP: 2, DP: 2, PP: 2, MicroBatches: 2, Sharding: ZeRO, SeqImbalance: 0.2}},
	} {
		t.Run(c.name, func(t *testing.T) { fluidAgrees(t, c.job) })
		for k, f := range []Fault{{Kind: GlobalSlow, At: 6 * time.Second, Remaining: 0.75}, {Kind: GlobalNetwork, At: 6 * time.Second, Remaining: 0.3}} {
			if testing.Short() && i%2 != k {
				continue // Each kind of job is run with one of them.
			}
			t.Run(c.name+", "+string(f.Kind), func(t *testing.T) { fluidAgrees(t, c.job, f) })
		}
	}
}

func fluidAgrees(t *testing.T, job Job, faults ...Fault) {
	t.Helper()
	cfg := Config{Seed: 7, Until: 16 * time.Second, Job: job, Faults: faults}
	fluid, _, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for r := range job.World() { // A fault that changes nothing makes everything odd.
		cfg.Faults = append(cfg.Faults, Fault{Kind: PCIeContention, Rank: r, Remaining: 1})
	}
	chunks, _, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for r := range job.World() {
		a, b := fluid.Iterations(r), chunks.Iterations(r)
		if len(a) != len(b) || len(a) < 3 {
			t.Fatalf("rank %d: %d iterations against %d", r, len(a), len(b))
		}
		for i := range a {
			near(t, "end of an iteration", a[i].Seconds(), b[i].Seconds(), 0.005)
		}
	}
	// Waiting of the data-parallel operations, by what is waited for.
	sums := func(rec *Recording) (wait [2][3]float64) {
		for i := range rec.s.ranks {
			rec.s.ranks[i].finishedOps(func(o *op, m int32) {
				if o.comm.slot != slotDP {
					return
				}
				d := rec.s.dirsOf(o, m)
				for k := range 3 {
					wait[0][k] += d.send.wait[k].Seconds()
					wait[1][k] += d.recv.wait[k].Seconds()
				}
			})
		}
		return wait
	}
	a, b := sums(fluid), sums(chunks)
	total := 0.0
	for d := range 2 {
		for k := range 3 {
			total += b[d][k]
		}
	}
	for d := range 2 {
		for k := range 3 {
			if diff := math.Abs(a[d][k] - b[d][k]); diff > 0.08*total {
				t.Errorf("direction %d wait %d: fluid %.3f s, chunks %.3f s of %.3f s", d, k, a[d][k], b[d][k], total)
			}
		}
	}
}

// TestProbesFindChangedCounts is CCL-D's figure 6: eight steps within two probes, or spread over seven. A simulated step that stands for
// several real ones changes the count in between, too.
func TestProbesFindChangedCounts(t *testing.T) {
	const probe = 1 << 20
	for _, c := range []struct {
		name  string
		at    []Time // In eighths of a probe.
		scale int
		want  int
	}{
		{"within two", []Time{8, 9, 10, 11, 16, 17, 18, 23}, 1, 2},
		{"over seven", []Time{8, 16, 24, 32, 40, 48, 56, 63}, 1, 7},
		{"each in its own, with gaps", []Time{8, 40, 80}, 1, 3},
		{"of four real steps each, with gaps", []Time{8, 40, 80}, 4, 1 + 4 + 4},
		{"of twenty real steps each, with gaps", []Time{8, 40, 80}, 20, 1 + 4 + 5},
	} {
		var s side
		for _, at := range c.at {
			s.counted(at*probe/8, c.scale)
		}
		if s.probes != c.want {
			t.Errorf("%s: %d probes, want %d", c.name, s.probes, c.want)
		}
	}
}
