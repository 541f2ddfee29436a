// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/choice"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// decision is what was chosen among the candidates, and what was not.
type decision struct {
	chosen  []candidate
	aside   []candidate // Reached, but not needed to explain anybody.
	covered float64
	dist    []int32 // From every vertex to the nearest chosen candidate.
	tied    bool    // Weak ones that explain the same and do not lead each other.
	unseen  bool    // Only ranks of which nothing is known explain the rest.
}

// cost is what it takes to believe a candidate: nothing where nobody else's waiting explains what it shows, for that is there whatever
// else is. A benign reason costs more than any fault that was seen, and less than what has to be assumed.
func (c *candidate) cost() float64 {
	switch {
	case !c.strong():
		return max(1-c.weight, 2*benignCost) // What has to be assumed never goes before what was seen.
	case c.class == rca.Benign:
		return benignCost
	}
	return 0
}

// choose gives the cheapest candidates that explain the ranks that stand still: one explains every rank that waits for it, directly or
// through others. What is strong was seen, so all of the lowest cost is chosen, even where it does not explain everybody. Only where
// nothing strong was reached does anything have to be assumed.
func (w *waitFor) choose(cs []candidate) (d decision) {
	cs = slices.Clone(cs)
	slices.SortStableFunc(cs, func(a, b candidate) int { return cmp.Compare(a.cost(), b.cost()) })
	switch n := asCheap(cs); {
	case n > 0:
		var echoes []candidate
		d.chosen, echoes = w.withoutEchoes(w.firstOdd(cs[:n:n]))
		d.aside = slices.Concat(echoes, cs[n:])
		d.covered, d.dist = w.cover(d.chosen)
	default:
		w.assume(&d, cs)
	}
	w.byShare(d.chosen)
	return d
}

// asCheap counts the strong ones among sorted candidates that cost no more than the first.
func asCheap(cs []candidate) int {
	n := slices.IndexFunc(cs, func(c candidate) bool { return !c.strong() || c.cost() > cs[0].cost() })
	return pick(n < 0, len(cs), n)
}

// assume chooses where nothing strong was reached. A process that has died, or a fault beside an unseen rank, was seen and holds
// others in ways that were not: it goes before everything that is weak. The seen and the unseen explain the same waiting, so one of
// the seen is named only where it leads the best of the unseen by the margin. Else the answer is all of the unseen.
func (w *waitFor) assume(d *decision, cs []candidate) {
	var seen, unseen []candidate
	for _, c := range cs {
		if c.kind == kindUnseen {
			unseen = append(unseen, c)
		} else {
			seen = append(seen, c)
		}
	}
	explaining := unseen
	if dead := w.dead(); len(dead) > 0 {
		d.chosen, d.aside = dead, cs
		_, d.dist = w.cover(nil)
		d.covered = 1 // They may hold anybody.
		return
	}
	switch behind := w.behind(unseen); {
	case len(behind) > 0:
		d.chosen, d.aside = behind, cs
	case len(unseen) == 0 || len(seen) > 0 && choice.Leads(seen[0].weight, unseen[0].weight):
		d.chosen, d.aside, d.tied = w.cheapest(seen)
		d.aside = append(unseen, d.aside...)
		explaining = d.chosen
	default:
		d.chosen, d.aside, d.unseen = unseen, seen, true
	}
	d.covered, d.dist = w.cover(explaining)
}

// cheapest takes of weak candidates, cheapest first, those that explain a further rank. One that explains as much as the first, that the
// first does not lead, and that accuses others is its rival: both are chosen then, and neither is named.
func (w *waitFor) cheapest(cs []candidate) (chosen, aside []candidate, tied bool) {
	const few = 32 // A walk for each: what is beyond explains little.
	covered, first := 0.0, 0.0
	for i, c := range cs {
		if i >= few {
			return chosen, append(aside, cs[i:]...), tied
		}
		more := append(slices.Clone(chosen), c)
		share, _ := w.cover(more)
		rival := len(chosen) > 0 && !choice.Leads(chosen[0].weight, c.weight) && choice.Disjoint(chosen[0].nodes, c.nodes)
		if rival {
			alone, _ := w.cover([]candidate{c})
			rival = alone >= first
		}
		if share <= covered && !rival {
			aside = append(aside, c)
			continue
		}
		if len(chosen) == 0 {
			first = share
		}
		tied = tied || rival && share <= covered
		chosen, covered = more, share
	}
	return chosen, aside, tied
}

// withoutEchoes sets aside kernels that have not started where another fault was there as early. A kernel runs behind all that is
// in front of it on its GPU, computation and events of other streams among it, and that may wait for what the other fault
// holds in ways that nothing shows: it is no second fault.
func (w *waitFor) withoutEchoes(cs []candidate) (kept, echoes []candidate) {
	since := time.Duration(-1) // How long the oldest other fault has held its operation.
	for i := range cs {
		if c := &cs[i]; !c.is(&kernelNotStarted) && c.inst >= 0 {
			since = max(since, w.insts[c.inst].age)
		}
	}
	for _, c := range cs {
		if c.is(&kernelNotStarted) && since >= 0 && w.insts[c.inst].age <= since+w.Opt.HangAfter {
			echoes = append(echoes, c)
		} else {
			kept = append(kept, c)
		}
	}
	return kept, echoes
}

// firstOdd keeps, of several disagreements on one communicator, the first: what follows a wrong call is its echo.
func (w *waitFor) firstOdd(cs []candidate) []candidate {
	first := map[int32]int64{}
	for i := range cs {
		if cs[i].kind == kindOdd {
			k := &w.insts[cs[i].inst].key
			if p, ok := first[k.comm]; !ok || k.place < p {
				first[k.comm] = k.place
			}
		}
	}
	return slices.DeleteFunc(cs, func(c candidate) bool {
		return c.kind == kindOdd && w.insts[c.inst].key.place > first[w.insts[c.inst].key.comm]
	})
}

// behind gives what ranks show that nobody is seen to wait for, because those who would wait for them were not seen:
// faults and absences of ranks that share a communicator with an unseen one.
func (w *waitFor) behind(unseen []candidate) []candidate {
	near := make(map[int32]bool)
	for c := range w.Comms {
		k := &w.Comms[c]
		touches := func(r candidate) bool { return k.Unnamed == r.nodes[0] || k.Find(r.nodes[0]) != nil }
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
	var out []candidate
	for v := range int32(len(w.Nodes)) {
		if !near[v] || w.Unseen(v) {
			continue
		}
		c, ok := w.showsStrongly(v)
		if !ok && w.isIdle(v) {
			c = w.outside(v, -1)
			ok = c.class == rca.NotEntered && c.weight >= w.Opt.NameConfidence
		}
		if ok {
			c.weight *= doubtWeight
			out = append(out, c)
		}
	}
	return out
}

// isIdle reports whether a living rank waits for nobody and is in nothing.
func (w *waitFor) isIdle(v int32) bool {
	return !w.Unseen(v) && !job.Dead(w.Nodes[v].Rank) && len(w.outOf(v)) == 0 && !w.inFlight(v)
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

// cover gives the share of stuck ranks that some candidates explain.
func (w *waitFor) cover(cs []candidate) (float64, []int32) {
	var targets []int32
	for _, c := range cs {
		targets = append(targets, c.vertex...)
	}
	dist := w.distances(targets)
	n := 0
	for _, s := range w.stuck {
		if dist[s] >= 0 || w.Ev.Partial && w.sharesOp(s, cs) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(w.stuck))), dist
}

// sharesOp reports whether a rank is inside the collective that one of the candidates shows in. Its members leave together: it waits
// for that, though a search has not seen the ranks in between.
func (w *waitFor) sharesOp(n int32, cs []candidate) bool {
	return slices.ContainsFunc(w.acts[n], func(a active) bool {
		return a.stuck && !job.IsP2P(a.op) && slices.ContainsFunc(cs, func(c candidate) bool { return c.inst == a.inst && c.strong() })
	})
}

// byShare puts first what explains most, and of what explains as much a dead process or a call that no other meets: these last.
func (w *waitFor) byShare(cs []candidate) {
	const few = 32 // Beyond, the order is by rank: a walk for each would cost more than it tells.
	if len(cs) < 2 || len(cs) > few {
		return
	}
	share := make(map[int32]float64, len(cs))
	for _, c := range cs {
		share[c.vertex[0]], _ = w.cover([]candidate{c})
	}
	lasts := func(c candidate) int { return pick(c.kind == kindDead || c.kind == kindOdd, 0, 1) }
	slices.SortStableFunc(cs, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(share[b.vertex[0]], share[a.vertex[0]]), cmp.Compare(b.weight, a.weight), cmp.Compare(lasts(a), lasts(b)))
	})
}

// confidence is the probability that class and culprits are right. Every factor only ever takes away: less evidence
// never makes surer.
func (w *waitFor) confidence(d *decision) float64 {
	if len(d.chosen) == 0 {
		return nobodyWeight
	}
	c := 1.0
	for i := range d.chosen {
		c = min(c, d.chosen[i].weight)
	}
	for range min(len(d.chosen)-1, 4) {
		c *= severalFactor
	}
	c *= d.explained() * (1 - job.UnseenDiscount*w.unseenShare()) * w.KeptFactor()
	if d.unseen && len(d.chosen) > 1 {
		c *= unseenRivalsFactor
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

// dead gives the processes that have died or are stopped, as candidates that nobody is seen to wait for.
func (w *waitFor) dead() []candidate {
	var out []candidate
	for n := range w.Nodes {
		if r := w.Nodes[n].Rank; r != nil && (r.State == rca.ProcessGone || r.State == rca.ProcessStopped) {
			out = append(out, w.died(int32(n), -1))
		}
	}
	return out
}
