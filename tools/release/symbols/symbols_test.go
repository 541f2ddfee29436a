// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package symbols

import "testing"

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"2.34", "2.17", true},
		{"2.9", "2.17", false},
		{"2.17", "2.17", false},
		{"2.2.5", "2.2", true},
		{"2.3", "2.2.5", true},
		{"PRIVATE", "2.17", true},
		{"2.17", "PRIVATE", false},
	} {
		if got := Newer(c.a, c.b); got != c.want {
			t.Errorf("%s newer than %s: %v", c.a, c.b, got)
		}
	}
}
