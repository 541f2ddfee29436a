// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import "testing"

// TestHostPart: two iterations that a late host made long among many whose excess is noise tell of the host. A trainer's data loader that
// had just become slow was told as its GPU.
func TestHostPart(t *testing.T) {
	noise := []int64{350, 290, 410, 330, 380, 300, 360, 340}
	long := []int64{2400, 3200}
	var excess, over, late []int64
	for _, e := range noise {
		excess, over, late = append(excess, e), append(over, 2*e), append(late, 0)
	}
	for _, e := range long {
		excess, over, late = append(excess, e), append(over, e), append(late, e-100)
	}
	if got := hostPart(excess, over, late, 340); got < 0.9 {
		t.Errorf("the host's part is %.2f", got)
	}
	if got := hostPart(excess[:len(noise)], over, late, 340); got != 0 {
		t.Errorf("of noise the host's part is %.2f", got)
	}
}
