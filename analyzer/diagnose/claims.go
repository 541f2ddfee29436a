// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// withhold takes a rank off the accused of which nobody knows which process it is. The engine may come to it by the waiting of
// others alone; still its host and process would be those of whoever lies.
func withhold(v *rca.Verdict, disputed func(rank int) string) {
	doubted := func(c rca.Culprit) bool { return c.Rank >= 0 && disputed(c.Rank) != "" }
	i := slices.IndexFunc(v.Culprits, doubted)
	if i < 0 {
		return
	}
	rank := v.Culprits[i].Rank
	v.Culprits = slices.DeleteFunc(slices.Clone(v.Culprits), doubted)
	if len(v.Culprits) > 0 {
		return
	}
	v.Summary = fmt.Sprintf("The evidence leads to rank %d, but %s. Not enough evidence to name a process.", rank, disputed(rank))
	v.Class, v.Cause, v.Confidence = rca.Unknown, rca.CauseUnknown, 0 // It may still page: those that wait are no liars.
}
