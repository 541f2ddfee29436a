// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package learn trains Holmes' detector of abnormal operators (H3) on labelled ones, which the simulator has and a cluster has not.
package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/culprit-project/culprit/analyzer/methods/forest"
)

// Options are the parameters of a training. Zero fields take the defaults in brackets.
type Options struct {
	Trees    int // [50].
	Depth    int // Of a tree, at most [12].
	LeafSize int // Samples in a leaf, at least [5].
	Try      int // Features tried at a split [square root of their number].
	Seed     uint64
}

func (o Options) withDefaults(features int) Options {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&o.Trees, 50)
	set(&o.Depth, 12)
	set(&o.LeafSize, 5)
	set(&o.Try, max(1, int(math.Sqrt(float64(features)))))
	o.Try = min(o.Try, features)
	return o
}

// Grow grows a forest. Each tree sees a bootstrap sample in which the larger class is at most three times the smaller:
// abnormal operations are few. The second result judges every sample by the trees that did not see it.
func Grow(ctx context.Context, features []string, samples [][]float64, positive []bool, o Options) (*forest.Forest, Score, error) {
	if err := checkSamples(features, samples, positive); err != nil {
		return nil, Score{}, err
	}
	o = o.withDefaults(len(features))
	var classes [2][]int
	for i, p := range positive {
		if p {
			classes[1] = append(classes[1], i)
		} else {
			classes[0] = append(classes[0], i)
		}
	}
	f := &forest.Forest{Version: forest.Version, Features: features}
	fewer := min(len(classes[0]), len(classes[1]))
	most := 3 * fewer
	unseen := make([]struct{ sum, n float64 }, len(samples))
	for k := range o.Trees {
		if err := ctx.Err(); err != nil {
			return nil, Score{}, fmt.Errorf("training: %w", err)
		}
		g := &grower{x: samples, positive: positive, o: o, rng: rand.New(rand.NewPCG(o.Seed, uint64(k)))}
		in := make([]bool, len(samples))
		bag := make([]int, 0, 4*fewer)
		for _, c := range classes {
			for range min(len(c), most) {
				s := c[g.rng.IntN(len(c))]
				bag = append(bag, s)
				in[s] = true
			}
		}
		g.grow(bag, 0)
		f.Trees = append(f.Trees, g.tree)
		alone := forest.Forest{Features: features, Trees: []forest.Tree{g.tree}}
		for i := range samples {
			if !in[i] {
				unseen[i].sum += alone.Probability(samples[i])
				unseen[i].n++
			}
		}
	}
	var score Score
	for i := range samples {
		if unseen[i].n > 0 {
			score.Add(unseen[i].sum/unseen[i].n >= 0.5, positive[i])
		}
	}
	return f, score, nil
}

func checkSamples(features []string, samples [][]float64, positive []bool) error {
	if len(samples) != len(positive) {
		return fmt.Errorf("training: %d samples and %d labels", len(samples), len(positive))
	}
	if !slices.Contains(positive, true) || !slices.Contains(positive, false) {
		return errors.New("training: samples of both classes are needed")
	}
	for i, s := range samples {
		if len(s) != len(features) {
			return fmt.Errorf("training: sample %d has %d values, want %d", i, len(s), len(features))
		}
		for k, v := range s {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("training: sample %d: %s is %g", i, features[k], v)
			}
		}
	}
	return nil
}

// grower grows one tree.
type grower struct {
	x        [][]float64
	positive []bool
	o        Options
	rng      *rand.Rand
	tree     forest.Tree
}

// grow adds the subtree of some samples and gives its place.
func (g *grower) grow(bag []int, depth int) int {
	at := len(g.tree)
	pos := 0
	for _, i := range bag {
		if g.positive[i] {
			pos++
		}
	}
	g.tree = append(g.tree, forest.Node{Feature: -1, Positive: float64(pos) / float64(len(bag))})
	if depth >= g.o.Depth || pos == 0 || pos == len(bag) || len(bag) < 2*g.o.LeafSize {
		return at
	}
	feature, threshold, ok := g.split(bag, pos)
	if !ok {
		return at
	}
	left := make([]int, 0, len(bag))
	right := make([]int, 0, len(bag))
	for _, i := range bag {
		if g.x[i][feature] <= threshold {
			left = append(left, i)
		} else {
			right = append(right, i)
		}
	}
	l := g.grow(left, depth+1)
	r := g.grow(right, depth+1)
	g.tree[at] = forest.Node{Feature: feature, Threshold: threshold, Left: l, Right: r}
	return at
}

// split finds the cut of least impurity among some features.
func (g *grower) split(bag []int, positive int) (feature int, threshold float64, ok bool) {
	best := gini(positive, len(bag)) * float64(len(bag))
	order := slices.Clone(bag)
	for _, f := range g.rng.Perm(len(g.x[0]))[:g.o.Try] {
		slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(g.x[a][f], g.x[b][f]), cmp.Compare(a, b)) })
		left := 0
		for k := 1; k < len(order); k++ {
			if g.positive[order[k-1]] {
				left++
			}
			low, high := g.x[order[k-1]][f], g.x[order[k]][f]
			if low == high || k < g.o.LeafSize || len(order)-k < g.o.LeafSize {
				continue
			}
			impurity := gini(left, k)*float64(k) + gini(positive-left, len(order)-k)*float64(len(order)-k)
			if impurity < best-1e-9 {
				best, feature, ok = impurity, f, true
				if threshold = low + (high-low)/2; threshold >= high {
					threshold = low // Neighbouring numbers.
				}
			}
		}
	}
	return feature, threshold, ok
}

func gini(positive, n int) float64 {
	p := float64(positive) / float64(n)
	return 2 * p * (1 - p)
}

// Score counts how a classifier did.
type Score struct {
	TruePositive, FalsePositive, TrueNegative, FalseNegative int
}

// Add counts one sample.
func (s *Score) Add(said, is bool) {
	switch {
	case said && is:
		s.TruePositive++
	case said:
		s.FalsePositive++
	case is:
		s.FalseNegative++
	default:
		s.TrueNegative++
	}
}

// Precision is the share of the positive answers that are right, 0 without any.
func (s Score) Precision() float64 { return share(s.TruePositive, s.TruePositive+s.FalsePositive) }

// Recall is the share of the positive samples that are found, 0 without any.
func (s Score) Recall() float64 { return share(s.TruePositive, s.TruePositive+s.FalseNegative) }

// F1 is the harmonic mean of precision and recall.
func (s Score) F1() float64 {
	return share(2*s.TruePositive, 2*s.TruePositive+s.FalsePositive+s.FalseNegative)
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
