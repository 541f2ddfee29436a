// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

func TestStacksAlone(t *testing.T) {
	reduce := []string{"<module> (train.py:9)", "step (train.py:5)", "wrapper (torch/distributed/c10d_logger.py:83)", "all_reduce (torch/distributed/distributed_c10d.py:2696)"}
	loader := []string{"<module> (train.py:9)", "step (train.py:3)", "__next__ (torch/utils/data/dataloader.py:701)", "read (ssl.py:1166)"}
	for _, tc := range []struct {
		name    string
		outside []int
		total   int
		class   rca.Class
		want    []int
	}{
		{"one outside", []int{5}, 8, rca.NotEntered, []int{5}},
		{"all inside", nil, 8, rca.Unknown, nil},
		{"all outside", []int{0, 1, 2, 3}, 4, rca.Unknown, nil},
		{"half outside", []int{0, 1, 2, 3}, 8, rca.Unknown, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ev := rca.Evidence{WorldSize: tc.total}
			for r := range tc.total {
				stack := reduce
				if slices.Contains(tc.outside, r) {
					stack = loader
				}
				ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Stack: stack})
			}
			v := Analyze(ev, rca.Options{})
			if v.Class != tc.class || !slices.Equal(rcatest.CulpritRanks(v), tc.want) {
				t.Errorf("%s %v, want %s %v: %s", v.Class, rcatest.CulpritRanks(v), tc.class, tc.want, v.Summary)
			}
		})
	}
}
