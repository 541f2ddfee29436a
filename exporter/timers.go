// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// timerSlackNS is by how much later than asked the kernel may wake a thread that sleeps, so as to wake several at once.
// While anything runs, Go's monitor thread sleeps for 20 us at a time: with the usual slack of 50 us it takes a seventh of what
// the exporter uses. Nothing here needs to be on time to the millisecond.
const timerSlackNS = 1_000_000

// relaxTimers sets the timer slack of all threads; those that they make inherit it. Other threads than one's own
// need CAP_SYS_NICE.
func relaxTimers() error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("listing threads: %w", err)
	}
	var failed error
	for _, t := range tasks {
		// Not under task/: the kernel shows this file in the directories of processes only, and has one for every thread.
		name := filepath.Join("/proc", t.Name(), "timerslack_ns")
		err := os.WriteFile(name, []byte(strconv.Itoa(timerSlackNS)), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = fmt.Errorf("setting timer slack: %w", err)
		}
	}
	return failed
}
