// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rcatest

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// CulpritRanks gives the ranks that a verdict names, sorted; -1 where it names a group.
func CulpritRanks(v rca.Verdict) []int {
	var out []int
	for _, c := range v.Culprits {
		out = append(out, c.Rank)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Accused gives the ranks that a verdict names, and whether it names anybody at all.
func Accused(v rca.Verdict) []int {
	return slices.DeleteFunc(CulpritRanks(v), func(r int) bool { return r < 0 })
}
