// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/culprit-project/culprit/analyzer/methods/holmes"
)

// columns are those of an operator table, in order.
var columns = []string{"rank", "communicator", "number", "pattern", "bytes", "like", "iteration", "seconds", "iteration_seconds", "abnormal"}

// WriteOperators writes a table as CSV with a header.
func WriteOperators(w io.Writer, ops []holmes.Operator) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return fmt.Errorf("writing operators: %w", err)
	}
	for i := range ops {
		o := &ops[i]
		err := out.Write([]string{
			strconv.Itoa(o.Rank), o.Communicator, strconv.FormatInt(o.Number, 10), o.Pattern, strconv.FormatInt(o.Bytes, 10), o.Like, strconv.Itoa(o.Iteration),
			strconv.FormatFloat(o.Seconds, 'g', 9, 64), strconv.FormatFloat(o.IterationSeconds, 'g', 9, 64), strconv.FormatBool(o.Abnormal),
		})
		if err != nil {
			return fmt.Errorf("writing operators: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("writing operators: %w", err)
	}
	return nil
}

// ReadOperators reads a table as WriteOperators writes it.
func ReadOperators(r io.Reader) ([]holmes.Operator, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = len(columns)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("reading operators: %w", err)
	}
	if !slices.Equal(head, columns) {
		return nil, fmt.Errorf("reading operators: the columns are %q, want %q", head, columns)
	}
	var out []holmes.Operator
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading operators: %w", err)
		}
		o, err := operatorOf(row)
		if err != nil {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("reading operators: line %d: %w", line, err)
		}
		out = append(out, o)
	}
}

func operatorOf(row []string) (holmes.Operator, error) {
	o := holmes.Operator{Communicator: row[1], Pattern: row[3], Like: row[5]}
	var errs [7]error
	o.Rank, errs[0] = strconv.Atoi(row[0])
	o.Number, errs[1] = strconv.ParseInt(row[2], 10, 64)
	o.Bytes, errs[2] = strconv.ParseInt(row[4], 10, 64)
	o.Iteration, errs[3] = strconv.Atoi(row[6])
	o.Seconds, errs[4] = strconv.ParseFloat(row[7], 64)
	o.IterationSeconds, errs[5] = strconv.ParseFloat(row[8], 64)
	o.Abnormal, errs[6] = strconv.ParseBool(row[9])
	return o, errors.Join(errs[:]...)
}

// window is the number of like operators over which statistics are computed.
const window = 256

// Samples computes the features of a table's operators. The usual times are those of like operators before the first iteration in
// which one was abnormal; where these are too few, those of the whole table.
func Samples(ops []holmes.Operator) []Labelled {
	first := map[string]int{}
	for i := range ops {
		o := &ops[i]
		if it, ok := first[o.Like]; o.Abnormal && (!ok || o.Iteration < it) {
			first[o.Like] = o.Iteration
		}
	}
	early, all := map[string][]float64{}, map[string][]float64{}
	for i := range ops {
		o := &ops[i]
		if len(all[o.Like]) < window {
			all[o.Like] = append(all[o.Like], o.Seconds)
		}
		if it, ok := first[o.Like]; (!ok || o.Iteration < it) && len(early[o.Like]) < window {
			early[o.Like] = append(early[o.Like], o.Seconds)
		}
	}
	out := make([]Labelled, 0, len(ops))
	for i := range ops {
		o := &ops[i]
		usual := early[o.Like]
		if len(usual) < holmes.Fewest {
			usual = all[o.Like]
		}
		f := holmes.FeaturesOf(o.Seconds, o.IterationSeconds, usual)
		f.Rank, f.Bytes, f.Pattern = o.Rank, o.Bytes, o.Pattern
		out = append(out, Labelled{f, o.Abnormal})
	}
	return out
}

// Labelled is a sample with its label, for training.
type Labelled struct {
	holmes.Features
	IsAbnormal bool
}

// Train makes a model from labelled operators.
func Train(ctx context.Context, samples []Labelled, o Options) (*holmes.Model, error) {
	x := make([][]float64, len(samples))
	labels := make([]bool, len(samples))
	normal := make([]holmes.Features, 0, len(samples))
	for i := range samples {
		x[i], labels[i] = samples[i].Vector(), samples[i].IsAbnormal
		if !labels[i] {
			normal = append(normal, samples[i].Features)
		}
	}
	f, score, err := Grow(ctx, holmes.FeatureNames, x, labels, o)
	if err != nil {
		return nil, err
	}
	return &holmes.Model{Forest: f, Means: holmes.DriftMeans(normal), Precision: score.Precision(), Recall: score.Recall(), F1: score.F1()}, nil
}
