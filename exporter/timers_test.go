// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestRelaxTimers looks at what the kernel says of this process's threads. Without the right to change all, the failure
// must be told.
func TestRelaxTimers(t *testing.T) {
	failed := relaxTimers()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, task := range tasks {
		content, err := os.ReadFile(filepath.Join("/proc", task.Name(), "timerslack_ns"))
		if err == nil && strings.TrimSpace(string(content)) != strconv.Itoa(timerSlackNS) {
			others++
		}
	}
	if (others > 0) != (failed != nil) {
		t.Errorf("%d of %d threads have another slack, and the error is %v", others, len(tasks), failed)
	}
}
