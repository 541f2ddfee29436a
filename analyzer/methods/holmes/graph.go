// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package holmes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/methods/record"
)

// like tells which operators are comparable: those that are the same in every iteration and on every rank of a role.
type like struct {
	fn    string
	size  int
	bytes int64
	up    int // Send or receive to a higher or lower rank.
}

func likeOf(p *record.Piece) like {
	k := like{fn: p.Func, bytes: p.Bytes}
	if p.Round != nil {
		k.size = p.Round.Group.Size
	}
	if p.Peer >= 0 {
		k.up = cmp.Compare(p.Peer, p.Rank)
	}
	return k
}

// operators is the communication operator graph over a job's finished work: an operator is a rank's part in it.
type operators struct {
	job      *record.Job
	pieces   []*record.Piece
	number   map[*record.Piece]int
	place    map[*record.Piece]int // In its rank's order.
	usual    map[like][]float64    // Times of the same operator in regular iterations.
	lengths  []float64
	regular  float64      // Length of a regular iteration, s.
	asked    map[int]bool // Ranks whose operators were looked at (H6).
	detector Abnormal
}

func (o *operators) Group(op int) []int {
	r := o.pieces[op].Round
	if r == nil {
		return []int{op}
	}
	out := make([]int, len(r.Parts))
	for i, p := range r.Parts {
		out[i] = o.number[p]
	}
	return out
}

func (o *operators) Peer(op int) int {
	if p := o.pieces[op].Other; p != nil {
		return o.number[p]
	}
	return -1
}

func (o *operators) P2P(op int) bool { return o.pieces[op].Segment.Peer >= 0 }

func (o *operators) Before(op int) []int {
	p := o.pieces[op]
	list := o.job.ByRank[p.Rank]
	var out []int
	for k := o.place[p] - 1; k >= 0 && list[k].Iteration == p.Iteration; k-- {
		out = append(out, o.number[list[k]])
	}
	return out
}

func (o *operators) Abnormal(op int) bool {
	o.asked[o.pieces[op].Rank] = true
	f := o.features(o.pieces[op])
	return o.detector.Abnormal(&f)
}

func (o *operators) features(p *record.Piece) Features {
	f := FeaturesOf(p.Stay().Seconds(), o.regular, o.usual[likeOf(p)])
	f.Rank, f.Bytes, f.Pattern = p.Rank, p.Bytes, p.Func
	return f
}

// newOperators builds the graph and tunes the detector to the job's regular iterations.
func newOperators(j *record.Job, irregular []int, m *Model) *operators {
	const kept = 256 // Times of an operator.
	o := &operators{job: j, number: map[*record.Piece]int{}, place: map[*record.Piece]int{}, usual: map[like][]float64{}, asked: map[int]bool{}, detector: Unsupervised{}, lengths: j.Lengths()}
	ranks := make([]int, 0, len(j.ByRank))
	for r := range j.ByRank {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	odd := map[int]bool{}
	for _, i := range irregular {
		odd[i] = true
	}
	for _, r := range ranks {
		for i, p := range j.ByRank[r] {
			o.number[p], o.place[p] = len(o.pieces), i
			o.pieces = append(o.pieces, p)
			if k := likeOf(p); p.Iteration >= 0 && !odd[p.Iteration] && len(o.usual[k]) < kept {
				o.usual[k] = append(o.usual[k], p.Stay().Seconds())
			}
		}
	}
	n := 0
	for i, l := range o.lengths {
		if !odd[i] {
			o.regular, n = o.regular+l, n+1
		}
	}
	o.regular /= float64(max(1, n))
	if m != nil {
		o.detector = m.Tuned(o.drift(odd))
	}
	return o
}

// drift gives the means that a trained model's thresholds follow: of what is normal now.
func (o *operators) drift(odd map[int]bool) map[string]float64 {
	const most = 4096
	var fs []Features
	for _, p := range o.pieces {
		if p.Iteration >= 0 && !odd[p.Iteration] && len(fs) < most {
			fs = append(fs, o.features(p))
		}
	}
	return DriftMeans(fs)
}

// Operators gives the job's operators of whole iterations as an operator log (H1), to train a model on.
func Operators(j *record.Job) []Operator {
	lengths := j.Lengths()
	var out []Operator
	ranks := make([]int, 0, len(j.ByRank))
	for r := range j.ByRank {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	for _, r := range ranks {
		for _, p := range j.ByRank[r] {
			if p.Iteration < 0 || p.Iteration >= len(lengths) {
				continue
			}
			k := likeOf(p)
			out = append(out, Operator{
				Rank: r, Communicator: string(p.Comm), Pattern: p.Func, Bytes: p.Bytes, Like: fmt.Sprintf("%s/%d/%d/%d", k.fn, k.size, k.bytes, k.up), Number: cmp.Or(p.Number, p.Seq),
				Iteration: p.Iteration, Seconds: p.Stay().Seconds(), IterationSeconds: lengths[p.Iteration],
			})
		}
	}
	return out
}
