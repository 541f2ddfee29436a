// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// collective is the key of a group's operations, without their sender.
func (g *flowGroup) collective() transferKey {
	return transferKey{class: g.key.class, comm: g.key.comm, from: -1, to: -1}
}

// opTimes gives how long collectives take in the median once the last that was seen has come, ns.
func (t *timeline) opTimes() map[transferKey]int64 {
	by := map[transferKey][]int64{}
	for j := range t.collectives() {
		if k := t.transferKeyOf(j); k.comm >= 0 {
			by[k] = append(by[k], j.transfer)
		}
	}
	return mediansOf(by)
}

// withoutSlack gives the flows with those that had slack as they would be if nobody had to be waited for. some is false where
// none is known to have had any.
func (a *analysis) withoutSlack(groups []flowGroup) (out []flowGroup, some bool) {
	if a.past == nil {
		return groups, false
	}
	before, now := a.past.opTimes(), a.now.opTimes()
	out = slices.Clone(groups)
	for i := range out {
		g := &out[i]
		if was := before[g.collective()]; was > 0 {
			slower := float64(now[g.collective()]) / float64(was)
			if slower >= slackFrom && a.longest(g)-1 < fullShare*(slower-1) {
				g.ratio, g.slow, some = 1, false, true
			}
		}
	}
	return out, some
}

// longest gives how many times as long the slowest flow of a group was outstanding.
func (a *analysis) longest(g *flowGroup) float64 {
	sum := 0.0
	for _, i := range g.segs {
		s := &a.now.segs[i]
		sum += 1 + s.overdue(g.ref)*float64(max(1, s.record.SendFlows))/g.ref
	}
	return sum / float64(len(g.segs))
}

// insideHost names the one rank whose GPU or NVLink reports an error where operations take longer than before and every flow over the
// network had slack: what they wait for has no counters of its own.
func (a *analysis) insideHost() (finding, bool) {
	held, some := a.withoutSlack(a.flows())
	if !some || slices.ContainsFunc(held, func(g flowGroup) bool { return g.slow }) {
		return finding{}, false
	}
	before, now := a.past.opTimes(), a.now.opTimes()
	lost := map[transferKey]int64{}
	var worst transferKey
	for j := range a.now.collectives() {
		if k := a.now.transferKeyOf(j); before[k] > 0 {
			lost[k] += now[k] - before[k]
		}
	}
	for j := range a.now.collectives() { // In their order: of several the first.
		if k := a.now.transferKeyOf(j); lost[k] > lost[worst] {
			worst = k
		}
	}
	if lost[worst] <= 0 {
		return finding{}, false
	}
	sick := a.OnlyAiling(a.members(worst.comm, true), job.GPUAilment)
	if sick < 0 {
		return finding{}, false
	}
	f := finding{nodes: []int32{sick}, comm: a.Comms[worst.comm].Name, weight: commonWeight, lane: -1}
	f.gain = a.gainOfTransfers(func(j *joint, is int64) int64 {
		if was := before[a.now.transferKeyOf(j)]; was > 0 {
			return min(is, was)
		}
		return is
	})
	f.what = fmt.Sprintf(words.GPUAmongMembers,
		float64(now[worst])/float64(before[worst]))
	return f, f.gain >= leastGain
}

// networkHasSlack reports whether most flows that were seen had slack: whatever is slow, it is not all of the network.
func (a *analysis) networkHasSlack() bool {
	groups := a.flows()
	held, _ := a.withoutSlack(groups)
	slow, full := 0, 0
	for i := range groups {
		if groups[i].slow {
			slow++
			if held[i].slow {
				full++
			}
		}
	}
	return 2*full < slow
}
