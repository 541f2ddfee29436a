// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Analyze explains a job that stands still. ok is false when nothing does.
func Analyze(x *job.Index) (v rca.Verdict, ok bool) {
	if x.DiedTogether() {
		return diedTogether(x), true
	}
	w := buildWaitFor(x)
	if len(w.stuck) == 0 {
		return w.nobodyStuck()
	}
	hard, soft := w.findRoots()
	w.refine(hard)
	w.refine(soft)
	hard = append(hard, slices.DeleteFunc(slices.Clone(soft), func(r root) bool { return !r.leaf.hard })...)
	soft = slices.DeleteFunc(soft, func(r root) bool { return r.leaf.hard })
	hard, apart := w.outnumbered(hard)
	d := w.decide(hard, w.mayBeInside(append(soft, apart...)))
	moving := len(d.chosen) > 0 && !slices.ContainsFunc(d.chosen, func(r root) bool { return r.kind != rootMoving })
	if moving && len(x.Ev.Timeline) > 0 {
		return rca.Verdict{}, false // Whoever is waited for gets on: slow, not hung.
	}
	v = w.compose(&d)
	if v.Moving = moving; moving {
		v.Standstill = 0
	}
	v.Methods = append(v.Methods, w.votes(&d)...)
	return v, true
}

// decision is what was chosen among the roots, and what was not.
type decision struct {
	chosen  []root
	aside   []root // Reached, but not needed to explain anybody.
	covered float64
	dist    []int32 // From every vertex to the nearest chosen root.
	benign  bool
	silent  bool // Only ranks of which nothing is known explain the rest.
}

// decide chooses the roots that explain the ranks that stand still: hard ones first, and soft ones only for whom those
// leave unexplained. A benign reason stands only where no other explains the same ranks.
func (w *waitFor) decide(hard, soft []root) decision {
	var d decision
	var benign []root
	hard = w.firstOdd(hard)
	hard, d.aside = w.withoutEchoes(hard)
	for _, r := range hard {
		if r.leaf.class == rca.Benign {
			benign = append(benign, r)
		} else {
			d.chosen = append(d.chosen, r)
		}
	}
	if len(d.chosen) == 0 {
		d.chosen, d.benign = benign, len(benign) > 0
	} else {
		d.aside = append(d.aside, benign...)
	}
	d.covered, d.dist = w.cover(d.chosen)
	if dead := w.dead(); len(d.chosen) == 0 && len(dead) > 0 {
		// What others show is weak, and a process that is gone holds whoever needs it, in ways that may not be seen.
		d.chosen, d.covered, d.aside = dead, 1, append(d.aside, soft...)
	} else if d.covered < 1 && d.benign || len(d.chosen) == 0 {
		d.soft(w, soft)
	} else {
		d.aside = append(d.aside, soft...)
	}
	// The one that explains most comes first.
	if len(d.chosen) > 1 {
		d.order(w)
	}
	return d
}

// withoutEchoes sets aside kernels that have not started where another fault was there as early. A kernel runs behind all that is
// in front of it on its GPU, computation and events of other streams among it, and that may wait for what the other fault
// holds in ways that nothing shows: it is no second fault.
func (w *waitFor) withoutEchoes(hard []root) (kept, echoes []root) {
	since := time.Duration(-1) // How long the oldest other fault has held its operation.
	for i := range hard {
		if r := &hard[i]; r.what != flawKernel && r.inst >= 0 && r.leaf.class != rca.Benign {
			since = max(since, w.insts[r.inst].age)
		}
	}
	for _, r := range hard {
		if r.kind == rootFlaw && r.what == flawKernel && since >= 0 && r.inst >= 0 && w.insts[r.inst].age <= since+w.Opt.HangAfter {
			echoes = append(echoes, r)
		} else {
			kept = append(kept, r)
		}
	}
	return kept, echoes
}

// firstOdd keeps, of several disagreements on one communicator, the first: what follows a wrong call is its echo.
func (w *waitFor) firstOdd(rs []root) []root {
	first := map[int32]int64{}
	for i := range rs {
		if rs[i].kind == rootOdd {
			k := &w.insts[rs[i].inst].key
			if p, ok := first[k.comm]; !ok || k.place < p {
				first[k.comm] = k.place
			}
		}
	}
	return slices.DeleteFunc(rs, func(r root) bool {
		return r.kind == rootOdd && w.insts[r.inst].key.place > first[w.insts[r.inst].key.comm]
	})
}

// soft takes the best of what is left: something seen before something unseen.
func (d *decision) soft(w *waitFor, soft []root) {
	var seen, unseen []root
	for _, r := range soft {
		if r.kind == rootUnseen {
			unseen = append(unseen, r)
		} else {
			seen = append(seen, r)
		}
	}
	if d.benign {
		// Some wait for something else than the benign reason: it is not the whole story.
		d.aside = append(d.aside, unseen...)
		d.aside = append(d.aside, seen...)
		return
	}
	if len(unseen) > 0 {
		if behind := w.behind(unseen); len(behind) > 0 {
			d.chosen = behind
			d.aside = append(append(d.aside, seen...), unseen...)
			d.covered, d.dist = w.cover(unseen)
			return
		}
	}
	switch {
	case len(unseen) == 0 || len(seen) > 0 && best(seen) > best(unseen):
		d.aside = append(d.aside, unseen...)
		d.enough(w, seen)
	default:
		d.chosen, d.silent = unseen, true
		d.aside = append(d.aside, seen...)
	}
	d.covered, d.dist = w.cover(d.chosen)
}

// enough takes the likeliest roots until every rank that can be explained is.
func (d *decision) enough(w *waitFor, rs []root) {
	rs = slices.Clone(rs)
	slices.SortStableFunc(rs, func(a, b root) int { return cmp.Compare(b.leaf.weight, a.leaf.weight) })
	const few = 32
	covered := 0.0
	for i, r := range rs {
		c, _ := w.cover(append(slices.Clone(d.chosen), r))
		if c <= covered || i >= few {
			d.aside = append(d.aside, r)
			continue
		}
		covered = c
		d.chosen = append(d.chosen, r)
	}
}

// behind gives what ranks show that nobody is seen to wait for, because those who would wait for them were not seen:
// faults and absences of ranks that share a communicator with an unseen one.
func (w *waitFor) behind(unseen []root) []root {
	near := make(map[int32]bool)
	for c := range w.Comms {
		k := &w.Comms[c]
		touches := func(r root) bool { return k.Unnamed == r.nodes[0] || k.Find(r.nodes[0]) != nil }
		if !slices.ContainsFunc(unseen, touches) {
			continue
		}
		// Whom the unseen may wait for stands out: several that are outside alike may as well have nothing left to do.
		several := w.idleIn(k) > 1
		for i := range k.Members {
			if n := k.Members[i].Node; !several || !w.isIdle(n) {
				near[n] = true
			}
		}
	}
	var out []root
	for v := range int32(len(w.Nodes)) {
		if !near[v] || w.Unseen(v) {
			continue
		}
		h, ok := w.hardRoot(v)
		if !ok && w.isIdle(v) {
			if l := w.leafOf(v, -1); l.class == rca.NotEntered && l.weight >= w.Opt.NameConfidence {
				h, ok = root{kind: rootOutside, nodes: []int32{v}, peer: -1, inst: -1, channel: -1, vertex: []int32{v}, leaf: l}, true
			}
		}
		if ok {
			h.leaf.weight *= doubtWeight
			out = append(out, h)
		}
	}
	return out
}

// isIdle says that a living rank waits for nobody and is in nothing.
func (w *waitFor) isIdle(v int32) bool {
	return !w.Unseen(v) && !job.Dead(w.Nodes[v].Rank) && w.row[v] == w.row[v+1] && !w.inFlight(v)
}

func (w *waitFor) idleIn(c *job.Comm) int {
	n := 0
	for i := range c.Members {
		if w.isIdle(c.Members[i].Node) {
			n++
		}
	}
	return n
}

func best(rs []root) float64 {
	b := 0.0
	for _, r := range rs {
		b = max(b, r.leaf.weight)
	}
	return b
}

// cover gives the share of stuck ranks that the roots explain.
func (w *waitFor) cover(rs []root) (float64, []int32) {
	var targets []int32
	for _, r := range rs {
		targets = append(targets, r.vertex...)
	}
	dist := w.distances(targets)
	n := 0
	for _, s := range w.stuck {
		if dist[s] >= 0 || w.Ev.Partial && w.sharesOp(s, rs) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(w.stuck))), dist
}

// sharesOp says that a rank is inside the collective that one of the roots shows in. Its members leave together: it waits
// for the root, though a search has not seen the ranks in between.
func (w *waitFor) sharesOp(n int32, rs []root) bool {
	return slices.ContainsFunc(w.acts[n], func(a active) bool {
		return a.stuck && !job.IsP2P(a.op) && slices.ContainsFunc(rs, func(r root) bool { return r.inst == a.inst && r.leaf.hard })
	})
}

func (d *decision) order(w *waitFor) {
	const few = 32 // Beyond, the order is by rank: a walk for each would cost more than it tells.
	if len(d.chosen) > few {
		return
	}
	share := make(map[int32]float64, len(d.chosen))
	for _, r := range d.chosen {
		share[r.vertex[0]], _ = w.cover([]root{r})
	}
	slices.SortStableFunc(d.chosen, func(a, b root) int {
		return cmp.Or(cmp.Compare(share[b.vertex[0]], share[a.vertex[0]]), cmp.Compare(b.leaf.weight, a.leaf.weight))
	})
}

// confidence is the probability that class and culprits are right. Every factor only ever takes away: less evidence
// never makes surer.
func (w *waitFor) confidence(d *decision) float64 {
	if len(d.chosen) == 0 {
		return nobodyWeight
	}
	c := 1.0
	for _, r := range d.chosen {
		c = min(c, r.leaf.weight)
	}
	for range min(len(d.chosen)-1, 4) {
		c *= severalFactor
	}
	c *= d.explained() * (1 - job.UnseenDiscount*w.unseenShare()) * w.KeptFactor()
	if d.silent && len(d.chosen) > 1 {
		c *= silentRivalsFactor
	}
	return c
}

// unseenShare is the share of the job's ranks of which nothing is known; in a search, of the ranks that it came to.
func (w *waitFor) unseenShare() float64 {
	if !w.Ev.Partial {
		return w.UnseenShare()
	}
	came, unseen := 0, 0
	for v, reached := range w.reach(w.stuck)[:len(w.Nodes)] {
		if !reached {
			continue
		}
		came++
		if w.Unseen(int32(v)) {
			unseen++
		}
	}
	return float64(unseen) / float64(max(1, came))
}

// diedTogether is the verdict on a job of which all processes died at once, with nothing before it.
func diedTogether(x *job.Index) rca.Verdict {
	v := job.NewVerdict(x)
	v.RanksVisited = x.Seen
	v.Confidence = groupWeight
	v.Summary = fmt.Sprintf(words.DiedTogether, x.Seen)
	v.Action = words.ReadLauncher
	return v
}

// dead gives the processes that have died or are stopped, as roots that nobody is seen to wait for.
func (w *waitFor) dead() []root {
	var out []root
	for n := range w.Nodes {
		if r := w.Nodes[n].Rank; r != nil && (r.State == rca.ProcessGone || r.State == rca.ProcessStopped) {
			out = append(out, root{kind: rootDead, nodes: []int32{int32(n)}, peer: -1, inst: -1, channel: -1, leaf: w.deadLeaf(int32(n), -1), vertex: []int32{int32(n)}})
		}
	}
	return out
}

// nobodyStuck looks at processes alone: one that died while others live is a culprit before anybody waits for it.
func (w *waitFor) nobodyStuck() (rca.Verdict, bool) {
	d := decision{chosen: w.dead()}
	exited := slices.ContainsFunc(w.Nodes, func(n job.Node) bool { return n.Rank != nil && n.Rank.State == rca.ProcessExited })
	switch {
	case len(d.chosen) > 0:
		d.dist = make([]int32, w.n)
		d.covered = 1
		v := w.compose(&d)
		return v, true
	case exited && w.jobEnding():
		v := job.NewVerdict(w.Index)
		v.Class, v.Cause, v.Confidence = rca.Benign, rca.CauseJobEnd, jobEndWeight
		v.Summary = words.JobEnds
		v.Action = rca.ActionFor(rca.Benign, rca.CauseJobEnd)
		return v, true
	}
	return rca.Verdict{}, false
}
