// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import "testing"

// Held gives how many files a listing of a directory holds while one is followed.
func Held(dir, followed string) int {
	t, err := readTree(dir, map[string]bool{followed: true}, func() map[uint32]bool { return nil })
	if err != nil {
		return -1
	}
	defer t.close()
	return len(t.files)
}

// ListAtMost has so many names of a root listed.
func ListAtMost(t *testing.T, n int) {
	before := maxRootListed
	maxRootListed = n
	t.Cleanup(func() { maxRootListed = before })
}
