// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// spell is how one rank's iterations differ.
type spell struct {
	long, usual []bool // By iteration.
	times       float64
	extra       float64 // What the long ones took beyond the usual, together, ns.
	since       float64 // From the first of them to the end of the last whole iteration, ns.
	shown       []bool  // The long ones in which the rank's flows were slow, and
	share       float64 // what part of the extra time they were outstanding longer.
}

// spells finds the ranks' iterations that took longer than others; nil for ranks that had none, or for which they were not
// the exception.
func (a *analysis) spells() []*spell {
	var out []*spell
	for n, lengths := range a.now.iterationLengths() {
		if s := spellOf(lengths); s != nil {
			if out == nil {
				out = make([]*spell, len(a.now.ranks))
			}
			out[n] = s
		}
	}
	return out
}

// spellOf tells long iterations from usual ones; lengths in ns, 0 unknown.
func spellOf(lengths []int64) *spell {
	known := slices.DeleteFunc(slices.Clone(lengths), func(d int64) bool { return d == 0 })
	if len(known) == 0 {
		return nil
	}
	slices.Sort(known)
	usual := known[(len(known)-1)/3] // Half of them may have been touched.
	s := &spell{long: make([]bool, len(lengths)), usual: make([]bool, len(lengths)), shown: make([]bool, len(lengths))}
	var longs []int64
	others := 0
	for k, d := range lengths {
		times := float64(d) / float64(usual)
		s.long[k], s.usual[k] = times >= spellFactor, d > 0 && times < usualFactor
		if s.usual[k] {
			others++
		}
		if s.long[k] {
			longs = append(longs, d)
			s.extra += float64(d - usual)
		}
		if len(longs) > 0 {
			s.since += float64(d)
		}
	}
	if len(longs) == 0 || others < max(leastUsual, len(longs)) {
		return nil
	}
	s.times = float64(median64(longs)) / float64(usual)
	return s
}

// placeInSpells finds the place in the network that is slow in the iterations that took longer, and in them alone. What was so in one
// iteration is told and does not page: a blip (C5).
func (a *analysis) placeInSpells() (finding, bool) {
	spells := a.spells()
	if spells == nil {
		return finding{}, false
	}
	groups := a.flowsInSpells(spells)
	f, ok := a.locateNet(groups, a.lateFlushes(), 0)
	f.against = nil // It is slow in a few iterations, and compared with the others already.
	if !ok || f.class != rca.SlowComm {
		return f, false
	}
	var worst *spell
	for _, s := range spells {
		if s != nil && s.share >= spellShare && (worst == nil || s.share > worst.share) {
			worst = s
		}
	}
	if worst == nil {
		return f, false
	}
	shown := count(worst.shown)
	if f.once = shown == 1; f.once && (f.weight < oncePlace || len(f.nodes) == 0) {
		return f, false
	}
	f.gain = worst.since / (worst.since - worst.extra*min(1, worst.share))
	f.mode = fmt.Sprintf(words.InSpell, pick(f.once, "once", "in spikes"), shown, len(worst.long)-1, worst.times)
	return f, f.gain >= leastGain
}

// flowsInSpells gives the flows as they are in long iterations and were in the usual ones, and notes what part of the time that
// they took longer a rank's flows were outstanding longer. Trouble need not last for a whole iteration: classes of operation in
// which nobody was slow say nothing.
func (a *analysis) flowsInSpells(spells []*spell) []flowGroup {
	groups := a.now.gatherFlows()
	to := a.flowPeers()
	slow := map[transferClass]bool{}
	for i := range groups {
		g := &groups[i]
		s := spells[g.node]
		if s == nil {
			continue
		}
		g.now, g.ref = a.outstandingIn(g.segs, s.long), a.outstandingIn(g.segs, s.usual)
		if g.now <= 0 || g.ref <= 0 {
			continue
		}
		g.ratio = g.now / g.ref
		g.weight = g.ref / (g.ref + latencyScale) * g.now / (g.now + noteworthyTime*s.extra)
		if g.slow = g.ratio >= leastSlow; g.slow {
			slow[g.key.class] = true
			a.showIn(g, s)
		}
		g.peers, g.unseen = to.of(&g.key)
	}
	var out []flowGroup
	for i := range groups {
		if g := &groups[i]; g.ratio > 0 && slow[g.key.class] {
			out = append(out, *g)
		}
	}
	return out
}

// outstandingIn gives how long a rank's sends were outstanding in operations of some iterations, in the mean, ns.
func (a *analysis) outstandingIn(segs []int32, in []bool) float64 {
	sum, n := 0.0, 0
	for _, i := range segs {
		if s := &a.now.segs[i]; s.iter != noIteration && in[s.iter] {
			sum += outstanding(s)
			n++
		}
	}
	return sum / float64(max(1, n))
}

// showIn adds up what a group's operations were held up in long iterations, and marks those in which one was slow.
func (a *analysis) showIn(g *flowGroup, s *spell) {
	for _, i := range g.segs {
		k := a.now.segs[i].iter
		if k == noIteration || !s.long[k] {
			continue
		}
		s.share += max(0, a.now.segs[i].overdue(g.ref)) / s.extra
		if outstanding(&a.now.segs[i]) >= leastSlow*g.ref {
			s.shown[k] = true
		}
	}
}

func count(v []bool) int { return countFunc(v, func(b bool) bool { return b }) }
