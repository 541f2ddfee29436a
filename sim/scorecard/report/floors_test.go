// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/sim/cluster"
)

func TestFloorsCheck(t *testing.T) {
	s := summarize(mixture())
	for _, c := range []struct {
		name   string
		floors Floors
		want   []string // Beginnings.
	}{
		{"none", Floors{}, nil},
		{"kept", Floors{AtLeast: map[string]float64{"hang_top1": 0.9}, AtMost: map[string]float64{"hang_latency_p90_seconds": 60}, Met: []string{"healthy"}}, nil},
		{"exactly", Floors{AtLeast: map[string]float64{"healthy_not_accused": 1}}, nil},
		{"under", Floors{AtLeast: map[string]float64{"slow_top1": 0.97, "hang_top1": 0.99, "recall": 0.1}}, []string{"hang_top1: 0.929, at least 0.990", "slow_top1: 0.786, at least 0.970"}},
		{"above", Floors{AtMost: map[string]float64{"hang_latency_p90_seconds": 5}}, []string{"hang_latency_p90_seconds: 18.000, at most 5.000"}},
		{"design", Floors{Met: []string{"benign", "healthy"}}, []string{"design benign: missed"}},
		{"unknown names", Floors{AtLeast: map[string]float64{"x": 0}, AtMost: map[string]float64{"y": 1}, Met: []string{"z"}}, []string{"x: there is no", "y: there is no", "design z: there is no"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.floors.Check(&s)
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The committed floors name figures that exist, and say something for both modes.
func TestCommittedFloors(t *testing.T) {
	s := summarize(mixture())
	s.Levels = nil
	for _, l := range cluster.Levels { // A whole matrix has runs at each.
		s.Levels = append(s.Levels, LevelScore{Level: string(l)})
	}
	for _, mode := range []string{"quick", "full"} {
		f, err := CommittedFloors(mode)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.AtLeast) == 0 {
			t.Errorf("%s: no floors", mode)
		}
		for _, line := range f.Check(&s) {
			if strings.Contains(line, "there is no such") {
				t.Errorf("%s: %s", mode, line)
			}
		}
	}
	if _, err := CommittedFloors("slices"); err == nil {
		t.Error("floors of a mode that has none")
	}
	if _, err := readFloors([]byte(`{"quick":{"at_lest":{}}}`), "quick"); err == nil {
		t.Error("a misspelt key is taken")
	}
}
