// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"slices"
	"testing"
)

func TestStacksAlone(t *testing.T) {
	reduce := []string{"<module> (train.py:9)", "step (train.py:5)", "wrapper (torch/distributed/c10d_logger.py:83)", "all_reduce (torch/distributed/distributed_c10d.py:2696)"}
	loader := []string{"<module> (train.py:9)", "step (train.py:3)", "__next__ (torch/utils/data/dataloader.py:701)", "read (ssl.py:1166)"}
	for _, tc := range []struct {
		name    string
		outside []int
		total   int
		class   Class
		want    []int
	}{
		{"one outside", []int{5}, 8, NotEntered, []int{5}},
		{"all inside", nil, 8, Unknown, nil},
		{"all outside", []int{0, 1, 2, 3}, 4, Unknown, nil},
		{"half outside", []int{0, 1, 2, 3}, 8, Unknown, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ev := Evidence{WorldSize: tc.total}
			for r := range tc.total {
				stack := reduce
				if slices.Contains(tc.outside, r) {
					stack = loader
				}
				ev.Ranks = append(ev.Ranks, Rank{ID: r, Stack: stack})
			}
			v := Analyze(ev, Options{})
			if v.Class != tc.class || !slices.Equal(culpritRanks(v), tc.want) {
				t.Errorf("%s %v, want %s %v: %s", v.Class, culpritRanks(v), tc.class, tc.want, v.Summary)
			}
		})
	}
}
