// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// changes remembers counters, to tell what has been counted lately from what was there before anybody looked.
type changes map[string]*change

type change struct {
	last  uint64
	base  uint64    // Before the growth that is told.
	since time.Time // First of that growth; zero: nothing to tell.
	grown time.Time // Last growth.
}

// grew notes a counter's value and gives by how much it has grown lately and since when. The first value is the base.
func (c changes) grew(name string, value uint64, now time.Time) (by uint64, since time.Time) {
	ch := c[name]
	if ch == nil {
		c[name] = &change{last: value}
		return 0, time.Time{}
	}
	if value < ch.last { // The counter was reset.
		*ch = change{last: value}
		return 0, time.Time{}
	}
	if !ch.since.IsZero() && now.Sub(ch.grown) > freshFact {
		ch.since = time.Time{}
	}
	if value > ch.last {
		if ch.since.IsZero() {
			ch.base, ch.since = ch.last, now
		}
		ch.last, ch.grown = value, now
	}
	if ch.since.IsZero() {
		return 0, time.Time{}
	}
	return value - ch.base, ch.since
}

// fact adds f with its value and age to facts when the counter has grown lately.
func (c changes) fact(facts []nodeapi.Fact, name string, value uint64, now time.Time, f nodeapi.Fact) []nodeapi.Fact {
	by, since := c.grew(name, value, now)
	if by == 0 {
		return facts
	}
	f.Value, f.AgeSeconds = float64(by), now.Sub(since).Seconds()
	return append(facts, f)
}

// sortFacts puts facts into an order that does not depend on who found them first.
func sortFacts(facts []nodeapi.Fact) {
	slices.SortStableFunc(facts, func(a, b nodeapi.Fact) int {
		return cmp.Or(
			cmp.Compare(a.Component, b.Component), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Rank, b.Rank),
			cmp.Compare(a.Value, b.Value),
		)
	})
}
