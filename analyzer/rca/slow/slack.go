// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// opKind is the operations of a communicator that are alike; of send/recv, of a pair.
type opKind struct {
	class transferClass
	comm  int32
}

// opKindOf tells what an operation is compared with; ok is false where that is not known.
func (t *timeline) opKindOf(j *joint) (opKind, bool) {
	if j.compute || j.p2p || len(j.parts) < 2 {
		return opKind{}, false
	}
	ci, ok := t.segs[j.parts[0]].in()
	return opKind{j.class, ci}, ok
}

// opTimes gives how long operations take in the median once the last that was seen has come, ns.
func (t *timeline) opTimes() map[opKind]int64 {
	by := map[opKind][]int64{}
	for j := range t.jobs {
		if k, ok := t.opKindOf(&t.jobs[j]); ok {
			by[k] = append(by[k], t.jobs[j].transfer)
		}
	}
	out := make(map[opKind]int64, len(by))
	for k, v := range by {
		out[k] = median64(v)
	}
	return out
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
		if was := before[g.kind]; was > 0 {
			slower := float64(now[g.kind]) / float64(was)
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
		sum += 1 + s.overdue(g.ref)*float64(max(1, s.SendFlows))/g.ref
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
	lost := map[opKind]int64{}
	var kinds []opKind
	for j := range a.now.jobs {
		if k, ok := a.now.opKindOf(&a.now.jobs[j]); ok && before[k] > 0 {
			if _, seen := lost[k]; !seen {
				kinds = append(kinds, k)
			}
			lost[k] += now[k] - before[k]
		}
	}
	if len(kinds) == 0 {
		return finding{}, false
	}
	worst := slices.MaxFunc(kinds, func(x, y opKind) int { return cmp.Compare(lost[x], lost[y]) })
	var members []int32
	for _, n := range a.Comms[worst.comm].At {
		if n >= 0 && len(a.now.ranks[n]) > 0 {
			members = append(members, n)
		}
	}
	sick := a.onlyAiling(members)
	if sick < 0 || lost[worst] <= 0 {
		return finding{}, false
	}
	f := finding{nodes: []int32{sick}, comm: a.Comms[worst.comm].Name, weight: commonWeight, lane: -1}
	f.gain = a.gainOfTransfers(func(j *joint, is int64) int64 {
		if k, ok := a.now.opKindOf(j); ok && before[k] > 0 {
			return min(is, before[k])
		}
		return is
	})
	f.what = fmt.Sprintf(words.GPUAmongMembers,
		float64(now[worst])/float64(before[worst]))
	return f, f.gain >= leastGain
}

// networkHasSlack says that most flows that were seen had slack: whatever is slow, it is not all of the network.
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
