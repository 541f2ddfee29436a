// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"sync"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// analysis answers which rank, group or place makes iterations long.
type analysis struct {
	*job.Index
	history
	base     *baseline
	replay   *replay
	walk     *walk
	iterTime float64 // Mean length of an iteration, ns.
	holes    float64 // Share of the work that has no record, or comes after some that may have none.

	// What several rows of the table look at, worked out when the first one does.

	flows       func() []flowGroup
	transfers   func() *transfers
	slowMembers func() *slowMembers
	beyondPeers func() *suspects
	beyondPast  func() *suspects
	unrecorded  func() bool
}

// Analyze explains why a job is slow. ok is false without finished work.
func Analyze(x *job.Index) (rca.Verdict, bool) {
	h := repaired(newTimeline(x, x.Ev.Timeline))
	if h == nil {
		return rca.Verdict{}, false
	}
	return newAnalysis(h).verdict(), true
}

// newAnalysis prepares the questions that are asked of repaired work.
func newAnalysis(h *history) *analysis {
	t := h.now
	a := &analysis{Index: t.Index, history: *h, base: newBaseline(t, h.past), replay: newReplay(t), walk: t.walkBack(), holes: t.holeShare()}
	a.iterTime = a.replay.base / float64(max(1, t.iters))
	a.flows, a.transfers, a.slowMembers = sync.OnceValue(a.flowGroups), sync.OnceValue(a.longTransfers), sync.OnceValue(a.membersOfSlow)
	a.beyondPeers, a.beyondPast = sync.OnceValue(a.heavyRanks), sync.OnceValue(a.grownRanks)
	a.unrecorded = sync.OnceValue(a.callsUnrecorded)
	return a
}

// overall is the analysis of all iterations that were seen, including those before the job became slower.
func (a *analysis) overall() *analysis {
	if a.past == nil {
		return a
	}
	return newAnalysis(&history{whole: a.whole, now: a.whole, onset: 1, series: a.series, doubted: a.doubted})
}
