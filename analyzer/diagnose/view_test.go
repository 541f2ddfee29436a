// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestComms: the communicators that tell runs apart are those whose ids are known, the largest first.
func TestComms(t *testing.T) {
	in := func(ids ...rca.CommID) rca.Rank {
		var r rca.Rank
		for _, id := range ids {
			r.Memberships = append(r.Memberships, rca.Membership{Comm: id})
		}
		return r
	}
	ev := rca.Evidence{Ranks: []rca.Rank{in("0/2", "c/2", "a/2"), in("0/2", "b/2", "a/2"), in("0/2")}}
	if got := comms(&ev); !slices.Equal(got, []string{"a/2", "b/2", "c/2"}) {
		t.Errorf("got %v", got)
	}
}
