// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/lab/nccl/draw"
	"github.com/culprit-project/culprit/sim/matrix"
)

// TestAgain: a job that failed is run until it has passed ten times on end; one that was listed, too; one that passed is not.
func TestAgain(t *testing.T) {
	job := func(n int) draw.Job { return draw.Job{Seed: 1, Number: n} }
	result := func(n int, fate matrix.Fate, times int) (out []matrix.Drawn) {
		for range times {
			out = append(out, matrix.Drawn{Job: job(n), Fate: fate})
		}
		return out
	}
	const passed, failed, forgotten, again, listed, listedAndPassed, never = 0, 1, 2, 3, 4, 5, 6
	results := slices.Concat(
		result(passed, matrix.FateRight, 1),
		result(failed, matrix.FateInnocent, 1), result(failed, matrix.FateUnnamed, passesToForget-1),
		result(forgotten, matrix.FateWrong, 1), result(forgotten, matrix.FateRight, passesToForget),
		result(again, matrix.FateWrong, 1), result(again, matrix.FateRight, passesToForget), result(again, matrix.FateUnknown, 1),
		result(listed, matrix.FateRight, 2),
		result(listedAndPassed, matrix.FateRight, passesToForget),
	)
	got := againOf(results, []draw.Job{job(listed), job(listedAndPassed), job(never)})
	if want := []draw.Job{job(never), job(failed), job(again), job(listed)}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
