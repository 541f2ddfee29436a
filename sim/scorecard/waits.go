// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// waits is how much of its time each rank waits for what, as Prometheus has it from nccl_wait_seconds_total: send flows for
// the GPU, the peer, the network; receive flows for data, the flush, the GPU.
type waits map[int][6]float64

// waitsSpan is the span that a rate is taken over, waitsFloor the waiting, in seconds per second, below which growth counts
// little.
const (
	waitsSpan  = time.Minute
	waitsFloor = 0.05
)

// waitsOf gives the rates of a moment, of hosts that answer, as far as their histories go.
func waitsOf(rec *cluster.Recording) (waits, error) {
	out := waits{}
	for h := range rec.Hosts() {
		if !rec.Answers(h) {
			continue
		}
		files := map[string]int{}
		first, last := map[int]uint64{}, map[int]uint64{}
		err := rec.Trace(h, waitsSpan, func(line *nodeapi.TraceLine) error {
			switch {
			case line.Process != nil:
				files[line.Process.File] = int(line.Process.Rank)
			case line.Completion != nil:
				c := &line.Completion.Completion
				r := files[line.Completion.File]
				if first[r] == 0 || c.LeftNS < first[r] {
					first[r] = c.LeftNS
				}
				last[r] = max(last[r], c.LeftNS)
				w := out[r]
				for i := range c.Send.WaitNS {
					w[i] += float64(c.Send.WaitNS[i])
					w[3+i] += float64(c.Recv.WaitNS[i])
				}
				out[r] = w
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for r, from := range first {
			w := out[r]
			for i := range w {
				w[i] /= float64(max(1, last[r]-from))
			}
			out[r] = w
		}
	}
	return out, nil
}

// grown gives the ranks whose waiting has grown most since the past, for each reason: those that the service looks back
// at first in a large job.
func (w waits) grown(past waits, each int) []int {
	ranks := make([]int, 0, len(w))
	for r := range w {
		ranks = append(ranks, r)
	}
	var out []int
	for reason := range 6 {
		by := func(r int) float64 { return (w[r][reason] + waitsFloor) / (past[r][reason] + waitsFloor) }
		slices.SortFunc(ranks, func(a, b int) int { return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(a, b)) })
		for _, r := range ranks[:min(each, len(ranks))] {
			if by(r) > 1 && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}
