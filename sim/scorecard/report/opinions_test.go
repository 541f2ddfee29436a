// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

func TestDissent(t *testing.T) {
	guess := func(rank int) judge.Guess { return judge.Guess{Rank: rank} }
	for _, c := range []struct {
		name     string
		culprits []int
		methods  map[string]judge.Guess
		want     []string
	}{
		{"all agree", []int{3}, map[string]judge.Guess{"ccl-d": guess(3), "mycroft": guess(3)}, nil},
		{"one agrees", []int{3}, map[string]judge.Guess{"ccl-d": guess(5), "mycroft": guess(3)}, nil},
		{"all differ", []int{3}, map[string]judge.Guess{"ccl-d": guess(5), "mycroft": guess(4)}, []string{"ccl-d", "mycroft"}},
		{"the engine names nobody", nil, map[string]judge.Guess{"ccl-d": guess(5), "pulse vote": guess(5)}, []string{"ccl-d", "pulse vote"}},
		{"only one names somebody", nil, map[string]judge.Guess{"ccl-d": guess(5), "mycroft": guess(-1)}, nil},
		{"simple methods do not count", nil, map[string]judge.Guess{"ccl-d": guess(5), "last arriver": guess(5)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := dissent(&judge.Outcome{Said: judge.Said{Culprits: c.culprits}, Methods: c.methods}); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
