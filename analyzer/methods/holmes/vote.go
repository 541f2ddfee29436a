// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package holmes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// last is how many iterations an iteration's length is compared with, and devices are ranked over (H5).
const last = 100

// irregularity is one search: where it ended, and how much the operator that it began at goes with the iterations' lengths.
type irregularity struct {
	Found
	rate float64
}

// IrregularOf gives the job's irregular iterations (H2).
func IrregularOf(j *record.Job) []int { return Irregular(j.Lengths(), last, j.Opt.IrregularFactor) }

// Slow searches the graph from the abnormal operators of a pivot rank in each irregular iteration: who is named most, and which devices lie
// under all of it. m is the trained detector, nil the one without training.
func Slow(j *record.Job, irregular []int, m *Model) []record.Vote {
	v := record.Vote{Method: "holmes", Class: rca.Unknown, Ranks: []int{}, Note: "no irregular iteration"}
	if len(irregular) == 0 {
		return []record.Vote{v}
	}
	o := newOperators(j, irregular, m)
	pivot := o.pieces[0].Rank
	rates := map[like]float64{}
	var found []irregularity
	for _, it := range irregular[max(0, len(irregular)-last):] {
		begun := map[like]bool{} // One search for each kind of operator: a layer's operator is that of the layer before.
		for _, p := range j.ByRank[pivot] {
			k := likeOf(p)
			if p.Iteration != it || begun[k] || !o.Abnormal(o.number[p]) {
				continue
			}
			begun[k] = true
			if _, known := rates[k]; !known {
				rates[k] = Pearson(o.times(pivot, k), o.lengths)
			}
			for _, f := range Search(o, o.number[p]) {
				found = append(found, irregularity{f, rates[k]})
			}
		}
	}
	if len(found) == 0 {
		v.Note = "no abnormal operator on the pivot rank"
		return []record.Vote{v}
	}
	o.mostFound(&v, found)
	kind := Classify(irregular, len(o.lengths))
	v.Note = kind.String()
	if every := Period(o.lengths); kind == Fluctuation && every > 0 {
		v.Note += fmt.Sprintf(" about every %.3g iterations", every)
	}
	v.Note += fmt.Sprintf("; search from rank %d asked %d ranks", pivot, len(o.asked))
	return []record.Vote{v, o.devices(found)}
}

// mostFound names the rank at which most searches ended; a collective of which every part is abnormal has no rank, but a group.
func (o *operators) mostFound(v *record.Vote, found []irregularity) {
	type end struct {
		rank  int
		cause Cause
	}
	count := map[end]int{}
	best, n := end{}, 0
	for _, f := range found {
		e := end{o.pieces[f.Op].Rank, f.Cause}
		count[e]++
		if c := count[e]; c > n || c == n && cmp.Or(cmp.Compare(e.rank, best.rank), cmp.Compare(e.cause, best.cause)) < 0 {
			best, n = e, c
		}
	}
	if best.cause == Compute {
		v.Class, v.Ranks = rca.SlowCompute, []int{best.rank}
		return
	}
	v.Class = rca.SlowComm
	for _, f := range found {
		if f.Cause == Network && o.pieces[f.Op].Rank == best.rank {
			for _, r := range o.ends(f.Op) {
				if !slices.Contains(v.Ranks, r) && len(v.Ranks) < rca.MaxCulprits {
					v.Ranks = append(v.Ranks, r)
				}
			}
		}
	}
	slices.Sort(v.Ranks)
}

// ends are the ranks between which an operator moves data.
func (o *operators) ends(op int) []int {
	p := o.pieces[op]
	if p.Segment.Peer >= 0 {
		return []int{p.Rank, p.Segment.Peer}
	}
	var out []int
	for _, i := range o.Group(op) {
		out = append(out, o.pieces[i].Rank)
	}
	return out
}

// times gives, by iteration, what a rank's operators of one kind took.
func (o *operators) times(rank int, k like) []float64 {
	out := make([]float64, len(o.lengths))
	for _, p := range o.job.ByRank[rank] {
		if p.Iteration >= 0 && p.Iteration < len(out) && likeOf(p) == k {
			out[p.Iteration] += p.Stay().Seconds()
		}
	}
	return out
}

// devices ranks GPUs, NICs, links and switches over all irregularities (H5).
func (o *operators) devices(found []irregularity) record.Vote {
	const (
		strength = 1.0 // Of the prior.
		topK     = 2
		most     = 256 // Ranks of a group whose paths are looked at.
	)
	top := o.job.Opt.Topology
	rates := map[topology.Device][]float64{}
	for _, f := range found {
		if f.Cause == Compute {
			d := top.GPU(o.job.Place(o.pieces[f.Op].Rank))
			rates[d] = append(rates[d], f.rate)
			continue
		}
		used := map[topology.Device]bool{}
		ranks := o.ends(f.Op)
		for i := range ranks[:min(most, len(ranks))] {
			for _, d := range top.Path(o.job.Place(ranks[i]), o.job.Place(ranks[(i+1)%len(ranks)])) {
				used[d] = true
			}
		}
		for d := range used {
			rates[d] = append(rates[d], f.rate)
		}
	}
	all := make([]Device, 0, len(rates))
	for d, r := range rates {
		all = append(all, Device{Name: d.Name, Kind: string(d.Kind), Below: d.Below, Rates: r})
	}
	slices.SortFunc(all, func(x, y Device) int { return cmp.Compare(x.Name, y.Name) })
	v := record.Vote{Method: "holmes-devices", Class: rca.Unknown, Ranks: []int{}}
	for i, d := range Rank(all, strength, topK) {
		if i > 0 {
			v.Note += ", "
		}
		v.Note += fmt.Sprintf("%s %s %.2f", d.Kind, d.Name, d.I)
		if i > 0 {
			continue
		}
		v.Class = rca.SlowComm
		if d.Kind == string(topology.GPU) {
			v.Class = rca.SlowCompute
		}
		v.Ranks = append(v.Ranks, o.ranksOf(d.Name)...)
	}
	return v
}

// ranksOf gives the ranks that a GPU or NIC serves.
func (o *operators) ranksOf(device string) []int {
	var out []int
	for i := range o.job.Ev.Ranks {
		r, top := o.job.Ev.Ranks[i].ID, o.job.Opt.Topology
		p := o.job.Place(r)
		if (top.GPU(p).Name == device || top.NIC(p).Name == device) && len(out) < rca.MaxCulprits {
			out = append(out, r)
		}
	}
	slices.Sort(out)
	return out
}
