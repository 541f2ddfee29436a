// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"

	"github.com/culprit-project/culprit/sim/cluster"
)

// Guess is what a method alone says, judged by the first rank it names.
type Guess struct {
	Rank  int  `json:"rank"` // -1 nobody.
	Right bool `json:"right"`
	False bool `json:"false_accusation"`
}

// NewGuess judges whom a method names first, -1 nobody.
func NewGuess(rank int, a *cluster.Answer, effect bool) Guess {
	guilty, somebody := false, false
	for _, t := range a.Truths {
		guilty = guilty || slices.Contains(t.Ranks, rank)
		somebody = somebody || (effect && len(t.Ranks) > 0)
	}
	return Guess{Rank: rank, Right: (somebody && guilty) || (!somebody && rank < 0), False: rank >= 0 && !guilty}
}
