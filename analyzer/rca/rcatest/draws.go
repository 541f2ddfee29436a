// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rcatest

import "testing"

// Draws is how many random jobs a test draws: all of them, or a quarter under -short, as in make test. The long list draws all.
func Draws(all int) int {
	if testing.Short() {
		return max(1, all/4)
	}
	return all
}
