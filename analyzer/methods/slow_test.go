// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package methods_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/learn"
	"github.com/culprit-project/culprit/analyzer/methods"
	"github.com/culprit-project/culprit/analyzer/methods/holmes"
	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// when gives a factor where it holds, else 1.
func when(holds bool, factor float64) float64 {
	if holds {
		return factor
	}
	return 1
}

// job is a job of dp x pp x tp ranks of so many iterations.
func job(dp, pp, tp, iters int) *rcatest.SlowJob {
	j := rcatest.NewSlowJob(dp, pp, tp)
	j.Iters = iters
	return j
}

// TestM7LateStarts: one rank computes a second longer than the others in every iteration, and constantly starts late.
func TestM7LateStarts(t *testing.T) {
	j := job(4, 1, 2, 12)
	j.Compute = func(r, _ int) float64 { return when(r == 5, 60) }
	v := say(t, j.Evidence(), "mycroft")
	if v.Class != rca.SlowCompute || !slices.Equal(v.Ranks, []int{5}) || !strings.HasPrefix(v.Note, "starts late") {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
}

// TestM7LateEnds: a rank that starts with the others and constantly ends a second after them, as in the paper's injections 3 to 5.
func TestM7LateEnds(t *testing.T) {
	ev := job(4, 1, 1, 12).Evidence()
	for i := range ev.Timeline {
		if s := &ev.Timeline[i]; s.Rank == 2 && s.Number%2 == 0 {
			s.End += int64(1500 * time.Millisecond)
		}
	}
	// Every other operation is in time, so that its clock is known.
	even := slices.Clone(ev.Timeline)
	for i := range even {
		even[i].Number, even[i].Seq, even[i].Bytes = even[i].Number+1000, even[i].Seq+1000, 16<<20
		if even[i].Rank == 2 {
			even[i].End -= int64(when(even[i].Number%2 == 0, 1500) * 1e6)
		}
	}
	ev.Timeline = append(ev.Timeline, even...)
	v := say(t, ev, "mycroft")
	if !slices.Equal(v.Ranks, []int{2}) || !strings.HasPrefix(v.Note, "ends late") {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
}

// TestM9Figure13: nobody is late; on rank 5 one channel of four takes 75 ms where the others take 30, because its GPU has the data late.
func TestM9Figure13(t *testing.T) {
	ev := job(4, 2, 2, 12).Evidence()
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		if s.Func != "ReduceScatter" {
			continue
		}
		s.SendWait[0], s.SlowestChannel, s.SlowestTime, s.FastestTime = 10*time.Millisecond, 1, 30*time.Millisecond, 29*time.Millisecond
		if s.Rank == 5 {
			s.SendWait[0], s.SlowestChannel, s.SlowestTime = 55*time.Millisecond, 2, 75*time.Millisecond
		}
	}
	v := say(t, ev, "mycroft")
	if v.Class != rca.SlowCompute || !slices.Equal(v.Ranks, []int{5}) || !strings.Contains(v.Note, "(gpu)") || !strings.HasSuffix(v.Note, "on channel 2 alone") {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
}

// TestM9ComponentOfASlowCollective: nobody is late, and one rank's network takes longer than the others'.
func TestM9ComponentOfASlowCollective(t *testing.T) {
	j := job(4, 2, 2, 12)
	j.Send = rcatest.One(5, 4)
	v := say(t, j.Evidence(), "mycroft")
	if v.Class != rca.SlowComm || !slices.Equal(v.Ranks, []int{5}) || !strings.Contains(v.Note, "each component should finish within its expected time (network)") {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
}

// TestC5RepetitionAndBaseline: an operation far over the bound accuses nobody, two apart do; against a configured baseline, a job is slow from
// the start.
func TestC5RepetitionAndBaseline(t *testing.T) {
	for _, slow := range [][]int{{9}, {9, 14}} {
		j := job(8, 1, 1, 16)
		j.Compute = func(r, it int) float64 { return when(r == 3 && slices.Contains(slow, it), 30) }
		v := say(t, j.Evidence(), "ccl-d")
		if named := slices.Equal(v.Ranks, []int{3}); named != (len(slow) > 1) {
			t.Errorf("slow in iterations %v: %s %v (%s)", slow, v.Class, v.Ranks, v.Note)
		}
	}
	j := job(8, 1, 1, 24)
	j.Compute = func(r, _ int) float64 { return when(r == 3, 30) }
	if v := say(t, j.Evidence(), "ccl-d"); len(v.Ranks) > 0 {
		t.Errorf("without a baseline: %v (%s)", v.Ranks, v.Note)
	}
	if v := say(t, j.Evidence(), "ccl-d", methods.Options{Base: 50 * time.Millisecond}); !slices.Equal(v.Ranks, []int{3}) || !strings.HasSuffix(v.Note, "slow at the start") {
		t.Errorf("with one: %s %v (%s)", v.Class, v.Ranks, v.Note)
	}
}

// TestC2Rates: collectives got longer for all alike, and probes find rank 5's sends and rank 6's receives spread over seven milliseconds, the
// others' over two. A member with flows and no probes may be the slowest: then nobody is named. In a tree only one layer is compared.
func TestC2Rates(t *testing.T) {
	for _, c := range []struct {
		name    string
		unknown int // The rank without probes, -1 none.
		algo    string
		want    []int
	}{
		{"all ranks have probes", -1, "ring", []int{5, 6}},
		{"a writer before version 1.5", 2, "ring", []int{}},
		{"a tree of four nodes has no two ranks in one place", -1, "tree", []int{}},
	} {
		j := job(8, 1, 1, 16)
		j.Send = func(r, it int) float64 { return when(r == 5 && it >= 8, 30) }
		ev := j.Evidence()
		for i := range ev.Timeline {
			s := &ev.Timeline[i]
			s.Algo, s.SendFlows, s.RecvFlows = c.algo, 1, 1
			if c.algo == "tree" && s.Rank%2 == 0 { // One rank of a node has its network flows.
				s.SendFlows, s.RecvFlows = 0, 0
			} else if s.Rank != c.unknown {
				s.SendProbes, s.RecvProbes = int(2*when(s.Rank == 5, 3.5)), int(2*when(s.Rank == 6, 3.5))
			}
		}
		if v := say(t, ev, "ccl-d"); v.Class != rca.SlowComm || !slices.Equal(v.Ranks, c.want) {
			t.Errorf("%s: %s %v (%s), want ranks %v", c.name, v.Class, v.Ranks, v.Note, c.want)
		}
	}
}

// TestP7Slowness: a rank that starts late computes; operations that got longer for all, where nobody starts late or sends for longer, are held
// up inside, and it is not the network; and the rank whose transfers are under way longest is the network's.
func TestP7Slowness(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(j *rcatest.SlowJob)
		class rca.Class
		rank  int // -1: any.
		note  string
	}{
		{"late", func(j *rcatest.SlowJob) { j.Compute = func(r, it int) float64 { return when(r == 5 && it >= 8, 4) } }, rca.SlowCompute, 5, "the first to start late"},
		{"network", func(j *rcatest.SlowJob) { j.Send = func(r, it int) float64 { return when(r == 5 && it >= 8, 30) } }, rca.SlowComm, 5, "longest active time"},
		{"inside", func(j *rcatest.SlowJob) { j.Flush = func(r, it int) float64 { return when(r == 5 && it >= 8, 200) } }, rca.SlowComm, -1, "not the network"},
	} {
		j := job(8, 1, 1, 16)
		c.set(j)
		v := say(t, j.Evidence(), "pulse")
		if v.Class != c.class || !strings.Contains(v.Note, c.note) || c.rank >= 0 && !slices.Equal(v.Ranks, []int{c.rank}) {
			t.Errorf("%s: %s %v: %s", c.name, v.Class, v.Ranks, v.Note)
		}
	}
}

// TestP6SlowestExchanges: an exchange that a program makes of sends has no rate that can be compared transfer by transfer; the mean of a
// rank's last ten can.
func TestP6SlowestExchanges(t *testing.T) {
	const ranks, iters, slow = 4, 12, 2
	ev := rca.Evidence{JobID: "ep", WorldSize: ranks, Comms: []rca.Comm{{ID: "ep", Name: "ep", Size: ranks, Members: []int{0, 1, 2, 3}}}}
	for r := range ranks {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: "node" + string(rune('0'+r)), Caps: rcatest.AllCaps, Memberships: []rca.Membership{{Comm: "ep", CommRank: r}}})
	}
	seq := map[[2]int]int64{}
	for it := range iters {
		begin := int64(1e15) + int64(it)*int64(100*time.Millisecond)
		end := begin + int64(40*time.Millisecond)
		for r := range ranks {
			for p := range ranks {
				if p == r {
					continue
				}
				active := time.Duration(when(r == slow, 3.5) * 1e7)
				n := seq[[2]int{r, p}]
				seq[[2]int{r, p}]++
				ev.Timeline = append(ev.Timeline,
					rca.Segment{Rank: r, Comm: "ep", Number: -1, Seq: n, Func: "Send", Peer: p, Bytes: 1 << 20, Start: begin, Entered: begin, End: end, SendFlows: 1, SendBytes: 1 << 20, SendActive: active, Iteration: it},
					rca.Segment{Rank: p, Comm: "ep", Number: -1, Seq: n, Func: "Recv", Peer: r, Bytes: 1 << 20, Start: begin, Entered: begin, End: end, Iteration: it})
			}
		}
	}
	if v := say(t, ev, "pulse"); v.Class != rca.SlowComm || !slices.Equal(v.Ranks, []int{slow}) || !strings.Contains(v.Note, "last ten exchanges") {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
	if v := say(t, ev, "pulse-parallelism"); v.Note != "expert parallelism: 1 of 4 ranks" {
		t.Errorf("parallelism: %s", v.Note)
	}
}

// TestP8Parallelism is figure 5 on a job's own records.
func TestP8Parallelism(t *testing.T) {
	const want = "data parallelism: 4 of 4 ranks, pipeline parallelism: 8 of 2 ranks, tensor parallelism: 8 of 2 ranks"
	if v := say(t, job(4, 2, 2, 12).Evidence(), "pulse-parallelism"); v.Note != want {
		t.Errorf("%q, want %q", v.Note, want)
	}
}

// TestH3H4Search: Holmes' search ends at the rank that computes for longer, with the detector without training and with a trained one.
func TestH3H4Search(t *testing.T) {
	lesson := job(4, 1, 2, 20)
	lesson.Compute = func(r, it int) float64 { return when(r == 2 && it >= 10, 4) }
	ev := lesson.Evidence()
	ops := holmes.Operators(record.New(&ev, rca.Options{}))
	for i := range ops {
		// What waits for rank 2: its tensor group's other member in everything, all others in the data-parallel operation.
		ops[i].Abnormal = ops[i].Iteration >= 10 && ops[i].Rank != 2 && ops[i].Seconds > 0.1
	}
	trained, err := learn.Train(t.Context(), learn.Samples(ops), learn.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if trained.F1 < 0.92 { // Figure 14(a).
		t.Errorf("the model says F1 %.2f of itself", trained.F1)
	}
	for _, m := range []*holmes.Model{nil, trained} {
		for _, slow := range []int{5, 6} {
			j := job(4, 1, 2, 40)
			j.Compute = func(r, it int) float64 { return when(r == slow && it >= 30, 4) }
			v := say(t, j.Evidence(), "holmes", methods.Options{Operators: m})
			if v.Class != rca.SlowCompute || !slices.Equal(v.Ranks, []int{slow}) {
				t.Errorf("rank %d, trained %v: %s %v: %s", slow, m != nil, v.Class, v.Ranks, v.Note)
			}
		}
	}
}

// TestH7IrregularitiesAreNamed: the vote says which of the three kinds it is.
func TestH7IrregularitiesAreNamed(t *testing.T) {
	for want, slow := range map[string]func(it int) bool{
		"degradation": func(it int) bool { return it >= 20 },
		"fluctuation": func(it int) bool { return it%5 == 3 },
		"spikes":      func(it int) bool { return it == 11 },
	} {
		j := job(4, 1, 2, 40)
		j.Compute = func(r, it int) float64 { return when(r == 5 && slow(it), 4) }
		if v := say(t, j.Evidence(), "holmes"); !strings.HasPrefix(v.Note, want) {
			t.Errorf("%s: %s", want, v.Note)
		}
	}
}

// cluster gives a topology of four hosts to a leaf.
func cluster(t *testing.T) *topology.Topology {
	t.Helper()
	text := "SwitchName=leaf0 Nodes=node[0-3]\nSwitchName=leaf1 Nodes=node[4-7]\nSwitchName=spine Switches=leaf[0-1]\n"
	top, err := topology.Load(func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, topology.Files{Slurm: "topology.conf"})
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestH5Devices: over all irregular iterations, what computes for longer is a GPU; what a whole group waits in lies between its members.
func TestH5Devices(t *testing.T) {
	j := job(4, 1, 2, 40)
	j.Compute = func(r, it int) float64 { return when(r == 5 && it >= 30, 4) }
	if v := say(t, j.Evidence(), "holmes-devices"); v.Class != rca.SlowCompute || !slices.Equal(v.Ranks, []int{5}) || !strings.HasPrefix(v.Note, "gpu node2/gpu1") {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
	j = job(4, 1, 2, 40)
	j.Send = func(_, it int) float64 { return when(it >= 30, 6) }
	if v := say(t, j.Evidence(), "holmes-devices", methods.Options{Engine: rca.Options{Topology: cluster(t)}}); v.Class != rca.SlowComm || !strings.HasPrefix(v.Note, "nic node0/nic0") || !slices.Equal(v.Ranks, []int{0}) {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
}
