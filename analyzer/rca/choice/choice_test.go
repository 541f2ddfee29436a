// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package choice

import "testing"

func TestRival(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options []Option
		want    int
	}{
		{"alone", []Option{{0.9, []int32{1}}}, -1},
		{"ahead by the margin", []Option{{0.9, []int32{1}}, {0.9 - Margin, []int32{2}}}, -1},
		{"too close", []Option{{0.9, []int32{1}}, {0.89, []int32{2}}}, 1},
		{"the close one accuses the same rank among others", []Option{{0.9, []int32{1}}, {0.89, []int32{1, 2}}}, -1},
		{"behind one that shares a rank", []Option{{0.9, []int32{1, 2}}, {0.9, []int32{2}}, {0.88, []int32{3}}}, 2},
		{"a path accuses no rank", []Option{{0.9, []int32{1}}, {0.9, nil}}, 1},
	} {
		if got := Rival(tc.options); got != tc.want {
			t.Errorf("%s: rival %d, want %d", tc.name, got, tc.want)
		}
	}
}
