// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
)

// grownEach is how many ranks of each kind the comparison with the past gives at most.
const grownEach = 4

// past gives how long before the first trigger the past begins. The window of the past's rates must end before the windows of the
// rules begin.
func (d *Directory) past(ctx context.Context) time.Duration { return 2 * d.RateWindow(ctx) }

// Grown gives the ranks closest to what made a job slow, likeliest first: one of each kind before the second of any kind. It
// compares how ranks spend their time now and some time ago.
//
// Iterations of ranks in lockstep have one length. A rank whose own computation or host became slower spends less time in NCCL
// kernels than all others, because the others wait there for it. Ranks around a slow NVLink spend more time than others in the
// kernels of their operation. A slow network leaves its sender's data undelivered. A starving proxy thread leaves arrived data
// unhandled.
func (d *Directory) Grown(ctx context.Context, job identity.Job, ago time.Duration) ([]int, error) {
	selector, rate := job.Selector(), d.RateWindow(ctx)
	grown := func(template string) (string, error) {
		now, err := config.QueryBefore(template, selector, rate, 0)
		if err != nil {
			return "", err
		}
		past, err := config.QueryBefore(template, selector, rate, ago)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("(%s - (%s or %s * 0))", now, past, now), nil
	}
	waits, err := grown(d.cfg.Queries.Waits)
	if err != nil {
		return nil, err
	}
	kernels, err := grown(d.cfg.Queries.Kernels)
	if err != nil {
		return nil, err
	}
	queries := [...]string{
		fmt.Sprintf("bottomk(%d, sum by (rank) %s)", grownEach, kernels),
		fmt.Sprintf("topk by (reason) (%d, %s)", grownEach, waits),
		fmt.Sprintf("topk by (function) (%d, %s)", grownEach, kernels),
	}
	var answers [len(queries)]model.Vector
	var errs [len(queries)]error
	var wg sync.WaitGroup
	for i, q := range queries {
		wg.Go(func() { answers[i], errs[i] = d.vector(ctx, q) })
	}
	wg.Wait()
	least := slices.Clone(answers[0])
	slices.SortStableFunc(least, func(a, b *model.Sample) int { return cmp.Compare(a.Value, b.Value) })
	lists := [][]int{ranksOf(least)}
	lists = append(lists, byKind(answers[1], "reason")...)
	lists = append(lists, byKind(answers[2], "function")...)
	return interleave(lists), errors.Join(errs[:]...)
}

// byKind groups ranks by the values of a label and gives one list per value: ranks with a sample above zero, largest first.
func byKind(v model.Vector, label model.LabelName) [][]int {
	kinds := map[model.LabelValue]model.Vector{}
	var names []model.LabelValue
	for _, s := range v {
		k := s.Metric[label]
		if _, known := kinds[k]; !known {
			names = append(names, k)
		}
		if s.Value > 0 {
			kinds[k] = append(kinds[k], s)
		}
	}
	slices.Sort(names)
	out := make([][]int, 0, len(names))
	for _, k := range names {
		slices.SortStableFunc(kinds[k], func(a, b *model.Sample) int { return cmp.Compare(b.Value, a.Value) })
		out = append(out, ranksOf(kinds[k]))
	}
	return out
}

func ranksOf(v model.Vector) []int {
	out := make([]int, 0, len(v))
	for _, s := range v {
		if rank, err := strconv.Atoi(string(s.Metric["rank"])); err == nil {
			out = append(out, rank)
		}
	}
	return out
}

// interleave gives the first value of every list, then the second of every list, and so on, without duplicates.
func interleave(lists [][]int) []int {
	var out []int
	for i := 0; ; i++ {
		more := false
		for _, l := range lists {
			if i >= len(l) {
				continue
			}
			more = true
			if !slices.Contains(out, l[i]) {
				out = append(out, l[i])
			}
		}
		if !more {
			return out
		}
	}
}
