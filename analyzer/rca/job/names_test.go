// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestRankName: a rank is named with its process only where the process has several ranks.
func TestRankName(t *testing.T) {
	x := NewIndex(&rca.Evidence{Ranks: []rca.Rank{
		{ID: 0, Host: "a", PID: 7, GPU: "0"}, {ID: 1, Host: "a", PID: 7, GPU: "1"}, {ID: 2, Host: "a", PID: 8, GPU: "2"}, {ID: 3, Host: "b", PID: 7, GPU: "0"},
	}}, rca.Options{})
	for n, want := range []string{"rank 0 (a, process 7, GPU 0)", "rank 1 (a, process 7, GPU 1)", "rank 2 (a, GPU 2)", "rank 3 (b, GPU 0)"} {
		if got := x.RankName(int32(n)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
