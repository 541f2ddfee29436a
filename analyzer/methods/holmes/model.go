// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package holmes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/culprit-project/culprit/analyzer/methods/forest"
)

// FeatureNames are the columns that a model learns from, in order: Holmes' own, and the two of the unsupervised rule,
// which need no tuning because they have no unit.
var FeatureNames = []string{
	"mean", "std", "z_score", "q1", "q2", "q3", "iqr", "rank", "bytes", "pattern", "time", "iteration", "excess_share", "distance",
}

// drifting are the features with the unit of time: their thresholds follow the job's mean.
var drifting = []string{"mean", "q1", "q2", "q3", "time", "iteration"}

// patterns are the communication patterns as numbers; others are len(patterns).
var patterns = []string{"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "Send", "Recv", "AllToAll"}

// Vector gives them as numbers, in the order of FeatureNames.
func (f *Features) Vector() []float64 {
	pattern := len(patterns)
	for i, p := range patterns {
		if p == f.Pattern {
			pattern = i
		}
	}
	return []float64{
		f.Mean, f.Std, f.Z, f.Q1, f.Q2, f.Q3, f.IQR, float64(f.Rank), float64(f.Bytes), float64(pattern), f.Time, f.Iteration,
		f.ExcessShare, f.RobustSize,
	}
}

// Model is a trained detector of abnormal operators (H3): a random forest, and the means that the drifting features had in
// training.
type Model struct {
	Forest *forest.Forest     `json:"forest"`
	Means  map[string]float64 `json:"means"`
	// Score is the training's own estimate, from trees that had not seen the sample.
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
}

// DriftMeans gives the means of the drifting features over normal operators, which Tuned compares.
func DriftMeans(normal []Features) map[string]float64 {
	sums := make([]float64, len(FeatureNames))
	for i := range normal {
		for k, v := range normal[i].Vector() {
			sums[k] += v / float64(len(normal))
		}
	}
	out := map[string]float64{}
	for k, name := range FeatureNames {
		for _, d := range drifting {
			if d == name {
				out[name] = sums[k]
			}
		}
	}
	return out
}

// Tuned gives the model with its thresholds shifted as far as the means have shifted since training (figure 10(b)): if the mean
// iteration time has gone from 9.0 s to 9.2 s, a threshold of 9.0 s becomes 9.2 s.
func (m *Model) Tuned(now map[string]float64) *Model {
	by := map[string]float64{}
	for name, then := range m.Means {
		if v, ok := now[name]; ok {
			by[name] = v - then
		}
	}
	out := *m
	out.Forest = m.Forest.Shifted(by)
	return &out
}

// Abnormal implements Abnormal. An operator that was seen too seldom has nothing to be compared with, and is normal.
func (m *Model) Abnormal(f *Features) bool {
	return f.Count >= Fewest && m.Forest.Probability(f.Vector()) >= 0.5
}

// Write writes the model as JSON.
func (m *Model) Write(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(m); err != nil {
		return fmt.Errorf("writing model: %w", err)
	}
	return nil
}

// ReadModel reads and checks a model.
func ReadModel(r io.Reader) (*Model, error) {
	var raw struct {
		Model
		Forest json.RawMessage `json:"forest"`
	}
	const most = 64 << 20
	if err := json.NewDecoder(io.LimitReader(r, most)).Decode(&raw); err != nil {
		return nil, fmt.Errorf("reading model: %w", err)
	}
	f, err := forest.Parse(raw.Forest)
	if err != nil {
		return nil, fmt.Errorf("reading model: %w", err)
	}
	if len(f.Features) != len(FeatureNames) {
		return nil, errors.New("reading model: it was trained on other features")
	}
	for i, name := range FeatureNames {
		if f.Features[i] != name {
			return nil, fmt.Errorf("reading model: feature %d is %q, want %q", i, f.Features[i], name)
		}
	}
	m := raw.Model
	m.Forest = f
	return &m, nil
}
