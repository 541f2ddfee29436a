// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/holmes"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// operators is Holmes' graph over the timeline: a segment is an operator.
type operators struct {
	*analysis
	usual    map[token][]float64 // Times of the same operator when all was well.
	length   float64             // Of an iteration, s.
	asked    map[int32]bool      // Ranks whose operators were looked at (H6).
	detector holmes.Abnormal
}

func (o *operators) Group(op int) []int {
	parts := o.now.jobs[o.now.segs[op].job].parts
	out := make([]int, len(parts))
	for i, p := range parts {
		out[i] = int(p)
	}
	return out
}

func (o *operators) Peer(op int) int {
	for _, p := range o.now.jobs[o.now.segs[op].job].parts {
		if int(p) != op {
			return int(p)
		}
	}
	return -1
}

func (o *operators) P2P(op int) bool { return o.now.jobs[o.now.segs[op].job].p2p }

func (o *operators) Before(op int) []int {
	s := &o.now.segs[op]
	var out []int
	list := o.now.ranks[s.node]
	at, _ := slices.BinarySearchFunc(list, s.enter, func(i int32, t int64) int { return cmp.Compare(o.now.segs[i].enter, t) })
	const far = 4096
	// Back to the same operation of the iteration before.
	for k := at - 1; k >= 0 && len(out) < far && o.now.segs[list[k]].pos != s.pos; k-- {
		if !o.now.segs[list[k]].compute {
			out = append(out, int(list[k]))
		}
	}
	return out
}

func (o *operators) Abnormal(op int) bool {
	s := &o.now.segs[op]
	o.asked[s.node] = true
	f := o.features(s)
	return o.detector.Abnormal(&f)
}

func (o *operators) features(s *seg) holmes.Features {
	f := holmes.FeaturesOf(float64(s.stay)/1e9, o.length, o.usual[o.now.newToken(s)])
	f.Rank, f.Bytes, f.Pattern = s.record.Rank, s.bytes, s.record.Func
	return f
}

// operators prepares Holmes' graph, its detector, and the irregular iterations.
func (a *analysis) operators() (o *operators, irregular []int) {
	o = &operators{analysis: a, length: a.iterTime / 1e9, asked: map[int32]bool{}, detector: holmes.Unsupervised{}}
	normal := a.past
	if normal == nil {
		normal = a.now
		lengths := toFloats(a.series)
		irregular = holmes.Irregular(lengths, len(lengths), a.Opt.IrregularFactor)
	} else {
		for i := range a.now.iters {
			irregular = append(irregular, i)
		}
	}
	o.usual = normal.usualOperators()
	if a.Opt.Operators != nil {
		o.detector = a.Opt.Operators.Tuned(o.drift(normal))
	}
	return o, irregular
}

// drift gives the means that a trained model's thresholds follow: of what is normal now.
func (o *operators) drift(normal *timeline) map[string]float64 {
	const most = 4096
	now := *o
	if lengths := normal.iterationTimes(); len(lengths) > 0 {
		now.length = float64(median64(lengths)) / 1e9
	}
	var fs []holmes.Features
	for i := range normal.segs {
		if s := &normal.segs[i]; !s.compute && len(fs) < most {
			fs = append(fs, now.features(s))
		}
	}
	return holmes.DriftMeans(fs)
}

// irregularity is one search of Holmes: where it ended, and how much the operator that it began at goes with the
// iterations' length.
type irregularity struct {
	holmes.Found
	rate float64
}

// holmesVotes searches the graph from the abnormal operators of a pivot rank in the latest irregular iterations: who is
// named most, and which devices lie under all of it.
func (a *analysis) holmesVotes() []rca.Vote {
	v := rca.Vote{Method: "holmes", Class: rca.Unknown, Ranks: []int{}, Note: words.MethodNoIrregularity}
	o, irregular := a.operators()
	if len(irregular) == 0 {
		return []rca.Vote{v}
	}
	pivot := slices.IndexFunc(a.now.ranks, func(l []int32) bool { return len(l) > 0 })
	lengths := a.lengths()
	rates := map[token]float64{}
	var found []irregularity
	const last, perIteration = 4, 8
	for _, it := range irregular[max(0, len(irregular)-last):] {
		n := 0
		for _, i := range a.now.ranks[pivot] {
			s := &a.now.segs[i]
			if int(s.iter) != it || s.compute || n == perIteration || !o.Abnormal(int(i)) {
				continue
			}
			n++
			k := a.now.tokenOf(s)
			if _, known := rates[k]; !known {
				rates[k] = holmes.Pearson(a.times(int32(pivot), k), lengths)
			}
			for _, f := range holmes.Search(o, int(i)) {
				found = append(found, irregularity{f, rates[k]})
			}
		}
	}
	if len(found) == 0 {
		v.Note = words.MethodNoOperator
		return []rca.Vote{v}
	}
	a.mostFound(&v, found)
	v.Note = fmt.Sprintf(words.MethodSearched, a.irregularKind(irregular), a.Nodes[pivot].ID, len(o.asked))
	return []rca.Vote{v, a.deviceVote(found)}
}

// mostFound names the rank at which most searches ended.
func (a *analysis) mostFound(v *rca.Vote, found []irregularity) {
	type end struct {
		rank  int
		cause holmes.Cause
	}
	seen := map[holmes.Found]bool{}
	count := map[end]int{}
	for _, f := range found {
		if !seen[f.Found] {
			seen[f.Found] = true
			count[end{a.now.segs[f.Op].record.Rank, f.Cause}]++
		}
	}
	best, _ := mostFrequent(count, func(x, y end) int { return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.cause, y.cause)) })
	if best.cause == holmes.Compute {
		v.Class, v.Ranks = rca.SlowCompute, []int{best.rank}
		return
	}
	v.Class = rca.SlowComm
	for _, f := range found {
		if f.Cause == holmes.Network && a.now.segs[f.Op].record.Rank == best.rank {
			for _, p := range a.now.jobs[a.now.segs[f.Op].job].parts {
				if r := a.now.segs[p].record.Rank; !slices.Contains(v.Ranks, r) && len(v.Ranks) < rca.MaxCulprits {
					v.Ranks = append(v.Ranks, r)
				}
			}
		}
	}
	slices.Sort(v.Ranks)
}

// irregularKind says which of Holmes' three irregularities it is (H7).
func (a *analysis) irregularKind(irregular []int) string {
	if a.past != nil {
		return holmes.Degradation.String()
	}
	kind := holmes.Classify(irregular, len(a.series))
	if every := holmes.Period(toFloats(a.series)); kind == holmes.Fluctuation && every > 0 {
		return fmt.Sprintf(words.MethodPeriod, kind, every)
	}
	return kind.String()
}

// lengths gives the iterations' lengths, of those before the change too.
func (a *analysis) lengths() []float64 {
	var out []float64
	if a.past != nil {
		out = toFloats(a.past.iterationTimes())
	}
	return append(out, toFloats(a.now.iterationTimes())...)
}

// times gives, for the same iterations, what a rank's operators of one kind took.
func (a *analysis) times(n int32, k token) []float64 {
	var out []float64
	add := func(t *timeline) {
		sums := make([]float64, max(0, t.iters-1))
		for _, i := range t.ranks[n] {
			if s := &t.segs[i]; s.iter >= 0 && int(s.iter) < len(sums) && t.tokenOf(s) == k {
				sums[s.iter] += float64(s.stay)
			}
		}
		out = append(out, sums...)
	}
	if a.past != nil {
		add(a.past)
	}
	add(a.now)
	return out
}

// deviceVote ranks GPUs, NICs, links and switches over all irregularities (H5).
func (a *analysis) deviceVote(found []irregularity) rca.Vote {
	const (
		strength = 1.0 // Of the prior.
		topK     = 2
		most     = 256 // Ranks of a group whose paths are looked at.
	)
	top := a.Opt.Topology
	rates := map[topology.Device][]float64{}
	for _, f := range found {
		if f.Cause == holmes.Compute {
			d := top.GPU(a.Place(a.now.segs[f.Op].node))
			rates[d] = append(rates[d], f.rate)
			continue
		}
		used := map[topology.Device]bool{}
		parts := a.now.jobs[a.now.segs[f.Op].job].parts
		for i := range parts[:min(most, len(parts))] {
			from, to := a.now.segs[parts[i]].node, a.now.segs[parts[(i+1)%len(parts)]].node
			for _, d := range top.Path(a.Place(from), a.Place(to)) {
				used[d] = true
			}
		}
		for d := range used {
			rates[d] = append(rates[d], f.rate)
		}
	}
	devices := make([]holmes.Device, 0, len(rates))
	for d, r := range rates {
		devices = append(devices, holmes.Device{Name: d.Name, Kind: string(d.Kind), Below: d.Below, Rates: r})
	}
	slices.SortFunc(devices, func(x, y holmes.Device) int { return cmp.Compare(x.Name, y.Name) })
	v := rca.Vote{Method: "holmes-devices", Class: rca.Unknown, Ranks: []int{}}
	for i, d := range holmes.Rank(devices, strength, topK) {
		v.Note += fmt.Sprintf("%s%s %s %.2f", pick(i > 0, ", ", ""), d.Kind, d.Name, d.I)
		if i > 0 {
			continue
		}
		v.Class = pick(d.Kind == string(topology.GPU), rca.SlowCompute, rca.SlowComm)
		v.Ranks = append(v.Ranks, a.ranksOf(d.Name)...)
	}
	return v
}

// ranksOf gives the ranks that a GPU or NIC serves.
func (a *analysis) ranksOf(device string) []int {
	var out []int
	for n := range a.Nodes {
		if a.Nodes[n].Rank == nil {
			continue
		}
		p := a.Place(int32(n))
		if (a.Opt.Topology.GPU(p).Name == device || a.Opt.Topology.NIC(p).Name == device) && len(out) < rca.MaxCulprits {
			out = append(out, a.Nodes[n].ID)
		}
	}
	slices.Sort(out)
	return out
}
