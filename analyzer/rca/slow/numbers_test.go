// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"
	"testing"
)

func TestMostFrequent(t *testing.T) {
	for _, c := range []struct {
		name       string
		counts     map[int]int
		best, most int
	}{
		{"nothing", nil, 0, 0},
		{"one", map[int]int{-3: 1}, -3, 1},
		{"the highest count", map[int]int{1: 2, 2: 5, 3: 4}, 2, 5},
		{"the first of those that count as much", map[int]int{7: 2, -4: 2, 9: 1}, -4, 2},
	} {
		if best, most := mostFrequent(c.counts, cmp.Compare); best != c.best || most != c.most {
			t.Errorf("%s: %d, %d times; want %d, %d times", c.name, best, most, c.best, c.most)
		}
	}
}

func TestMedianOfOthers(t *testing.T) {
	for _, c := range []struct {
		sorted []int64
		own    int64
		want   int64
	}{
		{[]int64{1, 9}, 1, 9},
		{[]int64{1, 9}, 9, 1},
		{[]int64{1, 2, 3}, 2, 1},
		{[]int64{1, 2, 3, 4}, 4, 2},
		{[]int64{1, 2, 3, 4}, 1, 3},
		{[]int64{5, 5, 5, 8}, 8, 5},
	} {
		if got := medianOfOthers(c.sorted, c.own); got != c.want {
			t.Errorf("of %v without %d: %d, want %d", c.sorted, c.own, got, c.want)
		}
	}
}

func TestHeaviestFirst(t *testing.T) {
	got := heaviestFirst(map[string]float64{"b": 2, "a": 2, "c": 7, "d": 0}, cmp.Compare)
	if want := []string{"c", "a", "b", "d"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
