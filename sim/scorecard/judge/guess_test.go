// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/culprit-project/culprit/sim/cluster"
)

func TestGuess(t *testing.T) {
	guilty := &cluster.Answer{Truths: []cluster.Truth{{Ranks: []int{3, 4}}}}
	nobody := &cluster.Answer{Truths: []cluster.Truth{{}}}
	for _, c := range []struct {
		name   string
		rank   int
		answer *cluster.Answer
		effect bool
		want   Guess
	}{
		{"guilty", 4, guilty, true, Guess{4, true, false}},
		{"innocent", 5, guilty, true, Guess{5, false, true}},
		{"nobody, and somebody is", -1, guilty, true, Guess{-1, false, false}},
		{"nobody, and nobody is", -1, nobody, true, Guess{-1, true, false}},
		{"somebody, and nobody is", 1, nobody, true, Guess{1, false, true}},
		{"guilty without effect", 3, guilty, false, Guess{3, false, false}},
	} {
		if got := NewGuess(c.rank, c.answer, c.effect); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
