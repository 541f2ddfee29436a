// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// faultyWeight is the weight of a GPU's own error where nothing else tells one rank from another: an error of half an hour ago may
// have nothing to do with it.
const faultyWeight = 0.7

// faultyGPU names the one GPU that reports an error where all ranks have called the same and then nothing for a while. Every rank is a
// suspect then, as the members of a group that stands still are. While a rank moves bytes to or from storage all may wait for that.
func faultyGPU(x *job.Index, still time.Duration) (rca.Verdict, bool) {
	nodes := make([]int32, len(x.Nodes))
	for i := range nodes {
		nodes[i] = int32(i) //nolint:gosec // Far fewer than 2^31 ranks.
	}
	n := x.OnlyAiling(nodes, job.GPUAilment)
	if n < 0 || stores(x) {
		return rca.Verdict{}, false
	}
	v := job.NewVerdict(x)
	v.Class, v.Code, v.Cause = rca.Fault, rca.Fault.Code(), rca.CauseGPU
	v.RanksVisited = x.Seen
	v.Confidence = rca.Round(faultyWeight * (1 - 0.4*x.Unseen()))
	c := x.Culprit(n)
	c.Why = words.GPUShowsError
	v.Culprits = append(v.Culprits, c)
	v.Summary = fmt.Sprintf(words.FaultyAlone, words.Opener(x.RankName(n)), words.Span(still))
	v.Evidence = x.FactsOf(n)
	v.Action = rca.ActionFor(v.Class, v.Cause)
	v.Standstill, v.MayGetOn = still.Seconds(), true
	v.Page = x.Carries(v.Class, v.Confidence)
	return v, true
}
