// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

func asked(t *testing.T, all []judge.Outcome, id string) Asked {
	t.Helper()
	s := summarize(all)
	i := slices.IndexFunc(s.Design, func(a Asked) bool { return a.ID == id })
	if i < 0 {
		t.Fatalf("no floor %q", id)
	}
	return s.Design[i]
}

func TestDesignFloors(t *testing.T) {
	for _, c := range []struct {
		id    string
		all   []judge.Outcome
		state string
		hits  int
		of    int
	}{
		{"hangs", nil, stateNotRun, 0, 0},
		{"hangs", some(matrix.GroupHang, "gpu_error", "gpt-64", "dead", 64, 100, 99), stateMet, 99, 100},
		{"hangs", some(matrix.GroupHang, "gpu_error", "gpt-64", "dead", 64, 100, 98), stateMissed, 98, 100},
		// Only half severity counts, by scale.
		{"slow", some(matrix.GroupSlow, "gpu_throttle", "gpt-2048", "50%", 2048, 100, 97), stateMet, 97, 100},
		{"slow", some(matrix.GroupSlow, "gpu_throttle", "gpt-64", "40%", 64, 5, 0), stateNotRun, 0, 0},
		{"slow", some(matrix.GroupSlow, "gpu_throttle", "gpt-8192", "50%", 8192, 5, 0), stateNotRun, 0, 0},
		{"slow-large", some(matrix.GroupSlow, "gpu_throttle", "gpt-8192", "50%", 8192, 20, 18), stateMissed, 18, 20},
		{"mycroft", some(matrix.GroupHang, "nic_down", "gpt-32", "dead", 32, 2, 2), stateMissed, 1, 7},
		{"mycroft", some(matrix.GroupHang, "nic_down", "gpt-64", "dead", 64, 2, 2), stateNotRun, 0, 0},
		{"pulse", some(matrix.GroupHang, "nic_down", "neighbour-4", "dead", 4, 40, 37), stateMissed, 0, 12},
		{"healthy", some(matrix.GroupHealthy, "healthy", "gpt-64", "none", 64, 1000, 999), stateMissed, 999, 1000},
		{"benign", some(matrix.GroupBenign, "evaluation", "gpt-64", "every 4", 64, 3, 3), stateMet, 3, 3},
	} {
		a := asked(t, c.all, c.id)
		if a.State != c.state || a.Measured.Hits != c.hits || a.Measured.Of != c.of {
			t.Errorf("%s: %s with %d of %d, want %s with %d of %d", c.id, a.State, a.Measured.Hits, a.Measured.Of, c.state, c.hits, c.of)
		}
	}
}

// All of a paper's cases, each right, meet its floor; one that only ever ran without effect does not.
func TestDesignCasesComplete(t *testing.T) {
	for id, list := range map[string][]matrix.PaperCase{"mycroft": matrix.MycroftCases(), "ccl-d": matrix.CCLDCases(), "pulse": matrix.PulseCases()} {
		var all []judge.Outcome
		for i := range list {
			all = append(all, some(matrix.GroupSlow, string(list[i].Kinds[0]), list[i].Workloads[0], "50%", 32, 3, 3)...)
		}
		if a := asked(t, all, id); a.State != stateMet {
			t.Errorf("%s: %s, failing %v", id, a.State, a.Failing)
		}
		for i := range 3 {
			all[i].Effect = false
		}
		a := asked(t, all, id)
		if a.State != stateMissed || len(a.Failing) != 1 || !strings.HasPrefix(a.Failing[0], list[0].Name) {
			t.Errorf("%s without effect in %q: %s, failing %v", id, list[0].Name, a.State, a.Failing)
		}
	}
}

func TestDesignWholeIsNotWorseThanAPart(t *testing.T) {
	all := some(matrix.GroupHang, "gpu_error", "gpt-64", "dead", 64, 10, 8)
	if a := asked(t, all, "whole"); a.State != stateMet {
		t.Errorf("as good as CCL-D's tree: %s, %v", a.State, a.Failing)
	}
	all[9].Methods = map[string]judge.Guess{"ccl-d": {Rank: 3, Right: true}}
	a := asked(t, all, "whole")
	if a.State != stateMissed || !slices.ContainsFunc(a.Failing, func(f string) bool { return strings.HasPrefix(f, "ccl-d in hangs") }) {
		t.Errorf("CCL-D's tree is better: %s, %v", a.State, a.Failing)
	}
	// A method that no paper presents as its own may be.
	all[9].Methods = map[string]judge.Guess{"ras": {Rank: 3, Right: true}}
	for i := range 8 {
		all[i].Methods = map[string]judge.Guess{"ras": {Rank: 3, Right: true}}
	}
	if a := asked(t, all, "whole"); a.State != stateMet {
		t.Errorf("RAS is better: %s, %v", a.State, a.Failing)
	}
}
