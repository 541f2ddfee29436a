// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestJudge(t *testing.T) {
	one, two, nobody := truth{[]int{3}, "ECC"}, truth{[]int{3, 5}, ""}, truth{nil, "SIGHUP"}
	for name, c := range map[string]struct {
		truth truth
		a     answer
		want  string
	}{
		"the rank and the cause":        {one, answer{true, []int{3}, "its GPU reported an ECC error"}, right},
		"the rank without the cause":    {one, answer{true, []int{3}, "it waits"}, wider},
		"the cause without the rank":    {one, answer{true, nil, "an ECC error"}, wider},
		"neither":                       {one, answer{true, nil, "some error"}, unknown},
		"another rank":                  {one, answer{true, []int{2}, "an ECC error"}, wrong},
		"the rank among others":         {one, answer{true, []int{2, 3}, "an ECC error"}, wider},
		"one of two":                    {two, answer{true, []int{5}, ""}, wider},
		"both":                          {two, answer{true, []int{3, 5}, ""}, right},
		"one of two, and an innocent":   {two, answer{true, []int{4, 5}, ""}, wrong},
		"nobody, with the cause":        {nobody, answer{true, nil, "got SIGHUP"}, right},
		"nobody, without the cause":     {nobody, answer{true, nil, "failed"}, unknown},
		"somebody where nobody is":      {nobody, answer{true, []int{0}, "got SIGHUP"}, wrong},
		"a file that it does not know":  {one, answer{false, nil, ""}, notRead},
		"of a healthy job says nothing": {truth{}, answer{true, nil, "healthy"}, right},
	} {
		if got := c.truth.judge(c.a); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestRanksIn(t *testing.T) {
	for text, want := range map[string][]int{
		"[rank3]: RuntimeError: x": {3}, "rank: 5 (local_rank: 1)": {5}, "Rank 7 on gpu-a": {7}, "local_rank: 1": nil, "nothing": nil,
		"missing ranks: {1, 2}": {1, 2}, "Culprit rank 4; Collective type mismatch": {4},
	} {
		if got := ranksIn(text); len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
