// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
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
		{"one of two outside", []int{1}, 2, rca.NotEntered, []int{1}},
		{"three of eight outside", []int{1, 2, 3}, 8, rca.Unknown, nil},
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
			if v.Class != tc.class || !slices.Equal(named(v), tc.want) {
				t.Errorf("%s %v, want %s %v: %s", v.Class, named(v), tc.class, tc.want, v.Summary)
			}
		})
	}
}

// named gives the ranks that a verdict accuses; suspects have no rank of their own.
func named(v rca.Verdict) []int {
	var out []int
	for _, c := range v.Culprits {
		if c.Rank >= 0 {
			out = append(out, c.Rank)
		}
	}
	return out
}

// One rank at work and one that waits for it is what a healthy job shows most of the time.
func TestOneAtWork(t *testing.T) {
	v := Analyze(rca.Evidence{WorldSize: 4, Ranks: []rca.Rank{
		{ID: 0, Stack: []string{"<module> (train.py:9)", "forward (model.py:5)"}},
		{ID: 1, Stack: []string{"<module> (train.py:9)", "all_reduce (torch/distributed/distributed_c10d.py:2942)"}},
	}}, rca.Options{})
	if v.Class != rca.Unknown || len(named(v)) > 0 {
		t.Errorf("%s %v: %s", v.Class, named(v), v.Summary)
	}
}

// N-1 ranks stand at one line, and one rank stands where only its own host can hold it up: the line may hide a wait for the GPU.
// Without such a stack, standing elsewhere is no evidence of guilt.
func TestStacksAlike(t *testing.T) {
	item := []string{"<module> (train.py:9)", "step (train.py:7)"}
	barrier := []string{"<module> (train.py:12)", "barrier (torch/distributed/distributed_c10d.py:4888)"}
	reduce := []string{"<module> (train.py:9)", "all_reduce (torch/distributed/distributed_c10d.py:2942)"}
	for _, tc := range []struct {
		name    string
		odd     []string
		others  []string
		want    []int
		suspect bool
	}{
		{"data loader", []string{"<module> (train.py:5)", "__next__ (torch/utils/data/dataloader.py:701)"}, item, []int{2}, false},
		{"debugger", []string{"<module> (train.py:5)", "interaction (pdb.py:355)", "cmdloop (cmd.py:126)"}, item, []int{2}, false},
		{"lock", []string{"<module> (train.py:5)", "wait (threading.py:327)"}, item, []int{2}, false},
		{"subprocess", []string{"<module> (train.py:5)", "run (subprocess.py:550)", "wait (subprocess.py:1264)"}, item, []int{2}, false},
		{"import", []string{"<module> (train.py:5)", "_find_and_load (<frozen importlib._bootstrap>:1176)", "<module> (models/vit.py:3)"}, item, []int{2}, false},
		{"another line", []string{"<module> (train.py:5)"}, item, nil, false},
		{"another collective", barrier, reduce, nil, true},
		{"restoring", []string{"<module> (train.py:5)", "load (torch/serialization.py:1425)"}, reduce, []int{2}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ev := rca.Evidence{WorldSize: 4}
			for r := range 4 {
				stack := tc.others
				if r == 2 {
					stack = tc.odd
				}
				ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Stack: stack})
			}
			v := Analyze(ev, rca.Options{})
			if !slices.Equal(named(v), tc.want) || tc.suspect != (len(v.Culprits) == 1 && len(tc.want) == 0) {
				t.Errorf("%+v: %s", v.Culprits, v.Summary)
			}
		})
	}
}
