// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Accused ranks, and candidates without a name, are not listed among those that were considered and not accused.
func TestOthersOnly(t *testing.T) {
	got := othersOnly(&rca.Verdict{
		Culprits: []rca.Culprit{{Rank: 5}, {Rank: -1, Group: "link 4->5"}},
		RuledOut: []rca.Candidate{{Rank: 5}, {Rank: 3, Reason: "it waits"}, {Rank: -1}, {Rank: -1, Group: "link 4->5"}, {Rank: -1, Group: "dp"}},
	})
	if want := []rca.Candidate{{Rank: 3, Reason: "it waits"}, {Rank: -1, Group: "dp"}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
