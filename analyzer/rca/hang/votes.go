// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// votes gives what each method alone would say of a hang.
func (w *waitFor) votes(d *decision) []rca.Vote {
	out := []rca.Vote{w.waitForVote(d)}
	c := w.affected()
	if c >= 0 {
		out = append(out, w.mycroftVote(c), w.ccldVote(c))
	}
	if v, ok := w.pulseVote(c); ok {
		out = append(out, v)
	}
	return out
}

func (w *waitFor) waitForVote(d *decision) rca.Vote {
	v := rca.Vote{Method: "wait-for", Class: rca.Unknown, Ranks: []int{}, Note: words.MethodEnds}
	for i := range d.chosen {
		if i == 0 && !d.unseen {
			v.Class = d.chosen[i].class
		}
		for _, n := range d.chosen[i].nodes {
			if len(v.Ranks) < rca.MaxCulprits && w.Nodes[n].ID >= 0 {
				v.Ranks = append(v.Ranks, w.Nodes[n].ID)
			}
		}
	}
	return v
}

// affected gives the instance that has stood still longest: the papers' methods look at its communicator.
func (w *waitFor) affected() int32 {
	best := int32(-1)
	for i := range w.insts {
		if w.insts[i].stuck && !w.insts[i].key.p2p() && (best < 0 || w.insts[i].age > w.insts[best].age) {
			best = int32(i)
		}
	}
	return best
}

// ccldVote is CCL-D's decision tree for hangs (C6): H1, a rank's counter did not advance; H2, some ranks do not hang or
// the type sets differ; H3, all hang: the fewest Send and Recv.
func (w *waitFor) ccldVote(inst int32) rca.Vote {
	v := rca.Vote{Method: "ccl-d", Class: rca.NotEntered, Ranks: []int{}, Note: words.MethodCounterBehind}
	in := &w.insts[inst]
	c := &w.Comms[in.key.comm]
	if low := behindInCalls(c); len(low) > 0 {
		v.Ranks = w.IDs(low)
		return v
	}
	if in.odd != nil {
		v.Class, v.Note = rca.Inconsistent, words.MethodTypesDiffer
		for _, o := range in.odd.odd {
			v.Ranks = append(v.Ranks, w.Nodes[o.node].ID)
		}
		return v
	}
	var free []int32
	for i := range c.Members {
		if m := &c.Members[i]; m.Membership != nil && !in.has(m) {
			free = append(free, m.Node)
		}
	}
	if len(free) > 0 && len(in.joins) > 0 {
		v.Class, v.Note, v.Ranks = rca.Inconsistent, words.MethodNotHanging, w.IDs(free)
		return v
	}
	low := w.leastData(in)
	v.Class, v.Note, v.Ranks = rca.Fault, words.MethodFewestSteps, w.IDs(low)
	if len(low) == 0 {
		v.Class = rca.Unknown
	}
	return v
}

// behindInCalls gives the members that have called fewest operations, when those are not all.
func behindInCalls(c *job.Comm) []int32 {
	least, most := int64(-1), int64(-1)
	var low []int32
	for i := range c.Members {
		m := c.Members[i].Membership
		if m == nil || m.Called < 0 {
			continue
		}
		if least < 0 || m.Called < least {
			least, low = m.Called, nil
		}
		if m.Called == least {
			low = append(low, c.Members[i].Node)
		}
		most = max(most, m.Called)
	}
	return pick(least == most, nil, low)
}

// leastData gives the ranks of an operation whose flows moved the least. Ranks are compared with those that have the
// same flows to work off only: in a ring that is everybody, in a tree the same layer (C7).
func (w *waitFor) leastData(in *instance) []int32 {
	type shape struct {
		flows int
		total int64
	}
	least := map[shape]int64{}
	sum := func(o *rca.Op) (s shape, done int64) {
		for i := range o.Flows {
			f := &o.Flows[i]
			s.flows++
			s.total += f.Total
			done += f.Done
		}
		return s, done
	}
	most := map[shape]int64{}
	for i := range in.joins {
		s, d := sum(in.joins[i].op)
		if s.flows == 0 {
			continue
		}
		if l, ok := least[s]; !ok || d < l {
			least[s] = d
		}
		most[s] = max(most[s], d)
	}
	var low []int32
	for i := range in.joins {
		s, d := sum(in.joins[i].op)
		if s.flows > 0 && least[s] < most[s] && d == least[s] {
			low = append(low, in.joins[i].node)
		}
	}
	slices.Sort(low)
	return low
}
