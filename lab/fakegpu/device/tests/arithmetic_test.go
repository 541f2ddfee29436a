// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestArithmetic needs no library of NCCL.
func TestArithmetic(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin/fakegpu/check-arithmetic")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
