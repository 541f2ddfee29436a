// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// stage finds a pipeline stage all of whose ranks take longer than the other stages: the cut is uneven. What the stage
// has more of is spread evenly over all stages to see what that would gain.
func (a *analysis) stage() (finding, bool) {
	stages := a.stagesOf()
	if len(stages) < 2 {
		return finding{}, false
	}
	work := a.stageWork(stages)
	worst, total := 0, make([]float64, len(stages))
	kinds := slices.SortedFunc(maps.Keys(work), workKind.compare) // In order: sums of floats depend on it.
	for _, kind := range kinds {
		for i, d := range work[kind] {
			total[i] += d
		}
	}
	for i := range total {
		if total[i] > total[worst] {
			worst = i
		}
	}
	// Only kinds of work of which the stage has more: other differences do not come from the cut.
	factor := map[workKind][]float64{}
	own, others := 0.0, 0.0
	for _, kind := range kinds {
		by, rest := work[kind], 0.0
		for i := range by {
			if i != worst {
				rest += by[i] / float64(len(by)-1)
			}
		}
		if by[worst] < leastStageWork*rest || rest <= 0 {
			continue
		}
		even := (by[worst] + rest*float64(len(by)-1)) / float64(len(by))
		fs := make([]float64, len(by))
		for i := range by {
			fs[i] = 1
			if by[i] > 0 {
				fs[i] = even / by[i]
			}
		}
		factor[kind] = fs
		own, others = own+by[worst], others+rest
	}
	if others <= 0 || total[worst] < leastStageWork*(sumOf(total)-total[worst])/float64(len(total)-1) {
		return finding{}, false
	}
	at := make([]int, len(a.Nodes))
	for i := range at {
		at[i] = -1
	}
	for i, st := range stages {
		for _, n := range st.nodes {
			at[n] = i
		}
	}
	scale := func(s *seg, kind workKind, was int64) int64 {
		if fs, ok := factor[kind]; ok && at[s.node] >= 0 {
			return int64(float64(was) * fs[at[s.node]])
		}
		return was
	}
	f := finding{
		weight: stageWeight, lane: -1,
		gain: a.replay.gain(change{
			gap:  func(s *seg, was int64) int64 { return scale(s, a.now.gapKind(s), was) },
			body: func(s *seg, was int64) int64 { return scale(s, a.now.bodyKind(s), was) },
		}),
		group: stageName(&stages[worst], a.IDs(stages[worst].nodes)),
		what:  fmt.Sprintf(words.StageUneven, own/others),
	}
	f.gain = max(f.gain, a.allOfIt(stages[worst].nodes))
	if a.onePlace(stages[worst].nodes) {
		f.onePlace, f.weight = true, noPeersWeight
	}
	return f, f.gain >= leastStageGain || f.gain >= leastCutGain && own >= plainCut*others
}

// allOfIt gives what it would gain if everything took its mean, if what these ranks have beyond it accounts for most of
// that, and they have it alike; 1 otherwise.
func (a *analysis) allOfIt(nodes []int32) float64 {
	d := a.newIdeals()
	alone := a.replay.gain(d.change(a, a.among(nodes), nil))
	all := a.replay.gain(d.change(a, func(*seg) bool { return true }, func(*joint) bool { return true }))
	one := a.idealise(nodes)
	if alone-1 < nearlyAll*(all-1) || one-1 > localShare*(alone-1) {
		return 1 // Not the stage, or not all of it but some ranks in it.
	}
	return all
}

// workKind is a kind of work: before a collective, between the messages of the pipeline, or as the source names computations.
type workKind struct {
	what string
	fn   string // The collective, or the computation.
}

func (k workKind) compare(other workKind) int {
	return cmp.Or(cmp.Compare(k.what, other.what), cmp.Compare(k.fn, other.fn))
}

func (t *timeline) gapKind(s *seg) workKind {
	if !s.compute && s.dir == 0 {
		return workKind{"before", t.FuncNames[s.fn]}
	}
	return workKind{what: "between messages"}
}

func (t *timeline) bodyKind(s *seg) workKind { return workKind{"compute", t.FuncNames[s.fn]} }

// stageWork gives, for each kind of work, every stage's mean per rank and iteration, ns.
func (a *analysis) stageWork(stages []stageOf) map[workKind][]float64 {
	work := map[workKind][]float64{}
	for i, st := range stages {
		share := 1 / float64(max(1, a.now.iters)) / float64(len(st.nodes))
		add := func(kind workKind, d int64) {
			if work[kind] == nil {
				work[kind] = make([]float64, len(stages))
			}
			work[kind][i] += float64(d) * share
		}
		for _, n := range st.nodes {
			for _, k := range a.now.ranks[n] {
				s := &a.now.segs[k]
				if !s.works() {
					continue
				}
				add(a.now.gapKind(s), s.gap)
				if s.compute {
					add(a.now.bodyKind(s), s.stay)
				}
			}
		}
	}
	return work
}

type stageOf struct {
	number int // -1 unknown.
	nodes  []int32
}

// stagesOf gives the pipeline's stages: as the source numbers them, else one a role.
func (a *analysis) stagesOf() []stageOf {
	byStage := map[int]*stageOf{}
	var keys []int
	for n := range a.now.ranks {
		if a.now.role[n] < 0 {
			continue
		}
		k := -1
		for _, i := range a.now.ranks[n] {
			if st := int(a.now.segs[i].stage); st >= 0 {
				k = st
				break
			}
		}
		key := k
		if k < 0 {
			key = -2 - int(a.now.role[n])
		}
		st := byStage[key]
		if st == nil {
			st = &stageOf{number: k}
			byStage[key] = st
			keys = append(keys, key)
		}
		st.nodes = append(st.nodes, int32(n))
	}
	slices.Sort(keys)
	out := make([]stageOf, 0, len(keys))
	for _, k := range keys {
		out = append(out, *byStage[k])
	}
	return out
}

func (a *analysis) pipelined() bool {
	for j := range a.now.jobs {
		if a.now.jobs[j].p2p {
			if ci, ok := a.now.segs[a.now.jobs[j].parts[0]].in(); !ok || !a.now.exchange[ci] {
				return true
			}
		}
	}
	return false
}
