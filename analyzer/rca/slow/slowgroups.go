// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// slowMembers are who the slow communicators or pairs that matter have in common, where no end of a flow stands out.
type slowMembers struct {
	worst *slowComm
	all   []slowComm // Those that matter.
	nodes []int32    // Whom they have in common.
	most  bool       // More than half of the ranks that were seen.
}

// membersOfSlow finds them. What some of the slow ones have in common explains nothing when others that lose as much are without it: then
// all members of those that matter are meant.
func (a *analysis) membersOfSlow() *slowMembers {
	slow := slices.Clone(a.base.slowComm)
	slices.SortStableFunc(slow, func(x, y slowComm) int { return cmp.Compare(a.lostIn(&y), a.lostIn(&x)) })
	matters := slices.DeleteFunc(slices.Clone(slow), func(s slowComm) bool { return a.lostIn(&s) < mattersFrom*a.lostIn(&slow[0]) })
	common := slices.Clone(matters[0].nodes)
	var all []int32
	for i := range matters {
		all = append(all, matters[i].nodes...)
		both := slices.DeleteFunc(slices.Clone(common), func(n int32) bool { return !slices.Contains(matters[i].nodes, n) })
		if len(both) > 0 {
			common = both
		}
	}
	lost, explained := 0.0, 0.0
	for i := range matters {
		l := a.lostIn(&matters[i])
		lost += l
		if slices.ContainsFunc(common, func(n int32) bool { return slices.Contains(matters[i].nodes, n) }) {
			explained += l
		}
	}
	if explained < nearlyAll*lost {
		slices.Sort(all)
		common = slices.Compact(all)
	}
	return &slowMembers{worst: &slow[0], all: matters, nodes: common, most: 2*len(common) > a.visitedRanks()}
}

// lostIn is the time that a slow communicator's transfers take longer in total, ns.
func (a *analysis) lostIn(s *slowComm) float64 {
	return (s.ratio - 1) * float64(max(1, a.base.transfer[s.joints[0]])) * float64(len(s.joints))
}

// finding gives what all findings about the slow groups share.
func (m *slowMembers) finding(a *analysis) finding {
	f := finding{gain: a.transfers().gain, weight: groupWeight, what: fmt.Sprintf(words.GroupSlow, m.worst.ratio), lane: -1}
	if ci, ok := a.now.segs[a.now.jobs[m.worst.joints[0]].parts[0]].in(); ok {
		f.comm = a.Comms[ci].Name
	}
	return f
}

// ailingInSlowGroups names the one member that the slow communicators have in common whose GPU or NVLink reports an error.
func (a *analysis) ailingInSlowGroups() (finding, bool) {
	m := a.slowMembers()
	f := m.finding(a)
	sick := a.OnlyAiling(m.nodes, job.GPUAilment)
	f.nodes, f.weight = []int32{sick}, sickMemberWeight
	return f, sick >= 0 && f.gain >= leastOnset
}

// noisy reports whether the delay is a network's noise: small and on most ranks, or small with flows seen of which no end stands out.
func (a *analysis) noisy(m *slowMembers) bool {
	return m.most && a.transfers().gain < a.Opt.IrregularFactor || a.waitsSeen(m.worst) && m.worst.ratio < noisyRatio
}

// mostGroups finds that the slow communicators are those of most ranks.
func (a *analysis) mostGroups() (finding, bool) {
	m := a.slowMembers()
	f := m.finding(a)
	f.weight, f.what = severalHostsWeight, fmt.Sprintf(words.MostSlow, m.worst.ratio)
	return f, m.most && len(m.nodes) > 2 && !a.noisy(m)
}

// slowGroup names the communicator or pair whose transfers take longer than their peers'.
func (a *analysis) slowGroup() (finding, bool) {
	m := a.slowMembers()
	f := m.finding(a)
	f.times = m.worst.ratio
	f.against = func(a *analysis, _ *finding) *comparison { return a.compareGroups(m) }
	hosts := a.hostsOf(m.nodes)
	switch {
	case len(m.nodes) == 1:
		f.nodes, f.weight = m.nodes, commonWeight
	case len(hosts) == 1 && hosts[0] != "":
		f.group, f.cause = fmt.Sprintf("%s on %s", words.RankNumbers(a.IDs(m.nodes)), hosts[0]), rca.CauseGPU
	default:
		f.group = words.RankNumbers(a.IDs(m.nodes))
	}
	return f, !a.noisy(m)
}

// waitsSeen reports whether the flows of the slow transfers were seen.
func (a *analysis) waitsSeen(s *slowComm) bool {
	return slices.ContainsFunc(a.now.jobs[s.joints[0]].parts, func(p int32) bool { return a.now.segs[p].waitsSeen() })
}
