// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/trace"
)

func gpt64() Job {
	return Job{Model: GPT70B, TP: 8, DP: 4, PP: 2, MicroBatches: 4, Sharding: ZeRO, Overlap: true}
}

func mustRun(t testing.TB, cfg Config) (*Recording, *Answer) {
	t.Helper()
	rec, a, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rec, a
}

// states gives all nodes' answers as bytes.
func states(t testing.TB, rec *Recording) []byte {
	t.Helper()
	var out bytes.Buffer
	for h := range rec.Hosts() {
		if !rec.Answers(h) {
			continue
		}
		st, err := rec.State(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(&out).Encode(st); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestSameSeedGivesTheSameBytes(t *testing.T) {
	cfg := Config{Seed: 11, Until: 25 * time.Second, Job: gpt64(), Faults: []Fault{{Kind: NICDown, Rank: 9, At: 18 * time.Second}}}
	one, _ := mustRun(t, cfg)
	two, _ := mustRun(t, cfg)
	a, b := states(t, one), states(t, two)
	if !bytes.Equal(a, b) {
		t.Error("two runs of the same configuration differ")
	}
	cfg.Seed++
	three, _ := mustRun(t, cfg)
	if bytes.Equal(a, states(t, three)) {
		t.Error("another seed gives the same records")
	}
}

// everyHang lists a hang of each kind.
func everyHang() []Fault {
	var out []Fault
	for i, k := range []FaultKind{
		NICDown, GPUError, ECCError, CUDAError, NVLinkError, ProcessStopped, ProcessKilled, HostLost, NotEntered, DataStuck,
		StorageStuck, OtherFunc, OtherSize, SkippedOp, Deadlock,
	} {
		out = append(out, Fault{Kind: k, Rank: (13*i + 5) % 64, At: 17*time.Second + time.Duration(i)*137*time.Millisecond})
	}
	return out
}

// Whatever the fault, counters keep their order, operations their numbers, and no time lies in the future.
func TestStatesKeepTheirInvariants(t *testing.T) {
	for _, f := range everyHang() {
		t.Run(string(f.Kind), func(t *testing.T) {
			rec, answer := mustRun(t, Config{Seed: 5, Until: 40 * time.Second, Job: gpt64(), Faults: []Fault{f}})
			if !answer.Hang {
				t.Errorf("the job does not hang")
			}
			for h := range rec.Hosts() {
				if !rec.Answers(h) {
					continue
				}
				st, err := rec.State(h)
				if err != nil {
					t.Fatal(err)
				}
				for i := range st.Processes {
					p := &st.Processes[i]
					for _, fl := range p.Flows {
						if fl.Posted < fl.Ready || fl.Ready < fl.Transmitted || fl.Transmitted < fl.Done || fl.Posted > fl.StepsTotal {
							t.Errorf("rank %d: flow counts %d %d %d %d of %d", p.Rank, fl.Posted, fl.Ready, fl.Transmitted, fl.Done, fl.StepsTotal)
						}
						if fl.LastProgressNS > st.NowNS || fl.StateSinceNS > st.NowNS {
							t.Errorf("rank %d: flow moved in the future", p.Rank)
						}
					}
					for _, c := range p.Comms {
						if c.OpsCompleted > c.OpsStarted || c.OpsStarted > c.OpsCalled || c.OpsCalled-c.OpsCompleted != uint64(c.OpsInFlight) {
							t.Errorf("rank %d comm %s: called %d started %d completed %d in flight %d", p.Rank, c.Name, c.OpsCalled, c.OpsStarted, c.OpsCompleted, c.OpsInFlight)
						}
					}
					checkOps(t, st.NowNS, p.Rank, p.Ops)
				}
			}
		})
	}
}

func checkOps(t *testing.T, now uint64, rank int32, ops []trace.Op) {
	t.Helper()
	for _, o := range ops {
		stamps := []uint64{o.CalledNS, o.EnqueuedNS, o.EnteredNS}
		stamps = slices.DeleteFunc(stamps, func(s uint64) bool { return s == 0 })
		if !slices.IsSorted(stamps) || o.CalledNS == 0 || slices.Max(stamps) > now {
			t.Errorf("rank %d op %d: called %d enqueued %d entered %d now %d", rank, o.Number, o.CalledNS, o.EnqueuedNS, o.EnteredNS, now)
		}
	}
}

// The killed process's neighbours' frozen flows agree with each other: nobody has received more than was sent.
func TestReceiversNeverPassSenders(t *testing.T) {
	rec, _ := mustRun(t, Config{Seed: 5, Until: 40 * time.Second, Job: gpt64(), Faults: []Fault{{Kind: ProcessKilled, Rank: 20, At: 20100 * time.Millisecond}}})
	type key struct {
		comm     trace.CommID
		ch       uint16
		src, dst int32
	}
	sent, seen := map[key]uint32{}, 0
	for pass := range 2 {
		for h := range rec.Hosts() {
			st, err := rec.State(h)
			if err != nil {
				t.Fatal(err)
			}
			for i := range st.Processes {
				p := &st.Processes[i]
				for _, f := range p.Flows {
					c := &p.Comms[f.CommIndex]
					if pass == 0 && f.IsSend {
						sent[key{c.ID, f.Channel, c.Rank, f.Peer}] = f.Transmitted
					}
					if pass == 1 && !f.IsSend {
						tx, ok := sent[key{c.ID, f.Channel, f.Peer, c.Rank}]
						if ok && f.Ready > tx {
							t.Errorf("rank %d received %d steps of %d sent", p.Rank, f.Ready, tx)
						}
						if ok {
							seen++
						}
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no flow seen from both ends")
	}
}

// Clocks of hosts disagree; a host's own stamps are consistent.
func TestClocksDiffer(t *testing.T) {
	rec, _ := mustRun(t, Config{Seed: 2, Until: 20 * time.Second, Job: gpt64()})
	a, err := rec.State(0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := rec.State(1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := int64(a.NowNS - b.NowNS); max(diff, -diff) < int64(time.Second) {
		t.Errorf("monotonic clocks are %v apart", time.Duration(diff))
	}
	if diff := a.AtUnixNS - b.AtUnixNS; diff == 0 || max(diff, -diff) > int64(100*time.Millisecond) {
		t.Errorf("wall clocks are %v apart", time.Duration(diff))
	}
}

func BenchmarkRun1024Ranks60s(b *testing.B) {
	cfg := Config{Seed: 1, Until: 60 * time.Second, Job: Job{Model: GPT70B, TP: 8, DP: 16, PP: 8, MicroBatches: 16, Sharding: ZeRO, Overlap: true}}
	for b.Loop() {
		mustRun(b, cfg)
	}
}

func BenchmarkRun10240Ranks60s(b *testing.B) {
	cfg := Config{Seed: 1, Until: 60 * time.Second, Job: Job{Model: GPT70B, TP: 8, DP: 160, PP: 8, MicroBatches: 16, Sharding: ZeRO, Overlap: true}}
	for b.Loop() {
		mustRun(b, cfg)
	}
}
