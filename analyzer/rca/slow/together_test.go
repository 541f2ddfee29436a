// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestRanksThatGoOnTogether: two ranks of a tensor-parallel group are late together, of which one computes slowly. Kernels would show
// which; without them, or where those of the group are not to be trusted, the node may.
func TestRanksThatGoOnTogether(t *testing.T) {
	sick := rca.Fact{Host: "node2", Rank: 5, Component: "gpu", Kind: "clock_throttled", Value: 700, Expected: 1980}
	for _, c := range []struct {
		name    string
		kernels bool
		trusted bool // Those of operations inside the host.
		facts   []rca.Fact
		ranks   []int
		group   string
	}{
		{"kernels are seen", true, true, nil, []int{4, 5}, ""},
		{"kernels are not", false, true, nil, []int{-1}, "ranks 4, 5"},
		{"the node complains of one GPU", false, true, []rca.Fact{sick}, []int{5}, ""},
		{"kernels are not to be trusted", true, false, nil, []int{-1}, "ranks 4, 5"},
		{"nor are they, and the node complains of one GPU", true, false, []rca.Fact{sick}, []int{5}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(4, 1, 2)
			j.Compute = func(r, _ int) float64 { return pick(r/2 == 2, 1.6, 1.0) }
			j.Facts = c.facts
			ev := j.Evidence()
			for i := range ev.Ranks {
				if !c.kernels {
					ev.Ranks[i].Caps &^= rca.SeesKernels
				}
			}
			for _, comm := range ev.Comms {
				for k, r := range comm.Members {
					ev.Ranks[r].Memberships = append(ev.Ranks[r].Memberships, rca.Membership{Comm: comm.ID, CommRank: k, KernelUntrusted: !c.trusted})
				}
			}
			v := verdictOf(ev, rca.Options{})
			if v.Class != rca.SlowCompute || !slices.Equal(rcatest.CulpritRanks(v), c.ranks) || v.Culprits[0].Group != c.group || !v.Page {
				t.Errorf("%s/%s %v, page %v: %s", v.Class, v.Cause, v.Culprits, v.Page, v.Summary)
			}
		})
	}
}

// TestOnlyTwoReplicas: of two who do the same work and differ, nothing tells which is not as it should be, unless the node does or the
// job's own past.
func TestOnlyTwoReplicas(t *testing.T) {
	sick := rca.Fact{Host: "node3", Rank: 6, Component: "gpu", Kind: "clock_throttled", Value: 700, Expected: 1980}
	for _, c := range []struct {
		name  string
		facts []rca.Fact
		ranks []int
	}{
		{"nothing more is known", nil, nil},
		{"the node complains of a GPU", []rca.Fact{sick}, []int{6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(2, 2, 2)
			j.Compute = func(r, _ int) float64 { return pick(r/2 == 3, 1.6, 1.0) }
			j.Facts = c.facts
			ev := j.Evidence()
			for i := range ev.Ranks {
				ev.Ranks[i].Caps &^= rca.SeesKernels
			}
			if v := verdictOf(ev, rca.Options{}); !slices.Equal(rcatest.CulpritRanks(v), c.ranks) {
				t.Errorf("%s/%s %v, page %v: %s", v.Class, v.Cause, v.Culprits, v.Page, v.Summary)
			}
		})
	}
}
