// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"
)

// Slices is after how many landings in a row all of the long list has run.
const Slices = 10

// Slice gives the steps of a long list that the landing with this number runs.
//
// A machine that knows nothing of earlier runs goes by the number: ten in a row cover the list. A machine that does takes what failed,
// and then what has not run for longest, since between two landings there may be any number of commits.
func Slice(steps []Step, number int, state State) []Step {
	if !slices.ContainsFunc(steps, func(s Step) bool { return !state[s.Name].Last.IsZero() }) {
		return parts(steps)[number%Slices]
	}
	var out []Step
	for _, s := range steps {
		if state.failed(s.Name) {
			out = append(out, s)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return state.failed(s.Name) })
	slices.SortStableFunc(rest, func(a, b Step) int { return state[a.Name].Last.Compare(state[b.Name].Last) })
	due := total(steps) / Slices
	for _, s := range rest {
		if due <= 0 {
			break
		}
		out = append(out, s)
		due -= s.Time
	}
	return out
}

// parts divides steps into as many parts as there are slices, of about the same length.
func parts(steps []Step) [][]Step {
	longest := slices.Clone(steps)
	slices.SortStableFunc(longest, func(a, b Step) int { return cmp.Compare(b.Time, a.Time) })
	out := make([][]Step, Slices)
	for _, s := range longest {
		shortest := 0
		for i := range out {
			if total(out[i]) < total(out[shortest]) {
				shortest = i
			}
		}
		out[shortest] = append(out[shortest], s)
	}
	return out
}

func total(steps []Step) time.Duration {
	var sum time.Duration
	for _, s := range steps {
		sum += s.Time
	}
	return sum
}
