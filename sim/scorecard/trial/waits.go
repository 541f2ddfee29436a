// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/trace"
)

// usage is what part of its time each rank spends how, as Prometheus has it from rates of nccl_wait_seconds_total (send
// flows for the GPU, the peer, the network; receive flows for data, the flush, the GPU) and nccl_kernel_seconds_total.
type usage map[int]*spent

type spent struct {
	waits   [6]float64
	kernels [trace.NumFunc]float64
}

// usageSpan is the span that a rate is taken over.
const usageSpan = time.Minute

// usageOf gives the rates of a moment, of hosts that answer, as far as their histories go.
func usageOf(rec *cluster.Recording) usage {
	out := usage{}
	for h := range rec.Hosts() {
		if !rec.Answers(h) {
			continue
		}
		for _, r := range rec.RanksOf(h) {
			got := rec.Usage(r, usageSpan)
			if got.Last == 0 {
				continue
			}
			u, span := &spent{waits: got.Waits, kernels: got.Kernels}, float64(max(1, got.Last-got.First))
			for i := range u.waits {
				u.waits[i] /= span
			}
			for i := range u.kernels {
				u.kernels[i] /= span
			}
			out[r] = u
		}
	}
	return out
}

// grown gives the ranks next to what is slow, those that the service looks back at first in a large job: those whose
// time in kernels grew least, and those whose time in each kind of kernel, and of waiting for each reason, grew most.
// One of each kind comes before the second of any.
func (u usage) grown(past usage, each int) []int {
	ranks := make([]int, 0, len(u))
	before := make(usage, len(u))
	for r := range u {
		if before[r] = past[r]; before[r] == nil { // Not known, or nothing is: a job may have no time before.
			before[r] = &spent{}
		}
		ranks = append(ranks, r)
	}
	past = before
	slices.Sort(ranks)
	var lists [][]int
	most := func(by func(r int) float64) {
		growth := make(map[int]float64, len(ranks))
		for _, r := range ranks {
			growth[r] = by(r)
		}
		sorted := slices.Clone(ranks)
		slices.SortStableFunc(sorted, func(a, b int) int { return cmp.Compare(growth[b], growth[a]) })
		var list []int
		for _, r := range sorted[:min(each, len(sorted))] {
			if growth[r] > 0 {
				list = append(list, r)
			}
		}
		lists = append(lists, list)
	}
	least := 0.0
	total := func(r int) (growth float64) {
		for i := range u[r].kernels {
			growth += u[r].kernels[i] - past[r].kernels[i]
		}
		return growth
	}
	for _, r := range ranks {
		least = max(least, total(r))
	}
	most(func(r int) float64 { return least - total(r) })
	for i := range 6 {
		most(func(r int) float64 { return u[r].waits[i] - past[r].waits[i] })
	}
	for i := range trace.NumFunc {
		most(func(r int) float64 { return u[r].kernels[i] - past[r].kernels[i] })
	}
	var out []int
	for i := range each {
		for _, l := range lists {
			if i < len(l) && !slices.Contains(out, l[i]) {
				out = append(out, l[i])
			}
		}
	}
	return out
}
