// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

// Held gives how many files a listing of a directory holds while one is followed.
func Held(dir, followed string) int {
	t, err := readTree(dir, map[string]bool{followed: true})
	if err != nil {
		return -1
	}
	defer t.close()
	return len(t.files)
}
