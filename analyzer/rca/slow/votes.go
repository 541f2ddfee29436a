// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// votes gives what each method alone would say of slowness.
func (a *analysis) votes() []rca.Vote {
	return append([]rca.Vote{a.walkVote(), a.ccldVote(), a.mycroftVote(), a.pulseVote()}, a.holmesVotes()...)
}

// walkVote names who holds most of the critical path beyond an even share.
func (a *analysis) walkVote() rca.Vote {
	v := rca.Vote{Method: "critical-path", Class: rca.Unknown, Ranks: []int{}}
	best, most := int32(-1), int64(0)
	for n := range a.walk.time {
		if own := a.walk.time[n][pathCompute] + a.walk.time[n][pathHost]; own > most {
			best, most = int32(n), own
		}
	}
	if best < 0 || a.walk.total == 0 {
		return v
	}
	share := float64(most) / float64(a.walk.total)
	v.Note = fmt.Sprintf(words.MethodOnPath, a.Nodes[best].ID, 100*share)
	if share > 2/float64(max(2, a.visitedRanks())) && share > pathShare {
		v.Class, v.Ranks = rca.SlowCompute, []int{a.Nodes[best].ID}
	}
	return v
}
