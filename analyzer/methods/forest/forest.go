// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package forest is a random forest for two classes: bagged decision trees of Gini impurity over numeric features. It is
// small, deterministic for a seed, and its thresholds can be moved without training again, which is what Holmes does
// against drift (H3).
package forest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Version is the version of a forest's JSON form.
const Version = 1

// Forest is a trained forest. Its fields are exported for JSON; Parse checks them.
type Forest struct {
	Version  int      `json:"version"`
	Features []string `json:"features"` // What the columns are, in the order of training.
	Trees    []Tree   `json:"trees"`
}

// Tree is a tree of nodes, the root first. Children stand behind their parents.
type Tree []Node

// Node splits samples by a feature, or says what share of the training samples that came here were positive.
type Node struct {
	Feature   int     `json:"f"` // -1: a leaf.
	Threshold float64 `json:"t,omitempty"`
	Left      int     `json:"l,omitempty"` // At most the threshold.
	Right     int     `json:"r,omitempty"`
	Positive  float64 `json:"p,omitempty"`
}

// Probability gives the mean of the trees' positive shares for a sample of as many values as there are features; 0 for
// one of another length.
func (f *Forest) Probability(x []float64) float64 {
	if len(x) != len(f.Features) || len(f.Trees) == 0 {
		return 0
	}
	sum := 0.0
	for _, t := range f.Trees {
		sum += t.probability(x)
	}
	return sum / float64(len(f.Trees))
}

func (t Tree) probability(x []float64) float64 {
	n := &t[0]
	for n.Feature >= 0 {
		if x[n.Feature] <= n.Threshold {
			n = &t[n.Left]
		} else {
			n = &t[n.Right]
		}
	}
	return n.Positive
}

// Shifted gives a forest in which every threshold of the named features has moved by so much. Features that the forest
// does not have are ignored.
func (f *Forest) Shifted(by map[string]float64) *Forest {
	moves := make([]float64, len(f.Features))
	for i, name := range f.Features {
		moves[i] = by[name]
	}
	out := &Forest{Version: f.Version, Features: f.Features, Trees: make([]Tree, len(f.Trees))}
	for i, t := range f.Trees {
		c := slices.Clone(t)
		for k := range c {
			if c[k].Feature >= 0 {
				c[k].Threshold += moves[c[k].Feature]
			}
		}
		out.Trees[i] = c
	}
	return out
}

// Write writes the forest as JSON.
func (f *Forest) Write(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(f); err != nil {
		return fmt.Errorf("writing forest: %w", err)
	}
	return nil
}

// Bounds of what is read.
const (
	maxBytes = 64 << 20
	maxTrees = 10_000
)

// Parse reads and checks a forest from its JSON form.
func Parse(text []byte) (*Forest, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("reading forest: more than %d bytes", maxBytes)
	}
	f := new(Forest)
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("reading forest: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("reading forest: %w", err)
	}
	return f, nil
}

func (f *Forest) check() error {
	switch {
	case f.Version != Version:
		return fmt.Errorf("version %d, want %d", f.Version, Version)
	case len(f.Features) == 0:
		return errors.New("it has no features")
	case len(f.Trees) == 0 || len(f.Trees) > maxTrees:
		return fmt.Errorf("%d trees", len(f.Trees))
	}
	for i, t := range f.Trees {
		if err := t.check(len(f.Features)); err != nil {
			return fmt.Errorf("tree %d: %w", i, err)
		}
	}
	return nil
}

// check makes sure that a walk ends in a leaf: children stand behind their parents.
func (t Tree) check(features int) error {
	if len(t) == 0 {
		return errors.New("it is empty")
	}
	for i := range t {
		n := &t[i]
		switch {
		case n.Feature == -1:
			if !(n.Positive >= 0 && n.Positive <= 1) {
				return fmt.Errorf("node %d: share %g", i, n.Positive)
			}
		case n.Feature < -1 || n.Feature >= features:
			return fmt.Errorf("node %d: feature %d of %d", i, n.Feature, features)
		case n.Left <= i || n.Right <= i || n.Left >= len(t) || n.Right >= len(t):
			return fmt.Errorf("node %d: children %d and %d of %d", i, n.Left, n.Right, len(t))
		case math.IsNaN(n.Threshold) || math.IsInf(n.Threshold, 0):
			return fmt.Errorf("node %d: threshold %g", i, n.Threshold)
		}
	}
	return nil
}
