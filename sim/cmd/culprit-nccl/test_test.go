// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/sim/matrix"
)

// TestUnrepeated: an interrupted repetition goes on with the cases that its round lacks.
func TestUnrepeated(t *testing.T) {
	a, b := matrix.Case{Version: "2.30.7", Fault: "stop"}, matrix.Case{Version: "2.30.7", Fault: "kill"}
	results := []matrix.Result{{Case: a}, {Case: b}, {Case: a}}
	for round, want := range [][]matrix.Case{nil, {b}, {a, b}} {
		if got := unrepeated([]matrix.Case{a, b}, results, round); !slices.Equal(got, want) {
			t.Errorf("round %d: %+v are left", round, got)
		}
	}
}
