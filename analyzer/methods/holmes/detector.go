// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package holmes has Holmes' methods: the iteration monitor (H2), the detector of abnormal operators without training
// (H3), the search through the graph of communication operators (H4) and the ranking of devices across iterations (H5).
// All are pure functions.
package holmes

import (
	"math"
	"slices"
)

// Features describe one operator's time among like operators (H3).
type Features struct {
	Mean, Std, Z            float64
	Q1, Q2, Q3, IQR         float64
	Time, Iteration         float64 // Of this operator and of its iteration.
	Count                   int
	ExcessShare, RobustSize float64 // Time over Q2 as a share of the iteration; distance from Q2 in IQRs.
	Rank                    int     // Fixed features: rank, size in bytes, communication pattern.
	Bytes                   int64
	Pattern                 string
}

// FeaturesOf computes the features of one time among the times of the same operator in a window.
func FeaturesOf(time, iteration float64, window []float64) Features {
	f := Features{Time: time, Iteration: iteration, Count: len(window)}
	if len(window) == 0 {
		return f
	}
	s := slices.Clone(window)
	slices.Sort(s)
	for _, v := range s {
		f.Mean += v / float64(len(s))
	}
	for _, v := range s {
		f.Std += (v - f.Mean) * (v - f.Mean) / float64(len(s))
	}
	f.Std = math.Sqrt(f.Std)
	if f.Std > 0 {
		f.Z = (time - f.Mean) / f.Std
	}
	f.Q1, f.Q2, f.Q3 = s[len(s)/4], s[len(s)/2], s[3*len(s)/4]
	f.IQR = f.Q3 - f.Q1
	if iteration > 0 {
		f.ExcessShare = (time - f.Q2) / iteration
	}
	// Without a lower bound, a distribution without spread would make every microsecond an outlier. The bound is a hundredth of
	// the median.
	f.RobustSize = (time - f.Q2) / max(f.IQR, 0.01*f.Q2, 1e-12)
	return f
}

// Fewest is the number of like operators below which no operator is abnormal.
const Fewest = 4

// Abnormal decides without training: an operator is abnormal when it takes far longer than like operators, and long enough to
// matter to the iteration. A plain z-score lacks the second condition: fifty times almost nothing is still almost nothing.
func (f *Features) Abnormal() bool {
	const far, matters = 3, 0.005
	return f.Count >= Fewest && f.RobustSize > far && f.ExcessShare > matters
}

// Abnormal judges one operator: the unsupervised default, or a trained model.
type Abnormal interface {
	Abnormal(f *Features) bool
}

// Unsupervised is the detector that needs no training.
type Unsupervised struct{}

// Abnormal implements Abnormal.
func (Unsupervised) Abnormal(f *Features) bool { return f.Abnormal() }

// Operator is a row of an operator log (H1), with what a model needs to learn from it.
type Operator struct {
	Rank         int
	Communicator string
	Number       int64  // Call order on the communicator.
	Pattern      string // "AllReduce", …
	Bytes        int64
	Like         string // Equal for operators that are comparable: pattern, size and communicator size.
	Iteration    int
	Seconds      float64
	// IterationSeconds is how long its iteration took.
	IterationSeconds float64
	Abnormal         bool // The label.
}
