// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/page"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// verdictOf analyses slowness alone.
func verdictOf(ev rca.Evidence, opt rca.Options) rca.Verdict {
	opt = opt.WithDefaults()
	v, _ := Analyze(job.NewIndex(&ev, opt))
	page.Decide(&v, page.Stage{Options: &opt, Level: ev.Level()})
	return v
}

// analysisOf repairs the finished work of the evidence and prepares what is asked of it.
func analysisOf(ev *rca.Evidence) *analysis {
	return newAnalysis(repaired(newTimeline(job.NewIndex(ev, rca.Options{}.WithDefaults()), ev.Timeline)))
}

// unseenWork is an analysis of ranks of whose finished work nothing was seen.
func unseenWork(ev *rca.Evidence) *analysis {
	x := job.NewIndex(ev, rca.Options{}.WithDefaults())
	t := &timeline{Index: x, ranks: make([][]int32, len(x.Nodes))}
	return &analysis{Index: x, history: history{whole: t, now: t}}
}

// slowWant is a verdict on slowness.
type slowWant struct {
	class  rca.Class
	cause  rca.Cause
	ranks  []int // Named; -1: a group.
	phrase string
}

func (w slowWant) check(t *testing.T, v rca.Verdict) {
	t.Helper()
	rcatest.CheckPair(t, &v)
	if v.Class != w.class || v.Cause != w.cause || !slices.Equal(rcatest.CulpritRanks(v), w.ranks) {
		t.Errorf("got %s/%s %v, want %s/%s %v\n%s\n%+v", v.Class, v.Cause, rcatest.CulpritRanks(v), w.class, w.cause, w.ranks, v.Summary, v.RuledOut)
	}
	if !strings.Contains(v.Summary, w.phrase) {
		t.Errorf("summary %q lacks %q", v.Summary, w.phrase)
	}
}

// TestUnevenCutOfWhichLittleIsWonBack: where transfers take most of an iteration, evening out the stages gains less than a cut that
// is nearly even would, and yet the cut is plainly uneven.
func TestUnevenCutOfWhichLittleIsWonBack(t *testing.T) {
	j := rcatest.NewSlowJob(2, 2, 1)
	j.Computations = true
	j.Compute = func(r, _ int) float64 { return pick(r < 2, 1.4, 1.0) }
	j.Send = func(int, int) float64 { return 26 }
	v := verdictOf(j.Evidence(), rca.Options{})
	slowWant{rca.Imbalance, rca.CauseStage, []int{-1}, "ranks 0, 1"}.check(t, v)
	if v.Slowdown >= leastStageGain {
		t.Errorf("evening out gains %v, which is enough by itself", v.Slowdown)
	}
}

// TestFewIterationsPageNobody: of a job that was never seen otherwise, four iterations in which ranks pause in turn look as if all of
// them were slow in each. Seen often enough, a rank that calls late pages.
func TestFewIterationsPageNobody(t *testing.T) {
	late := func(ranks [][]int, iters int) rca.Verdict {
		j := rcatest.NewSlowJob(8, 1, 1)
		j.Iters = iters
		j.Host = func(r, it int) time.Duration {
			return pick(slices.Contains(ranks[it%len(ranks)], r), 300*time.Millisecond, 0)
		}
		return verdictOf(j.Evidence(), rca.Options{})
	}
	if v := late([][]int{{0, 2}, {4, 6}}, 4); v.Page {
		t.Errorf("four iterations page %v: %s", rcatest.CulpritRanks(v), v.Summary)
	}
	if v := late([][]int{{5}}, often); !v.Page || !slices.Equal(rcatest.CulpritRanks(v), []int{5}) {
		t.Errorf("%d iterations name %v and page: %v: %s", often, rcatest.CulpritRanks(v), v.Page, v.Summary)
	}
}

// slowCases are faults of small jobs, and what is said of them.
var slowCases = []struct {
	name       string
	dp, pp, tp int
	edit       func(*rcatest.SlowJob)
	want       slowWant
}{
	{"healthy", 4, 2, 2, func(*rcatest.SlowJob) {}, slowWant{class: rca.Healthy, cause: rca.CauseUnknown}},
	{
		"one rank computes longer", 4, 2, 2, func(j *rcatest.SlowJob) { j.Compute = rcatest.One(5, 1.5) },
		slowWant{rca.SlowCompute, rca.CauseGPU, []int{5}, "in nearly every iteration"},
	},
	{"its first of a pipeline, the others wait", 2, 4, 1, func(j *rcatest.SlowJob) { j.Compute = rcatest.One(1, 1.6) }, slowWant{rca.SlowCompute, rca.CauseGPU, []int{1}, "longer than its peers"}},
	{"every fourth iteration", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Compute = func(r, it int) float64 { return pick(r == 9 && it%4 == 1, 2.5, 1.0) }
	}, slowWant{rca.SlowCompute, rca.CauseGPU, []int{9}, "of 1"}},
	{"from the middle on", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Iters = 16
		j.Compute = func(r, it int) float64 { return pick(r == 2 && it >= 8, 1.5, 1.0) }
	}, slowWant{rca.SlowCompute, rca.CauseGPU, []int{2}, ""}},
	{"a whole host", 4, 1, 2, func(j *rcatest.SlowJob) {
		j.Compute = func(r, _ int) float64 { return pick(r == 2 || r == 3, 1.5, 1.0) }
	}, slowWant{rca.SlowCompute, rca.CauseGPU, []int{2, 3}, "their peers"}},
	{"two hosts alike, and others pause in turn", 4, 1, 4, func(j *rcatest.SlowJob) {
		j.Compute = func(r, _ int) float64 { return pick(r/4 == 1, 1.7, 1.0) }
		at := map[int]int{1: 0, 4: 9, 9: 14} // Rank by iteration.
		j.Host = func(r, it int) time.Duration {
			n, ok := at[it]
			return pick(ok && n == r, 250*time.Millisecond, 0)
		}
	}, slowWant{rca.SlowCompute, rca.CauseGPU, []int{4, 5, 6, 7}, "their peers"}},
	{"a host that calls late", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Host = func(r, _ int) time.Duration { return pick(r == 5, 300*time.Millisecond, 0) }
	}, slowWant{rca.SlowCompute, rca.CauseCPU, []int{5}, "calls late"}},
	{"cpu by the node's evidence", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Compute = rcatest.One(5, 1.5)
		j.Facts = []rca.Fact{{Host: "node2", Rank: -1, Component: "cpu", Kind: "cpu_pressure", Value: 0.7}}
	}, slowWant{rca.SlowCompute, rca.CauseCPU, []int{5}, ""}},
	{"a throttled GPU on a busy host", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Compute = rcatest.One(5, 1.5)
		j.Facts = []rca.Fact{
			{Host: "node2", Rank: -1, Component: "cpu", Kind: "cpu_pressure", Value: 0.7},
			{Host: "node2", Rank: 5, Component: "cpu", Kind: "proxy_run_delay", Value: 0.5},
			{Host: "node2", Rank: 5, Component: "gpu", Kind: "clock_throttled", Value: 465, Expected: 1410},
		}
	}, slowWant{rca.SlowCompute, rca.CauseGPU, []int{5}, ""}},
	{"a throttled GPU of another rank", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Compute = rcatest.One(5, 1.5)
		j.Facts = []rca.Fact{
			{Host: "node2", Rank: 5, Component: "cpu", Kind: "proxy_run_delay", Value: 0.5},
			{Host: "node2", Rank: 4, Component: "gpu", Kind: "clock_throttled", Value: 465, Expected: 1410},
		}
	}, slowWant{rca.SlowCompute, rca.CauseCPU, []int{5}, ""}},
	{"a host that calls late, and all GPUs are shared", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Host = func(r, _ int) time.Duration { return pick(r == 5, 300*time.Millisecond, 0) }
		for r := range 16 {
			j.Facts = append(j.Facts, rca.Fact{Host: fmt.Sprintf("node%d", r/2), Rank: r, Component: "gpu", Kind: "foreign_process", Value: 2})
		}
	}, slowWant{rca.SlowCompute, rca.CauseCPU, []int{5}, "calls late"}},
	{"an uneven cut", 2, 4, 1, func(j *rcatest.SlowJob) {
		j.Compute = func(r, _ int) float64 { return pick(r/2 == 3, 1.6, 1.0) }
	}, slowWant{rca.Imbalance, rca.CauseStage, []int{-1}, "ranks 6, 7"}},
	{"two stages cut a little unevenly", 2, 2, 1, func(j *rcatest.SlowJob) {
		j.Compute = func(r, _ int) float64 { return pick(r < 2, 1.12, 1.0) }
	}, slowWant{class: rca.Healthy, cause: rca.CauseUnknown}},
	{"half of the ranks, all at once", 4, 1, 2, func(j *rcatest.SlowJob) {
		j.Iters = 16
		j.Compute = func(r, it int) float64 { return pick(r < 4 && it >= 8, 1.5, 1.0) }
	}, slowWant{rca.SlowCompute, rca.CauseGPU, []int{0, 1, 2, 3}, "ompute"}},
	{"a stage, all at once", 2, 2, 2, func(j *rcatest.SlowJob) {
		j.Iters = 16
		j.Compute = func(r, it int) float64 { return pick(r >= 4 && it >= 8, 1.5, 1.0) }
	}, slowWant{rca.Imbalance, rca.CauseStage, []int{-1}, "ranks 4, 5, 6, 7"}},
	{"uneven data", 8, 1, 1, func(j *rcatest.SlowJob) {
		j.Compute = func(r, it int) float64 { return pick(r == (it*5)%8, 1.6, 1.0) }
	}, slowWant{rca.Imbalance, rca.CauseData, []int{-1}, "No machine is bad"}},
	{"everybody alike", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Iters = 16
		j.Compute = func(_, it int) float64 { return pick(it >= 8, 1.4, 1.0) }
	}, slowWant{rca.GlobalSlow, rca.CauseUnknown, nil, "1.4"}},
	{"a NIC, sending", 4, 2, 2, func(j *rcatest.SlowJob) { j.Send = rcatest.One(5, 4) }, slowWant{rca.SlowComm, rca.CauseNetworkSend, []int{5}, "in flight"}},
	{"PCIe by the node's evidence", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Send = rcatest.One(5, 4)
		j.Facts = []rca.Fact{{Host: "node2", Rank: 5, Component: "pcie", Kind: "link_width_reduced", Value: 4, Expected: 16}}
	}, slowWant{rca.SlowComm, rca.CausePCIe, []int{5}, ""}},
	{"a slow flush", 4, 2, 2, func(j *rcatest.SlowJob) { j.Flush, j.PCIe = rcatest.One(5, 80), true }, slowWant{rca.SlowComm, rca.CausePCIe, []int{5}, "between NIC and GPU"}},
	{"a starved proxy", 4, 2, 2, func(j *rcatest.SlowJob) { j.Flush = rcatest.One(5, 80) }, slowWant{rca.SlowComm, rca.CauseProxy, []int{5}, "does not get to run"}},
}

func TestSlowKinds(t *testing.T) {
	for _, c := range slowCases {
		for _, compute := range []bool{false, true} {
			t.Run(c.name+pick(compute, ", computations recorded", ""), func(t *testing.T) {
				j := rcatest.NewSlowJob(c.dp, c.pp, c.tp)
				j.Computations = compute
				c.edit(j)
				c.want.check(t, verdictOf(j.Evidence(), rca.Options{}))
			})
		}
	}
}

// TestDifferentFromTheStart: places in a network differ. One whose transfers always took half as long again is suspected and not accused,
// unless its rank's node complains, or the job is known to have been faster.
func TestDifferentFromTheStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(*rcatest.SlowJob)
		after float64 // Slowdown against the past.
		class rca.Class
	}{
		{"half as long again", func(*rcatest.SlowJob) {}, 0, rca.Unknown},
		{"and the job was faster", func(*rcatest.SlowJob) {}, 1.2, rca.SlowComm},
		{"and the link is narrow", func(j *rcatest.SlowJob) {
			j.Facts = []rca.Fact{{Host: "node2", Rank: 5, Component: "pcie", Kind: "link_width_reduced", Value: 4, Expected: 16}}
		}, 0, rca.SlowComm},
		{"four times as long", func(j *rcatest.SlowJob) { j.Send = rcatest.One(5, 4) }, 0, rca.SlowComm},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(4, 2, 2)
			j.Send = rcatest.One(5, 1.8)
			c.edit(j)
			ev := j.Evidence()
			ev.Slowdown = c.after
			v := verdictOf(ev, rca.Options{})
			if v.Class != c.class || v.Class == rca.Unknown && (v.Page || len(v.Culprits) != 1) {
				t.Errorf("%s, page %v, culprits %+v: %s; want %s", v.Class, v.Page, v.Culprits, v.Summary, c.class)
			}
		})
	}
}

// TestWhatIfNumber: a data-parallel job of one stage in which one rank computes half as long again is slower by a
// factor that can be worked out by hand.
func TestWhatIfNumber(t *testing.T) {
	j := rcatest.NewSlowJob(4, 1, 1)
	j.Jitter = 0
	j.Compute = rcatest.One(2, 1.5)
	v := verdictOf(j.Evidence(), rca.Options{})
	work, comm := 4*6*20.0, 40.0 // Four microbatches of six layer times; one ReduceScatter.
	want := (1.5*work + comm) / (work + comm)
	if math.Abs(v.Slowdown-want) > 0.03 {
		t.Errorf("slowdown %g, want %.3f\n%s", v.Slowdown, want, v.Summary)
	}
}

// TestX6ClocksNeedNotAgree: offsets of 50 ms and drifts of 100 ppm change nothing.
func TestX6ClocksNeedNotAgree(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*rcatest.SlowJob)
	}{
		{"compute", func(j *rcatest.SlowJob) { j.Compute = rcatest.One(5, 1.5) }},
		{"network", func(j *rcatest.SlowJob) { j.Send = rcatest.One(5, 4) }},
		{"onset", func(j *rcatest.SlowJob) {
			j.Iters = 16
			j.Compute = func(r, it int) float64 { return pick(r == 2 && it >= 8, 1.5, 1.0) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			verdict := func(skew bool) rca.Verdict {
				j := rcatest.NewSlowJob(4, 2, 2)
				c.edit(j)
				if skew {
					j.Offset = func(r int) int64 { return int64((r*7919)%101-50) * int64(time.Millisecond) }
					j.Drift = func(r int) float64 { return float64((r*31)%201-100) * 1e-6 }
				}
				return verdictOf(j.Evidence(), rca.Options{})
			}
			a, b := verdict(false), verdict(true)
			if a.Class != b.Class || a.Cause != b.Cause || !slices.Equal(rcatest.CulpritRanks(a), rcatest.CulpritRanks(b)) || math.Abs(a.Slowdown-b.Slowdown) > 0.02 {
				t.Errorf("with one clock %s/%s %v x%g, with many %s/%s %v x%g", a.Class, a.Cause, rcatest.CulpritRanks(a), a.Slowdown, b.Class, b.Cause, rcatest.CulpritRanks(b), b.Slowdown)
			}
		})
	}
}

func TestX6OffsetsAreEstimated(t *testing.T) {
	j := rcatest.NewSlowJob(4, 2, 2)
	j.Offset = func(r int) int64 { return int64(r) * 3e9 }
	j.Drift = func(r int) float64 { return float64(r) * 10e-6 }
	ev := j.Evidence()
	x := job.NewIndex(&ev, rca.Options{}.WithDefaults())
	tl := newTimeline(x, ev.Timeline)
	for r := 1; r < j.World(); r++ {
		list := tl.ranks[r]
		for _, i := range []int32{list[0], list[len(list)/2], list[len(list)-1]} {
			own := tl.segs[i].end
			// What rank 0's clock said then: offset and drift undone by hand.
			true0 := float64(own-1e15-int64(r)*3e9) / (1 + float64(r)*10e-6)
			if d := math.Abs(float64(tl.clock[r].toReference(own)-1e15) - true0); d > 1e6 {
				t.Errorf("rank %d: off by %.3f ms", r, d/1e6)
			}
		}
	}
}

func TestSlowNeedsTwoIterations(t *testing.T) {
	j := rcatest.NewSlowJob(2, 1, 1)
	j.Iters = 1
	v := verdictOf(j.Evidence(), rca.Options{})
	if v.Class != rca.Unknown || v.Confidence > 0.5 || len(v.Culprits) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestSlowDeterministic(t *testing.T) {
	j := rcatest.NewSlowJob(4, 2, 2)
	j.Compute = rcatest.One(5, 1.5)
	ev := j.Evidence()
	want, err := json.Marshal(verdictOf(ev, rca.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		e := ev
		e.Timeline = slices.Clone(ev.Timeline)
		j.Rng.Shuffle(len(e.Timeline), func(a, b int) { e.Timeline[a], e.Timeline[b] = e.Timeline[b], e.Timeline[a] })
		got, err := json.Marshal(verdictOf(e, rca.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("the order of the timeline changes the verdict:\n%s\n%s", want, got)
		}
	}
}

// TestSlowWithRanksMissing: a fifth of the ranks unseen never makes an innocent guilty.
func TestSlowWithRanksMissing(t *testing.T) {
	found := 0
	const runs = 40
	for run := range runs {
		j := rcatest.NewSlowJob(4, 2, 2)
		j.Rng.Uint64()
		slow := run % j.World()
		j.Compute = rcatest.One(slow, 1.5)
		ev := j.Evidence()
		gone := map[int]bool{}
		for r := range j.World() {
			gone[r] = (r*2654435761+run*40503)%5 == 0
		}
		ev.Ranks = slices.DeleteFunc(ev.Ranks, func(r rca.Rank) bool { return gone[r.ID] })
		ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return gone[s.Rank] })
		v := verdictOf(ev, rca.Options{})
		for _, r := range rcatest.Accused(v) {
			if r != slow {
				t.Errorf("rank %d slow, %v unseen: names %d\n%s", slow, gone, r, v.Summary)
			}
		}
		if slices.Contains(rcatest.Accused(v), slow) {
			found++
		} else if v.Class != rca.Unknown || !slices.Contains(v.Ask, slow) {
			t.Errorf("rank %d slow and unseen: %s, asks for %v", slow, v.Summary, v.Ask)
		}
	}
	t.Logf("named %d of %d", found, runs)
	if found < runs/2 {
		t.Errorf("named only %d of %d", found, runs)
	}
}

// TestSlowNetworkDegrades: with a fifth of the ranks silent and a tenth of the records lost, on clocks that do not agree,
// the verdict on a slow sender widens or stays; it never moves to an innocent.
func TestSlowNetworkDegrades(t *testing.T) {
	found := 0
	const runs = 16
	for run := range runs {
		j := rcatest.NewSlowJob(4, 2, 2)
		slow := run % j.World()
		j.Send = rcatest.One(slow, 4)
		j.Offset = func(r int) int64 { return int64((r*7919+run)%101-50) * int64(time.Millisecond) }
		j.Drift = func(r int) float64 { return float64((r*31+run)%201-100) * 1e-6 }
		ev := j.Evidence()
		gone := func(r int) bool { return (r*2654435761+run*40503)%5 == 0 }
		n := uint64(run)
		ev.Ranks = slices.DeleteFunc(ev.Ranks, func(r rca.Rank) bool { return gone(r.ID) })
		ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool {
			n = n*6364136223846793005 + 1442695040888963407
			return gone(s.Rank) || n>>33%10 == 0
		})
		v := verdictOf(ev, rca.Options{})
		for _, r := range rcatest.Accused(v) {
			if r >= 0 && r != slow {
				t.Errorf("rank %d sends slowly, names %d (%s)", slow, r, v.Summary)
			}
		}
		if slices.Contains(rcatest.Accused(v), slow) {
			found++
		}
	}
	if found < runs/5 {
		t.Errorf("named %d of %d", found, runs)
	}
}

// TestTooEarlyIsUnknown: one long iteration says that something is wrong, not what.
func TestTooEarlyIsUnknown(t *testing.T) {
	j := rcatest.NewSlowJob(4, 2, 2)
	j.Iters = 8
	j.Compute = func(_, it int) float64 { return pick(it == 6, 1.5, 1.0) }
	if v := verdictOf(j.Evidence(), rca.Options{IrregularFactor: 1.2}); v.Class != rca.Unknown || !strings.Contains(v.Summary, "too early") {
		t.Errorf("%s: %s", v.Class, v.Summary)
	}
}

func TestChangePoint(t *testing.T) {
	for _, c := range []struct {
		series []int64
		at     int
		ratio  float64
	}{
		{[]int64{100, 101, 99, 100, 100, 101, 99}, 0, 1},
		{[]int64{100, 101, 99, 100, 150, 151, 149, 150}, 4, 1.49},
		{[]int64{100, 101, 99, 100, 100, 400, 101, 99, 100}, 0, 1},
		{[]int64{150, 151, 149, 100, 101, 99}, 0, 1},        // Faster is no trouble.
		{[]int64{100, 101, 99, 100, 100, 140, 200}, 5, 1.4}, // Iterations are long, and it is early.
		{[]int64{100, 101, 99, 100, 100, 100, 200}, 6, 1},   // One may be a pause.
		{nil, 0, 1},
	} {
		at, ratio := changePoint(c.series)
		if ratio > 1 && at != c.at || math.Abs(ratio-c.ratio) > 0.02 {
			t.Errorf("%v: %d %g, want %d %g", c.series, at, ratio, c.at, c.ratio)
		}
	}
}
