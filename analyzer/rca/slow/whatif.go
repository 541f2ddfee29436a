// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Bounds of the what-if questions, so that they cost little beside the rest.
const (
	whatIfRanks    = 4       // Ranks asked about: those with most work beyond their peers'.
	whatIfGroups   = 64      // Stages, or data-parallel ranks.
	whatIfTypes    = 8       // Kinds of operation.
	whatIfSegments = 150_000 // Beyond so much finished work only everything at once.
)

// ideals is how long every element would take if no rank were slow: work of one kind takes its mean over all ranks and
// iterations, a transfer the median of its class. Where computations were not recorded, the time between operations
// stands for them, and what a stage has more of it than the mean is evened out.
type ideals struct {
	body     map[int32]int64 // By function: mean length of a computation.
	transfer map[transferClass]int64
	stretch  []float64 // By node: own work between operations times this is the mean stage's; nil: computations tell.
}

func (a *analysis) newIdeals() *ideals {
	d := &ideals{body: map[int32]int64{}}
	count := map[int32]int64{}
	for i := range a.now.segs {
		if s := &a.now.segs[i]; s.compute && s.iter != noIteration {
			fn := s.fn
			d.body[fn] += s.stay
			count[fn]++
		}
	}
	for fn, n := range count {
		d.body[fn] /= n
	}
	d.transfer = a.now.usualTransfers()
	if a.pipelined() {
		d.stretch = a.evenStages()
	}
	return d
}

// evenStages gives for every rank by what the time between its operations must be stretched to be that of the mean
// stage; nil where computations were recorded and little lies between.
func (a *analysis) evenStages() []float64 {
	stages := a.stagesOf()
	between := make([]float64, len(a.Nodes))
	bodies, all := 0.0, 0.0
	for i := range a.now.segs {
		s := &a.now.segs[i]
		if !s.works() {
			continue
		}
		between[s.node] += float64(min(s.gap, a.base.gap[s.id])) // What one rank has beyond its peers does not come from the cut.
		all += float64(s.gap)
		if s.compute {
			bodies += float64(s.stay)
		}
	}
	if all < unrecorded*(all+bodies) {
		return nil
	}
	mean, sums := 0.0, make([]float64, len(stages))
	for i, st := range stages {
		for _, n := range st.nodes {
			sums[i] += between[n] / float64(len(st.nodes))
		}
		mean += sums[i] / float64(len(stages))
	}
	out := make([]float64, len(a.Nodes))
	for i, st := range stages {
		for _, n := range st.nodes {
			out[n] = 1
			if sums[i] > 0 {
				out[n] = mean / sums[i]
			}
		}
	}
	return out
}

// change makes ideal what pick says: work by segment, transfers by joint.
func (d *ideals) change(a *analysis, work func(*seg) bool, transfers func(*joint) bool) change {
	c := change{
		body: func(s *seg, was int64) int64 {
			if ideal, ok := d.body[s.fn]; ok && work(s) {
				return ideal
			}
			return was
		},
		gap: func(s *seg, was int64) int64 {
			switch {
			case !work(s):
				return was
			case d.stretch != nil:
				return int64(float64(min(was, a.base.gap[s.id])) * d.stretch[s.node])
			}
			return min(was, a.base.gap[s.id])
		},
	}
	if transfers != nil {
		c.transfer = func(j *joint, was int64) int64 {
			if ideal, ok := d.transfer[j.class]; ok && transfers(j) {
				return min(was, ideal)
			}
			return was
		}
	}
	return c
}

// whatIfs replays an iteration with one element after the other made ideal.
func (a *analysis) whatIfs() []rca.WhatIf {
	if a.now.iters < 2 || a.replay.base <= 0 {
		return nil
	}
	d := a.newIdeals()
	every := func(*seg) bool { return true }
	out := []rca.WhatIf{a.whatIf("all", "everything", nil, d.change(a, every, func(*joint) bool { return true }))}
	out = append(out, a.whatIf("transfers", "all transfers", nil, d.change(a, func(*seg) bool { return false }, func(*joint) bool { return true })))
	if len(a.now.segs) > whatIfSegments {
		return out
	}
	out = append(out, a.whatIfStages(d)...)
	out = append(out, a.whatIfDataRanks(d)...)
	out = append(out, a.whatIfRanksAlone(d)...)
	return append(out, a.whatIfOpTypes(d)...)
}

func (a *analysis) whatIf(kind, name string, ranks []int, c change) rca.WhatIf {
	g := a.replay.gain(c)
	return rca.WhatIf{Kind: kind, Name: name, Ranks: ranks, StepSeconds: micro(a.iterTime / g / 1e9), Saved: rca.Round(1 - 1/g)}
}

// micro rounds seconds to microseconds.
func micro(seconds float64) float64 { return float64(int64(seconds*1e6+0.5)) / 1e6 }

// whatIfStages asks about the stages of a pipeline.
func (a *analysis) whatIfStages(d *ideals) []rca.WhatIf {
	if !a.pipelined() {
		return nil
	}
	names, groups := []string{}, [][]int32{}
	for _, st := range a.stagesOf() {
		name := "stage of " + words.RankNumbers(a.IDs(st.nodes))
		if st.number >= 0 {
			name = fmt.Sprintf("stage %d", st.number)
		}
		names, groups = append(names, name), append(groups, st.nodes)
	}
	return a.whatIfGroups(d, "stage", names, groups)
}

// whatIfDataRanks asks about the data-parallel ranks, where the source numbers them.
func (a *analysis) whatIfDataRanks(d *ideals) []rca.WhatIf {
	of := map[int][]int32{}
	for _, n := range a.withWork() {
		if r := a.now.segs[a.now.ranks[n][0]].record.DataRank; r >= 0 {
			of[r] = append(of[r], n)
		}
	}
	names, groups := []string{}, [][]int32{}
	for _, r := range slices.Sorted(maps.Keys(of)) {
		names, groups = append(names, fmt.Sprintf("data-parallel rank %d", r)), append(groups, of[r])
	}
	return a.whatIfGroups(d, "data_parallel_rank", names, groups)
}

// whatIfGroups asks about one group of ranks after the other.
func (a *analysis) whatIfGroups(d *ideals, kind string, names []string, groups [][]int32) []rca.WhatIf {
	if len(groups) < 2 || len(groups) > whatIfGroups {
		return nil
	}
	out := make([]rca.WhatIf, 0, len(groups))
	for i, nodes := range groups {
		out = append(out, a.whatIf(kind, names[i], a.IDs(nodes), d.change(a, a.among(nodes), nil)))
	}
	return mostSaved(out, whatIfGroups)
}

// whatIfRanksAlone asks about the ranks with most work beyond their peers'.
func (a *analysis) whatIfRanksAlone(d *ideals) []rca.WhatIf {
	nodes := heaviestFirst(a.over(), cmp.Compare)
	nodes = nodes[:min(whatIfRanks, len(nodes))]
	out := make([]rca.WhatIf, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, a.whatIf("rank", fmt.Sprintf("rank %d", a.Nodes[n].ID), []int{a.Nodes[n].ID},
			d.change(a, a.among([]int32{n}), nil)))
	}
	return mostSaved(out, whatIfRanks)
}

func (a *analysis) whatIfOpTypes(d *ideals) []rca.WhatIf {
	spent := map[string]int64{}
	for i := range a.now.segs {
		spent[a.now.FuncNames[a.now.segs[i].fn]] += a.now.segs[i].stay
	}
	names := heaviestFirst(spent, cmp.Compare)
	out := make([]rca.WhatIf, 0, len(names))
	for _, name := range names[:min(whatIfTypes, len(names))] {
		c := d.change(a, func(s *seg) bool { return s.compute && a.now.FuncNames[s.fn] == name }, func(j *joint) bool { return a.now.FuncNames[a.now.segs[j.parts[0]].fn] == name })
		c.gap = nil
		out = append(out, a.whatIf("op_type", name, nil, c))
	}
	return mostSaved(out, whatIfTypes)
}

// mostSaved keeps those that save most, in that order.
func mostSaved(ws []rca.WhatIf, most int) []rca.WhatIf {
	slices.SortStableFunc(ws, func(x, y rca.WhatIf) int { return cmp.Compare(y.Saved, x.Saved) })
	return ws[:min(most, len(ws))]
}

// whatIfEvidence puts the most telling answers into words.
func (a *analysis) whatIfEvidence(v *rca.Verdict) []string {
	var out []string
	told := map[string]bool{"all": true, "transfers": true}
	for i := range v.WhatIf {
		w := &v.WhatIf[i]
		if told[w.Kind] {
			continue
		}
		told[w.Kind] = true
		if w.Saved >= worthTelling {
			out = append(out, fmt.Sprintf(words.IfAverage, w.Name, length(w.StepSeconds*1e3), 100*w.Saved))
		}
	}
	for i := range v.WhatIf {
		if w := &v.WhatIf[i]; w.Kind == "transfers" && w.Saved < worthTelling && v.Class != rca.SlowComm && v.Class != rca.SlowMixed && v.Slowdown >= leastGain {
			out = append(out, fmt.Sprintf(words.NetworkFine, 100*max(0, w.Saved)))
		}
	}
	return out
}

// usualTransfers gives how long each class of transfer takes where it was seen whole.
func (t *timeline) usualTransfers() map[transferClass]int64 {
	by := map[transferClass][]int64{}
	for j := range t.jobs {
		if jo := &t.jobs[j]; t.complete(jo) {
			c := jo.class
			by[c] = append(by[c], jo.transfer)
		}
	}
	return mediansOf(by)
}
