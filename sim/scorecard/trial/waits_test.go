// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"
	"testing"
)

// Who waits more than before comes first; where nothing is known of before, who waits most.
func TestUsageGrown(t *testing.T) {
	now := usage{}
	for r := range 8 {
		now[r] = &spent{}
		now[r].waits[0] = 0.1 * float64(r)
	}
	past := usage{7: {waits: now[7].waits}}
	if got := now.grown(past, 1); !slices.Contains(got, 6) || slices.Contains(got, 7) && got[0] == 7 {
		t.Errorf("%v have grown since %v waited as long", got, 7)
	}
	if len(past) != 1 {
		t.Error("the past has changed")
	}
	if got := now.grown(nil, 1); !slices.Contains(got, 7) {
		t.Errorf("%v have grown since nothing is known of", got)
	}
}
