// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// coverage is what is left of an explanation's weight for what was not seen. A search was led to whom it asked by what is
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

// seenWhole says that the replay knows who waited for whom: all ranks were seen, and hardly any records are lost.
func (a *analysis) seenWhole() bool { return a.visitedRanks() >= a.World && a.holes <= fewHoles }

// holeShare is the share of the work that has no record, or comes after some that may have none.
func (t *timeline) holeShare() float64 {
	n := 0
	for i := range t.segs {
		if t.segs[i].holed || t.segs[i].restored {
			n++
		}
	}
	return float64(n) / float64(max(1, len(t.segs)))
}

// leastGainOf gives what it would gain at least if a rank did without something that takes a share of its iteration, when
// not all ranks were seen, or not all records; 1 when they were. The replay cannot know it then: it leaves those who waited for
// what was not seen waiting as long as they did. Ranks in lockstep have iterations of one length, so what one of them does without
// everybody does without, unless another is nearly as late. The job's own slowing down says how much that can be.
func (a *analysis) leastGainOf(share float64) float64 {
	switch {
	case a.seenWhole() || share <= 0:
		return 1
	case a.past == nil:
		return 1 + likelyShare*share
	}
	return 1 / (1 - min(share, 1-1/a.onset))
}

// gainOfTransfers gives what shorter transfers would gain.
func (a *analysis) gainOfTransfers(ideal func(*joint, int64) int64) float64 {
	g := a.replay.gain(change{transfer: ideal})
	if a.seenWhole() || a.iterTime == 0 {
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
	return max(g, a.leastGainOf(float64(most)/float64(max(1, a.now.iters))/a.iterTime))
}

// clarity is what is left of the weight of having found nothing, where what was seen would not show everything: how long ranks
// compute is not known where operations seem to begin when they are called, and little of it where records are lost.
func (a *analysis) clarity() float64 {
	c := 1 - holesDiscount*min(1, a.holes)
	if a.startsUnseen() {
		c *= startsUnseenFactor
	}
	return c
}

// believable tempers what is said of ranks' own work where operations seem to begin when they are called. The time between two
// is then no computation: the GPU computes while the next one is queued already. It shows only who calls late, and who waits in
// operations of which there is no record does so, too; so it is believed of one host alone beside its peers, and not much.
func (a *analysis) believable(f finding, ok bool) (finding, bool) {
	f.weight = min(f.weight, startsUnseenFactor)
	if !ok || len(f.nodes) == 0 || len(a.hostsOf(f.nodes)) != 1 || len(a.replicasOf(f.nodes)) == len(f.nodes) {
		return f, false
	}
	if g := a.grown(); g != nil {
		return f, slices.ContainsFunc(f.nodes, func(n int32) bool { return g.times[n] == 0 || g.times[n] >= leastGrowth })
	}
	return f, !a.mirrored(f.nodes) || a.factCause(f.nodes) == rca.CauseGPU
}

// mirrored says that ranks' own work exceeds that of the only others who do the same by about what those fall short of it: which of both
// is not as it should be cannot be told.
func (a *analysis) mirrored(nodes []int32) bool {
	all, share := a.over()
	of := map[int32]float64{}
	for i, n := range all {
		of[n] = share[i]
	}
	return slices.ContainsFunc(nodes, func(n int32) bool {
		return slices.ContainsFunc(a.peersOf(n), func(p int32) bool { return of[p] <= -mirroredShare*of[n] })
	})
}

// limits says what of the job was not seen, so that nobody's standing out says little.
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

// networkSeen says that somebody showed what it sends over the network, or nobody would: the job is on one host.
func (a *analysis) networkSeen() bool {
	if !slices.Contains(a.now.across, true) {
		return true
	}
	return slices.ContainsFunc(a.now.segs, func(s seg) bool { return s.SendFlows > 0 || s.SendWait != [3]time.Duration{} })
}
