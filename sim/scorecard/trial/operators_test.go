// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/methods/holmes"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// TestOperators: a simulated job with a slow GPU gives operators of both classes to learn from, many times more normal ones.
func TestOperators(t *testing.T) {
	ops, err := Operators(t.Context(), matrix.Options{Quick: true, Ranks: 8, Seed: 1, Only: []string{"gpu_throttle/50%/fsdp-8"}})
	if err != nil {
		t.Fatal(err)
	}
	abnormal := 0
	for i := range ops {
		if ops[i].Abnormal {
			abnormal++
		}
	}
	if abnormal == 0 || abnormal == len(ops) || !slices.ContainsFunc(ops, func(o holmes.Operator) bool { return o.Pattern == "AllGather" }) {
		t.Errorf("%d of %d operators are abnormal", abnormal, len(ops))
	}
}
