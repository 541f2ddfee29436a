// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
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
		{"the engine names nobody", nil, map[string]judge.Guess{"ccl-d": guess(5), "pulse": guess(5)}, []string{"ccl-d", "pulse"}},
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

// TestDrawnCountApart: runs drawn beside the matrix are in a table of their own, and in no figure that floors are set on.
func TestDrawnCountApart(t *testing.T) {
	var all []judge.Outcome
	for i := range 4 {
		all = append(all, judge.Outcome{Name: strconv.Itoa(i), Group: matrix.GroupHang, Level: string(cluster.KernelEvents), Effect: true, Drawn: i > 0, Seed: uint64(7 + i/3)})
	}
	r := New("full", 1, "c", "m", time.Time{}, 0, all)
	if r.Summary.Runs != 1 || len(r.Outcomes) != 1 || len(r.Drawn) != 3 {
		t.Errorf("%d runs, %d outcomes, %d drawn; want 1, 1 and 3", r.Summary.Runs, len(r.Outcomes), len(r.Drawn))
	}
	tables := r.drawn()
	if len(tables) != 1 || tables[0].rows[0][0] != matrix.GroupHang || tables[0].rows[0][1] != "3" {
		t.Errorf("tables are %+v", tables)
	}
	if got := r.drawnFlag(); got != " --blind 7,8" {
		t.Errorf("the drawn runs are chosen again by %q", got)
	}
	if r := New(ModeBlind, 1, "c", "m", time.Time{}, 0, all); len(r.Outcomes) != 4 || r.drawn() != nil {
		t.Errorf("of drawn runs alone %d are counted, want all 4", len(r.Outcomes))
	}
}
