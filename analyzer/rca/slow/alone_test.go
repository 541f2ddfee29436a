// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// TestAloneInItsRole: a rank that no other can be compared with is compared with its own quicker iterations. Where all ranks take now longer
// and now shorter, as on busy hosts, that accuses nobody. Where it alone does, it is named, unless that may be chance.
func TestAloneInItsRole(t *testing.T) {
	named, told := 0, 0
	for seed := range uint64(30) {
		stages := 2 + int(seed%3)*2
		vary := func(who func(rank int) bool) rca.Verdict {
			rng := rand.New(rand.NewPCG(seed, 1))
			j := rcatest.NewSlowJob(1, stages, 1)
			j.Iters = 24
			by := map[[2]int]float64{}
			j.Compute = func(rank, iter int) float64 {
				at := [2]int{rank, iter}
				if by[at] == 0 {
					by[at] = 1
					if longer := 1 + 0.8*rng.Float64(); rng.Float64() < 0.5 && who(rank) {
						by[at] = longer
					}
				}
				return by[at]
			}
			return verdictOf(j.Evidence(), rca.Options{})
		}
		if v := vary(func(int) bool { return true }); v.Page {
			t.Errorf("seed %d, all vary: page about %v: %s", seed, rcatest.Accused(v), v.Summary)
		}
		if v := vary(func(rank int) bool { return rank == 0 }); slices.Equal(rcatest.Accused(v), []int{0}) {
			named++
			if slices.Contains(v.Evidence, fmt.Sprintf(words.NotBeyondChance, int(1/pageChance))) {
				told++
				if v.Page {
					t.Errorf("seed %d pages, although it may be chance: %s", seed, v.Summary)
				}
			}
		} else if len(rcatest.Accused(v)) > 0 || v.Row != "may_be_chance" {
			t.Errorf("seed %d, rank 0 varies: %s accuses %v: %s", seed, v.Row, rcatest.Accused(v), v.Summary)
		}
	}
	if named < 20 || told == 0 {
		t.Errorf("rank 0 is named in %d of 30 jobs; of %d it is said that nobody is paged yet", named, told)
	}
}

// TestStageOnOnePlace: where all ranks of a stage that became slower are one, or all that a host has, it is the machine that has changed.
func TestStageOnOnePlace(t *testing.T) {
	for _, c := range []struct {
		tp      int
		culprit []int
	}{{1, []int{3}}, {2, []int{6, 7}}} {
		j := rcatest.NewSlowJob(1, 4, c.tp)
		j.Compute = func(rank, iter int) float64 {
			if slices.Contains(c.culprit, rank) && iter >= 6 {
				return 1.5
			}
			return 1
		}
		if v := verdictOf(j.Evidence(), rca.Options{}); !slices.Equal(rcatest.Accused(v), c.culprit) || v.Class != rca.SlowCompute {
			t.Errorf("tp %d: %s about %v: %s", c.tp, v.Class, rcatest.Accused(v), v.Summary)
		}
	}
}

// TestUnevenOrSlow: of a stage that always took longer, and that no other machine works for, a slow machine cannot be told from an uneven cut.
func TestUnevenOrSlow(t *testing.T) {
	for _, c := range []struct {
		dp, tp int
		torn   bool
	}{{1, 1, true}, {1, 2, true}, {2, 2, false}} {
		j := rcatest.NewSlowJob(c.dp, 4, c.tp)
		j.Compute = func(rank, _ int) float64 { return pick(rank/(c.dp*c.tp) == 3, 1.6, 1.0) }
		v := verdictOf(j.Evidence(), rca.Options{})
		if v.Class != rca.Imbalance || v.Page || strings.Contains(v.Summary, "No machine is bad") == c.torn || strings.Contains(v.Summary, "this machine is slow") != c.torn {
			t.Errorf("dp %d, tp %d: %s, page %v: %s", c.dp, c.tp, v.Class, v.Page, v.Summary)
		}
	}
}
