// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// coverage is the share of an explanation's weight that is left for what was not seen. A search was led to the ranks it asked by what is
// known of all ranks; who else was not seen might have said anything.
func (a *analysis) coverage() float64 {
	if !a.Ev.Partial {
		return a.SeenFactor()
	}
	silent := 0
	for i := range a.Ev.Missing {
		silent += len(a.Ev.Missing[i].Ranks)
	}
	return led * (1 - job.UnseenDiscount*float64(min(silent, a.World))/float64(max(1, a.World)))
}

// seenWhole reports whether the replay knows who waited for whom: all ranks were seen, hardly any records are lost, and no rank takes part
// unrecorded in operations of others.
func (a *analysis) seenWhole() bool {
	return a.visitedRanks() >= a.World && a.holes <= fewHoles && !a.unrecorded()
}

// callsUnrecorded reports whether a rank has called operations of a communicator as often as there are iterations and recorded none of them,
// while others recorded theirs.
func (a *analysis) callsUnrecorded() bool {
	recorded := make([]bool, len(a.Comms)) // By anybody.
	last := make([]int32, len(a.Comms))    // Rank that recorded something, of those looked at.
	for i := range a.now.segs {
		if c, ok := a.now.segs[i].in(); ok {
			recorded[c], last[c] = true, -1
		}
	}
	for n, list := range a.now.ranks {
		if len(list) == 0 || a.Nodes[n].Rank == nil {
			continue
		}
		for _, i := range list {
			if c, ok := a.now.segs[i].in(); ok {
				last[c] = int32(n) // Far fewer than 2^31 ranks.
			}
		}
		for _, m := range a.Nodes[n].Rank.Memberships {
			if c, ok := a.CommOf[m.Comm]; ok && recorded[c] && int(last[c]) != n && m.Called >= int64(a.now.iters) {
				return true
			}
		}
	}
	return false
}

// holeShare is the share of the work that has no record, or comes after some that may have none.
func (t *timeline) holeShare() float64 {
	n := countFunc(t.segs, func(s seg) bool { return s.holed || s.restored })
	return float64(n) / float64(max(1, len(t.segs)))
}

// leastGainOf gives what it would gain at least if a rank did without something that takes a share of its iteration, when
// not all ranks were seen, not all records, or no kernels; 1 when they were. The replay cannot know it then: it leaves those who waited for
// what was not seen waiting as long as they did. Ranks in lockstep have iterations of one length, so what one of them does without
// everybody does without, unless another is nearly as late. The job's own slowing down says how much that can be.
func (a *analysis) leastGainOf(share float64) float64 {
	if a.seenWhole() && !a.startsUnseen() {
		return 1
	}
	return a.gainInLockstep(share)
}

// gainInLockstep gives what it gains if every iteration does without a share of it.
func (a *analysis) gainInLockstep(share float64) float64 {
	switch {
	case share <= 0:
		return 1
	case a.past == nil:
		return 1 + likelyShare*share
	}
	return 1 / (1 - min(share, 1-1/a.onset))
}

// gainOfTransfers gives what shorter transfers would gain. Without kernels the replay takes the waiting for each other inside a host for the
// ranks' own work and leaves it; how long sends were in flight is known there as well.
func (a *analysis) gainOfTransfers(ideal func(*joint, int64) int64) float64 {
	g := a.replay.gain(change{transfer: ideal})
	if a.seenWhole() && !a.startsUnseen() || a.iterTime == 0 {
		return g
	}
	most := int64(0)
	lost := make([]int64, len(a.Nodes))
	for i := range a.now.segs {
		s := &a.now.segs[i]
		if j := &a.now.jobs[s.job]; !j.compute && s.iter != noIteration {
			lost[s.node] += max(0, j.transfer-ideal(j, j.transfer))
			most = max(most, lost[s.node])
		}
	}
	return max(g, a.gainInLockstep(float64(most)/float64(max(1, a.now.iters))/a.iterTime))
}

// clarity is the share of the weight of having found nothing that is left where the evidence would not show everything: how long ranks
// compute is not known where operations seem to begin when they are called, and little of it where records are lost.
func (a *analysis) clarity() float64 {
	c := 1 - holesDiscount*min(1, a.holes)
	if a.startsUnseen() {
		c *= startsUnseenFactor
	}
	return c
}

// believable reports whether ranks' own work is to be believed where operations seem to begin when they are called. The time between two
// is then no computation: the GPU computes while the next one is queued already. It shows only who calls late, and who waits in
// operations of which there is no record does so, too; so it is believed of one host alone beside its peers, and not much.
func (a *analysis) believable(nodes []int32) bool {
	if len(a.hostsOf(nodes)) != 1 || a.pipelined() && len(a.replicasOf(nodes)) == len(nodes) || a.sentMore(nodes) {
		return false
	}
	if g := a.grown(); g != nil {
		return slices.ContainsFunc(nodes, func(n int32) bool { return g.times[n] == 0 || g.times[n] >= leastGrowth })
	}
	return !a.mirrored(nodes) || a.factCause(nodes) == rca.CauseGPU
}

// mirrored reports whether ranks' own work exceeds that of the only others who do the same by about what those fall short of it: which of both
// is not as it should be cannot be told.
func (a *analysis) mirrored(nodes []int32) bool {
	of := a.over()
	return slices.ContainsFunc(nodes, func(n int32) bool {
		return slices.ContainsFunc(a.peersOf(n), func(p int32) bool { return of[p] <= -mirroredShare*of[n] })
	})
}

// limits lists which parts of the job were not seen: then it says little that no rank stands out.
func (a *analysis) limits() []string {
	var out []string
	if seen := a.visitedRanks(); seen < a.World {
		out = append(out, fmt.Sprintf(words.RanksNotSeen, words.Count(a.World-seen), words.Count(a.World)))
	}
	if a.holes > fewHoles {
		out = append(out, words.RecordsLost)
	}
	if a.startsUnseen() {
		out = append(out, words.KernelsUnwatched)
	}
	if !a.networkSeen() {
		out = append(out, words.NetworkUnwatched)
	}
	return out
}

// startsUnseen reports whether the records come from calls, without kernels: an operation seems to begin when it is queued, so that
// neither what it takes nor who arrives late is known.
func (a *analysis) startsUnseen() bool {
	for n := range a.now.ranks {
		r := a.Nodes[n].Rank
		if len(a.now.ranks[n]) > 0 && r != nil && r.Caps&rca.SeesCalls != 0 && r.Caps&rca.SeesCompletion != 0 && r.Caps&rca.SeesKernels == 0 {
			return true
		}
	}
	return false
}

// networkSeen reports whether the source shows sends over the network, or there are none because the job is on one host.
func (a *analysis) networkSeen() bool {
	if !slices.Contains(a.now.across, true) {
		return true
	}
	return slices.ContainsFunc(a.now.segs, func(s seg) bool { return s.record.SendFlows > 0 || s.record.SendWait != [3]time.Duration{} })
}

// unseenPartners gives the unseen ranks in whose operations the others spend most time.
func (a *analysis) unseenPartners() []int {
	spent, inside := map[int]int64{}, map[int32]int64{} // By rank, by communicator.
	for i := range a.now.segs {
		s := &a.now.segs[i]
		if s.compute || a.now.complete(&a.now.jobs[s.job]) {
			continue
		}
		if s.peer >= 0 {
			if n := a.NodeOf(s.peer); n >= 0 && len(a.now.ranks[n]) == 0 {
				spent[s.peer] += s.stay
			}
			continue
		}
		if ci, ok := s.in(); ok {
			inside[ci] += s.stay
		}
	}
	for ci, stay := range inside {
		for _, n := range a.members(ci, false) {
			spent[a.Nodes[n].ID] += stay
		}
	}
	ids := heaviestFirst(spent, cmp.Compare)
	const most = 64
	return ids[:min(most, len(ids))]
}

// members gives the members of a communicator whose work was seen, or the known ones whose work was not.
func (a *analysis) members(ci int32, seen bool) []int32 {
	var out []int32
	for _, n := range a.Comms[ci].At {
		if n >= 0 && len(a.now.ranks[n]) > 0 == seen && (seen || a.Nodes[n].ID >= 0) {
			out = append(out, n)
		}
	}
	return out
}

func (a *analysis) visitedRanks() int {
	return countFunc(a.now.ranks, func(list []int32) bool { return len(list) > 0 })
}
