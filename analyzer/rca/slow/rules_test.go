// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// late gives a rank's factor from the middle of the job on.
func late(is func(r int) bool, factor float64) func(r, it int) float64 {
	return func(r, it int) float64 { return pick(is(r) && it >= 8, factor, 1.0) }
}

// exchangesOf makes the collectives exchanges in which some ranks get three times as much.
func exchangesOf(more func(r int) bool) func(*rca.Evidence) {
	return func(ev *rca.Evidence) {
		for i := range ev.Timeline {
			s := &ev.Timeline[i]
			s.Func, s.Bytes = "AllToAllv", pick[int64](more(s.Rank), 3<<20, 1<<20)
		}
	}
}

// withoutFlows is a source that does not see the network.
func withoutFlows(ev *rca.Evidence) {
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		s.SendFlows, s.RecvFlows, s.SendActive, s.SendWait, s.RecvWait = 0, 0, 0, [3]time.Duration{}, [3]time.Duration{}
	}
}

// withoutKernels is a source that does not see when ranks come to an operation.
func withoutKernels(ev *rca.Evidence) {
	for i := range ev.Ranks {
		ev.Ranks[i].Caps &^= rca.SeesKernels
	}
}

// TestThrottledGPUs: where computation is not seen, a GPU at a lower clock is named when it is the only one and the job became slower.
func TestThrottledGPUs(t *testing.T) {
	throttled := func(rank int) rca.Fact {
		return rca.Fact{Host: "node2", Rank: rank, Component: "gpu", Kind: "clock_throttled", Value: 470}
	}
	for _, c := range []struct {
		name   string
		factor float64
		facts  []rca.Fact
		seen   func(*rca.Evidence)
		named  bool
	}{
		{"one", 2, []rca.Fact{throttled(5)}, withoutKernels, true},
		{"two", 2, []rca.Fact{throttled(4), throttled(5)}, withoutKernels, false},
		{"one, in a job that is as fast as ever", 1, []rca.Fact{throttled(5)}, withoutKernels, false},
		{"one, and all are seen to compute longer", 2, []rca.Fact{throttled(5)}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(4, 1, 2)
			j.Iters, j.Facts, j.Compute = 16, c.facts, late(func(int) bool { return true }, c.factor)
			ev := j.Evidence()
			if c.seen != nil {
				c.seen(&ev)
			}
			v := verdictOf(ev, rca.Options{})
			if got := rcatest.Accused(v); c.named != slices.Equal(got, []int{5}) || !c.named && len(got) > 0 || v.Page != c.named {
				t.Errorf("%s/%s accuses %v, page %v: %s", v.Class, v.Cause, got, v.Page, v.Summary)
			}
		})
	}
}

// TestAssumedGivesWay: what is assumed of a GPU goes behind what the replay shows of a NIC that accounts for half of it, and before what
// accounts for less.
func TestAssumedGivesWay(t *testing.T) {
	for _, c := range []struct {
		gain  float64 // Of the NIC.
		first rca.Class
	}{{1.3, rca.SlowComm}, {1.2, rca.SlowCompute}} {
		ev := rca.Evidence{JobID: "two", WorldSize: 1, Ranks: []rca.Rank{{ID: 0, Host: "node0", State: rca.ProcessRunning}}}
		fs := unseenWork(&ev).ranked([]finding{
			{class: rca.SlowCompute, gain: 1.5, weight: throttledWeight, assumed: true}, {class: rca.SlowComm, gain: c.gain, weight: 0.9},
		})
		if fs[0].class != c.first {
			t.Errorf("the NIC gains %g: %s goes first, want %s", c.gain, fs[0].class, c.first)
		}
	}
}

// ruleCase is a job that a row of the tables speaks for.
type ruleCase struct {
	rule       string
	dp, pp, tp int
	edit       func(*rcatest.SlowJob)
	seen       func(*rca.Evidence)
}

var ruleCases = []ruleCase{
	{"rank_beyond_peers", 4, 2, 2, func(j *rcatest.SlowJob) { j.Compute = rcatest.One(5, 1.5) }, nil},
	{"stage_beyond_past", 2, 2, 2, func(j *rcatest.SlowJob) { j.Compute = late(func(r int) bool { return r >= 4 }, 1.5) }, nil},
	{"rank_beyond_past", 4, 1, 2, func(j *rcatest.SlowJob) { j.Compute = late(func(r int) bool { return r < 5 }, 1.5) }, nil},
	{"uneven_stages", 2, 4, 1, func(j *rcatest.SlowJob) { j.Compute = func(r, _ int) float64 { return pick(r/2 == 3, 1.6, 1.0) } }, nil},
	{"rotating_load", 8, 1, 1, func(j *rcatest.SlowJob) {
		j.Compute = func(r, it int) float64 { return pick(r == (it*5)%8, 1.6, 1.0) }
	}, nil},
	{"network_place/end", 4, 2, 2, func(j *rcatest.SlowJob) { j.Send = rcatest.One(5, 4) }, nil},
	{"late_thread", 4, 2, 2, func(j *rcatest.SlowJob) { j.Flush = rcatest.One(5, 80) }, nil},
	{"everybody_computes", 4, 2, 2, func(j *rcatest.SlowJob) { j.Compute = late(func(int) bool { return true }, 1.4) }, nil},
	{"everybody_slower", 4, 2, 2, func(j *rcatest.SlowJob) { // Six of eight stand out, of hosts that are all short of something; a NIC does not account for it.
		j.Compute = func(r, it int) float64 { return pick(it >= 8, pick(r%8 < 6, 1.8, 1.2), 1.0) }
		j.Send = late(func(r int) bool { return r == 5 }, 2)
	}, nil},
	{"network_place_in_spells/end", 4, 1, 2, func(j *rcatest.SlowJob) {
		j.Iters = 200
		j.Send = func(r, it int) float64 { return pick(r == 5 && (it == 168 || it == 171), 10, 1.0) }
	}, nil},
	{"stage_beyond_others", 4, 6, 1, func(j *rcatest.SlowJob) { j.Compute = func(r, _ int) float64 { return pick(r/4 == 2, 1.6, 1.0) } }, nil},
	{"experts_beyond_others", 8, 1, 1, func(j *rcatest.SlowJob) { j.Compute = rcatest.One(5, 1.5) }, exchangesOf(func(r int) bool { return r == 5 })},
	{"experts_beyond_past", 8, 1, 1, func(j *rcatest.SlowJob) { j.Compute = late(func(r int) bool { return r < 4 }, 1.5) }, exchangesOf(func(r int) bool { return r < 4 })},
	{"network_place/every_transfer", 4, 1, 1, func(j *rcatest.SlowJob) { j.Send = late(func(int) bool { return true }, 8) }, nil},
	{"slow_group", 4, 2, 2, func(j *rcatest.SlowJob) { j.Send = func(r, _ int) float64 { return pick(r < 4, 8.0, 1.0) } }, withoutFlows},
	{"gpu_of_slow_group", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Send = func(r, _ int) float64 { return pick(r < 4, 8.0, 1.0) }
		j.Facts = []rca.Fact{{Host: "node0", Rank: 0, Component: "gpu", Kind: "xid", Value: 63}}
	}, withoutFlows},
	{"throttled_gpu", 4, 1, 2, func(j *rcatest.SlowJob) {
		j.Compute = late(func(int) bool { return true }, 2) // As all look that wait for the slow one.
		j.Facts = []rca.Fact{{Host: "node2", Rank: 5, Component: "gpu", Kind: "clock_throttled", Value: 470}}
	}, withoutKernels},
	{"whole_host_computes", 2, 1, 1, func(j *rcatest.SlowJob) {
		j.Compute = late(func(int) bool { return true }, 1.5)
		j.Facts = []rca.Fact{{Host: "node0", Rank: -1, Component: "cpu", Kind: "cpu_pressure", Value: 0.7}}
	}, nil},
	{"everybody_sends", 4, 2, 2, func(j *rcatest.SlowJob) { j.Send = late(func(int) bool { return true }, 4) }, exchangesOf(func(int) bool { return false })},
	{"may_take_turns", 4, 1, 2, func(j *rcatest.SlowJob) {
		j.Iters = 4
		j.Compute = func(r, _ int) float64 { return pick(r/2 == 1, 1.5, 1.0) }
	}, nil},
	{"may_wait_unseen", 4, 1, 1, func(j *rcatest.SlowJob) { j.Compute = rcatest.One(3, 1.6) }, unseenWithinHost},
	{"may_be_chance", 2, 1, 1, func(j *rcatest.SlowJob) {
		drawn := map[int]float64{}
		j.Rng, j.Iters = rand.New(rand.NewPCG(3, 1)), 12
		j.Compute = func(r, it int) float64 {
			k := eachTime(r, it)
			if drawn[k] == 0 {
				drawn[k] = math.Exp(0.3 * j.Rng.NormFloat64())
			}
			return drawn[k]
		}
	}, nil},
	{"last_iteration", 4, 1, 2, func(j *rcatest.SlowJob) {
		j.Iters = 8
		j.Compute = func(_, it int) float64 { return pick(it == 6, 2, 1.0) }
	}, nil},
	{"pauses", 4, 2, 2, func(j *rcatest.SlowJob) {
		j.Iters = 24
		j.Host = func(r, it int) time.Duration { return pick(r == 2 && it%6 == 5, 20*time.Second, 0) }
	}, nil},
	{"nobody", 4, 2, 2, func(*rcatest.SlowJob) {}, nil},
	{"histories_late", 4, 2, 2, func(*rcatest.SlowJob) {}, func(ev *rca.Evidence) {
		ev.Missing = append(ev.Missing, rca.Missing{What: "history", Name: "node1", Why: "no answer in time"})
	}},
	{"too_few_iterations", 2, 1, 1, func(j *rcatest.SlowJob) { j.Iters = 1 }, nil},
	{"nobody_seen", 4, 2, 2, func(*rcatest.SlowJob) {}, func(ev *rca.Evidence) {
		ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return s.Rank == 3 })
	}},
	{"unexplained", 4, 2, 2, func(*rcatest.SlowJob) {}, func(ev *rca.Evidence) { ev.Slowdown = 1.5 }},
	{"never_faster", 4, 2, 2, func(j *rcatest.SlowJob) { j.Send = rcatest.One(5, 1.8) }, nil},
	{"never_faster", 4, 2, 2, func(j *rcatest.SlowJob) { j.Send = func(r, _ int) float64 { return pick(r < 4, 1.8, 1.0) } }, withoutFlows},
	{"network_place/one_direction", 2, 1, 1, nil, ringOf(ring{slower: func(r int) float64 { return pick(r == 5, 2.0, behind(r)) }})},
	{"network_place/shared_path", 2, 1, 1, nil, ringOf(ring{slower: func(r int) float64 { return pick(r/2 == 2, 2.0, behind(r)) }})},
	{"most_groups", 2, 1, 1, nil, ringOf(ring{slower: func(int) float64 { return 1.3 }})},
	{"gpu_inside_host", 2, 1, 1, nil, ringOf(ring{slower: behind, unseen: 4, facts: []rca.Fact{
		{Host: "node3", Rank: 6, Component: "gpu", Kind: "nvlink_errors", Value: 9},
	}})},
	{"not_all_alike", 4, 2, 2, func(j *rcatest.SlowJob) { // A simulated proxy thread slept, and the verdict was that no machine is to blame.
		j.Send = func(r, it int) float64 { return pick(it >= 6, []float64{1.2, 2.2, 3.4, 6.6}[r%4], 1) }
	}, nil},
	{"accounts_for_too_little", 8, 1, 1, func(j *rcatest.SlowJob) { j.Compute = rcatest.One(5, 1.6) }, func(ev *rca.Evidence) {
		ev.Slowdown = 4
		withoutKernels(ev)
	}},
	{"all_hosts_busy", 4, 2, 2, func(j *rcatest.SlowJob) { j.Compute = rcatest.One(5, 1.5) }, func(ev *rca.Evidence) {
		for i := range ev.Ranks {
			ev.Ranks[i].ProxyRunDelay = 2 * longDelay
		}
	}},
}

// ringOf replaces a job by a ring of eight hosts whose operations take twice as long from the middle on.
func ringOf(r ring) func(*rca.Evidence) {
	r.hosts, r.pace = 8, 2
	return func(ev *rca.Evidence) { *ev = r.evidence() }
}

// verdict is that of a case.
func (c *ruleCase) verdict() rca.Verdict {
	j := rcatest.NewSlowJob(c.dp, c.pp, c.tp)
	j.Iters = 16
	if c.edit != nil {
		c.edit(j)
	}
	ev := j.Evidence()
	if c.seen != nil {
		c.seen(&ev)
	}
	return verdictOf(ev, rca.Options{})
}

// TestRules: each job's verdict names the row that speaks for it, or has it among the hypotheses.
func TestRules(t *testing.T) {
	for i := range ruleCases {
		c := &ruleCases[i]
		t.Run(c.rule, func(t *testing.T) {
			v := c.verdict()
			weighed := func(h rca.Hypothesis) bool { return h.Row == c.rule }
			if v.Row != c.rule && !slices.ContainsFunc(v.Hypotheses, weighed) {
				t.Errorf("%q says %s: %s", v.Row, v.Class, v.Summary)
			}
		})
	}
}

// TestEachRowDecides: without a row, the job that it speaks for gets another verdict. "nobody" is left out: without it there is none.
func TestEachRowDecides(t *testing.T) {
	outcome := func(v rca.Verdict) string {
		s := fmt.Sprint(v.Class, v.Cause, v.Page)
		for _, c := range v.Culprits {
			s += fmt.Sprint(" ", c.Rank, c.Group)
		}
		return s
	}
	decides := func(name string, without func()) {
		if name == "nobody" {
			return
		}
		shows := func(c *ruleCase) bool { rule, _, _ := strings.Cut(c.rule, "/"); return rule == name }
		var with, after []string
		for i := range ruleCases {
			if shows(&ruleCases[i]) {
				with = append(with, outcome(ruleCases[i].verdict()))
			}
		}
		without()
		for i := range ruleCases {
			if shows(&ruleCases[i]) {
				after = append(after, outcome(ruleCases[i].verdict()))
			}
		}
		if slices.Equal(with, after) {
			t.Errorf("without %q: %v as before", name, after)
		}
	}
	hs, ds, ss := hypotheses, doubts, silences
	defer func() { hypotheses, doubts, silences = hs, ds, ss }()
	for i := range hs {
		decides(hs[i].name, func() { hypotheses = slices.Delete(slices.Clone(hs), i, i+1) })
		hypotheses = hs
	}
	for i := range ds {
		decides(ds[i].name, func() { doubts = slices.Delete(slices.Clone(ds), i, i+1) })
		doubts = ds
	}
	for i := range ss {
		decides(ss[i].name, func() { silences = slices.Delete(slices.Clone(ss), i, i+1) })
		silences = ss
	}
}

// TestRulesHaveNames: no two rows have one name, each has a job that it speaks for, and those of a verdict are in the tables.
func TestRulesHaveNames(t *testing.T) {
	var names []string
	for _, h := range hypotheses {
		names = append(names, h.name)
	}
	for _, d := range doubts {
		names = append(names, d.name)
	}
	for _, s := range silences {
		names = append(names, s.name)
	}
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			t.Errorf("row %d is named %q", i, name)
		}
	}
	var shown []string
	for _, c := range ruleCases {
		name, _, _ := strings.Cut(c.rule, "/")
		if shown = append(shown, name); !slices.Contains(names, name) {
			t.Errorf("no row is named %q", name)
		}
	}
	for _, name := range names {
		if !slices.Contains(shown, name) {
			t.Errorf("no job shows what %q is for", name)
		}
	}
}

// unseenWithinHost has ranks 2 and 3 run operations that nothing is seen of, and shows no other of rank 2 either.
func unseenWithinHost(ev *rca.Evidence) {
	for _, r := range []int{2, 3} {
		ev.Ranks[r].Memberships = append(ev.Ranks[r].Memberships, rca.Membership{Comm: "shm", CommRank: r - 2, Called: 1000, Started: 1000, Completed: 1000})
	}
	ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return s.Rank == 2 })
}

// TestWaitsUnseenWithinHosts: without kernels, in shared memory, ranks of a host wait for each other unseen, so that the replay leaves them
// waiting. On NCCL 2.27.5 nobody was paged for a link whose transfers held up four fifths of each iteration.
func TestWaitsUnseenWithinHosts(t *testing.T) {
	for _, f := range []float64{4, 40, 400} {
		j := rcatest.NewSlowJob(2, 1, 2)
		j.Iters = 40
		j.Send = func(r, it int) float64 { return pick(r == 3 && it >= 16, f, 1) }
		ev := j.Evidence()
		withoutKernels(&ev)
		ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return strings.HasPrefix(string(s.Comm), "tp") })
		if v := verdictOf(ev, rca.Options{}); v.Class != rca.SlowComm || !v.Page || !slices.Equal(rcatest.Accused(v), []int{3}) {
			t.Errorf("%g times as long: %s pages %v, accuses %v: %s", f, v.Row, v.Page, rcatest.Accused(v), v.Summary)
		}
	}
}

// TestIterationThatDoesNotEnd: a job that became twenty times slower a minute ago has not ended a slow iteration yet. It is not healthy.
func TestIterationThatDoesNotEnd(t *testing.T) {
	for _, c := range []struct {
		since time.Duration // The last operation ended.
		first time.Duration // As rank 0 saw it, which was read first.
		want  rca.Class
	}{
		{time.Millisecond, time.Millisecond, rca.Healthy},
		{500 * time.Millisecond, 500 * time.Millisecond, rca.Healthy},
		{20 * time.Second, 20 * time.Second, rca.Unknown},
		{20 * time.Second, 500 * time.Millisecond, rca.Healthy}, // Rank 0 may have gone on since.
	} {
		ev := rcatest.NewSlowJob(4, 2, 2).Evidence()
		for r := range ev.Ranks {
			for _, comm := range []rca.CommID{"dp_0", "dp_1", "dp_2", "dp_3"} {
				ev.Ranks[r].Memberships = append(ev.Ranks[r].Memberships, rca.Membership{Comm: comm, SinceCompleted: pick(r == 0, c.first, c.since)})
			}
			ev.Ranks[r].Memberships = append(ev.Ranks[r].Memberships, rca.Membership{Comm: "idle", SinceCompleted: time.Hour})
		}
		if v := verdictOf(ev, rca.Options{}); v.Class != c.want || v.Page {
			t.Errorf("%v: %s, %s, page %v: %s", c.since, v.Class, v.Row, v.Page, v.Summary)
		}
	}
}

// TestStageThatIsPartlySeen: a stage has more to do than the others, and one of its two hosts was not seen. The other one was named: only the
// first would have shown that it is no slow machine.
func TestStageThatIsPartlySeen(t *testing.T) {
	for _, silent := range []int{-1, 8, 10} { // First rank of a host.
		j := rcatest.NewSlowJob(2, 4, 2)
		j.Compute = func(r, _ int) float64 { return pick(r/4 == 2, 1.15, 1) }
		ev := j.Evidence()
		ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return silent >= 0 && s.Rank/2 == silent/2 })
		if v := verdictOf(ev, rca.Options{}); len(rcatest.Accused(v)) > 0 || v.Page {
			t.Errorf("without %d: %s accuses %v: %s", silent, v.Row, rcatest.Accused(v), v.Summary)
		}
	}
}

// TestNodeDecidesWithinHost: of two ranks of a host that may wait for each other unseen, the one whose GPU has lost its clock is named.
func TestNodeDecidesWithinHost(t *testing.T) {
	for _, sick := range []int{2, 3} {
		j := rcatest.NewSlowJob(4, 1, 1)
		j.Compute = rcatest.One(3, 1.6)
		j.Facts = []rca.Fact{{Host: "node1", Rank: sick, Component: "gpu", Kind: "clock_throttled", Value: 470, Expected: 1410}}
		ev := j.Evidence()
		unseenWithinHost(&ev)
		if v := verdictOf(ev, rca.Options{}); v.Class != rca.SlowCompute || v.Cause != rca.CauseGPU || !v.Page || !slices.Equal(rcatest.Accused(v), []int{sick}) {
			t.Errorf("rank %d: %s/%s, page %v, accuses %v: %s", sick, v.Class, v.Cause, v.Page, rcatest.Accused(v), v.Summary)
		}
	}
}

// TestOneHostSeen: of a job on two hosts one did not tell. On NCCL 2.32.3 the other was paged for, which was as short of CPU: all ranks that
// were seen had become slower alike, and were its.
func TestOneHostSeen(t *testing.T) {
	for _, hosts := range []int{1, 2} {
		j := rcatest.NewSlowJob(2*hosts, 1, 1)
		j.Compute = late(func(int) bool { return true }, 1.6)
		j.Facts = []rca.Fact{{Host: "node0", Rank: -1, Component: "cpu", Kind: "cpu_pressure", Value: 0.9}}
		ev := j.Evidence()
		ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return s.Rank >= 2 })
		v := verdictOf(ev, rca.Options{})
		if got := rcatest.Accused(v); v.Page != (hosts == 1) || hosts > 1 && len(got) > 0 {
			t.Errorf("%d hosts: %s accuses %v, page %v: %s", hosts, v.Row, got, v.Page, v.Summary)
		}
	}
}

// TestLittleSlowerForGood: a job that has become a little slower for good is not healthy, although no row accounts for so little.
func TestLittleSlowerForGood(t *testing.T) {
	for _, times := range []float64{1, 1.08, 1.1} {
		j := rcatest.NewSlowJob(4, 1, 1)
		j.Compute = late(func(int) bool { return true }, times)
		v := verdictOf(j.Evidence(), rca.Options{})
		if want := pick(times > 1, "unexplained", "nobody"); v.Row != want {
			t.Errorf("%v times as long: %s %s: %s, want %s", times, v.Row, v.Class, v.Summary, want)
		}
	}
}
