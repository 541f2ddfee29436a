// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// decision is what was chosen among the candidates, and what was not.
type decision struct {
	chosen  []candidate
	aside   []candidate // Reached, but not needed to explain anybody.
	covered float64
	dist    []int32 // From every vertex to the nearest chosen candidate.
	unseen  bool    // Only ranks of which nothing is known explain the rest.
}

// cost is what it takes to believe a candidate: nothing where nobody else's waiting explains what it shows, for that is there whatever
// else is.
func (c *candidate) cost() float64 {
	if c.strong() {
		return 0
	}
	return 1 - c.weight
}

// choose gives the cheapest candidates that explain the ranks that stand still: one explains every rank that waits for it, directly or
// through others. Of the following, in order, it takes the first of which there are any, all that cost nothing, and of the others the
// cheapest until no rank more is explained:
//
//  1. strong faults;
//  2. strong benign reasons, for a fault beside one is none the less a fault;
//  3. processes that are gone, which hold whoever needs them in ways that may not be seen;
//  4. what ranks show for which unseen ranks may wait;
//  5. the seen where the best of them beats the best of the unseen, else these, all of them.
func (w *waitFor) choose(cs []candidate) decision {
	var faults, benign, weaker, seen, unseen []candidate
	for _, c := range cs {
		switch {
		case !c.strong():
			weaker = append(weaker, c)
			if c.kind == kindUnseen {
				unseen = append(unseen, c)
			} else {
				seen = append(seen, c)
			}
		case c.class == rca.Benign:
			benign = append(benign, c)
		default:
			faults = append(faults, c)
		}
	}
	var d decision
	faults, d.aside = w.withoutEchoes(w.firstOdd(faults))
	free := faults
	if len(free) == 0 {
		free, benign = benign, nil
	}
	switch dead := w.dead(); {
	case len(free) > 0:
		d.chosen, _ = w.cheapest(free)
		d.aside = slices.Concat(d.aside, benign, weaker)
		d.covered, d.dist = w.cover(d.chosen)
	case len(dead) > 0:
		d.chosen, d.aside = dead, weaker
		_, d.dist = w.cover(nil)
		d.covered = 1 // They may hold anybody.
	default:
		w.chooseWeaker(&d, seen, unseen)
	}
	w.byShare(d.chosen)
	return d
}

// chooseWeaker chooses where nothing strong explains anybody.
func (w *waitFor) chooseWeaker(d *decision, seen, unseen []candidate) {
	explaining := unseen
	switch behind := w.behind(unseen); {
	case len(behind) > 0:
		d.chosen, d.aside = behind, slices.Concat(seen, unseen)
	case beats(seen, unseen):
		d.chosen, d.aside = w.cheapest(seen)
		d.aside = slices.Concat(unseen, d.aside)
		explaining = d.chosen
	default:
		d.chosen, d.aside, d.unseen = unseen, seen, true
	}
	d.covered, d.dist = w.cover(explaining)
}

// beats says that the best of some candidates costs less than the best of their rivals.
func beats(cs, rivals []candidate) bool {
	least := func(cs []candidate) float64 {
		cost := 1.0
		for i := range cs {
			cost = min(cost, cs[i].cost())
		}
		return cost
	}
	return len(rivals) == 0 || least(cs) < least(rivals)
}

// cheapest takes what costs nothing, and of the rest the cheapest until every rank that can be explained is.
func (w *waitFor) cheapest(cs []candidate) (chosen, aside []candidate) {
	cs = slices.Clone(cs)
	slices.SortStableFunc(cs, func(a, b candidate) int { return cmp.Compare(a.cost(), b.cost()) })
	const few = 32
	covered := 0.0
	for i, c := range cs {
		if c.cost() > 0 {
			share, _ := w.cover(append(slices.Clone(chosen), c))
			if share <= covered || i >= few {
				aside = append(aside, c)
				continue
			}
			covered = share
		}
		chosen = append(chosen, c)
	}
	return chosen, aside
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

// isIdle says that a living rank waits for nobody and is in nothing.
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

// sharesOp says that a rank is inside the collective that one of the candidates shows in. Its members leave together: it waits
// for that, though a search has not seen the ranks in between.
func (w *waitFor) sharesOp(n int32, cs []candidate) bool {
	return slices.ContainsFunc(w.acts[n], func(a active) bool {
		return a.stuck && !job.IsP2P(a.op) && slices.ContainsFunc(cs, func(c candidate) bool { return c.inst == a.inst && c.strong() })
	})
}

// byShare puts first what explains most.
func (w *waitFor) byShare(cs []candidate) {
	const few = 32 // Beyond, the order is by rank: a walk for each would cost more than it tells.
	if len(cs) < 2 || len(cs) > few {
		return
	}
	share := make(map[int32]float64, len(cs))
	for _, c := range cs {
		share[c.vertex[0]], _ = w.cover([]candidate{c})
	}
	slices.SortStableFunc(cs, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(share[b.vertex[0]], share[a.vertex[0]]), cmp.Compare(b.weight, a.weight))
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
