// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Ranks that exchange data inside their host in every layer go on together. Where nothing shows when each of them came to these
// operations, all of them are late because one is, and only their nodes can tell which.

// narrow leaves of such ranks those whose GPU the node complains of.
func (a *slowAnalysis) narrow(f *finding) {
	if f.class != rca.SlowCompute || !a.goTogether(f.nodes) {
		return
	}
	var sick []int32
	for _, n := range f.nodes {
		if slices.ContainsFunc(a.Ev.Facts, func(x rca.Fact) bool { return x.Component == "gpu" && x.Rank == a.Nodes[n].ID }) {
			sick = append(sick, n)
		}
	}
	if len(sick) > 0 {
		f.nodes = sick
	}
}

// culprits are a finding's ranks with what their nodes say of them; one group of those that are not told apart.
func (a *slowAnalysis) culprits(f *finding) (out []rca.Culprit, facts []string) {
	for _, n := range f.nodes {
		if len(out) == rca.MaxCulprits {
			break
		}
		c := a.Culprit(n)
		c.Channel, c.Why = f.lane, f.what
		out = append(out, c)
		facts = append(facts, a.FactsOf(n)...)
	}
	if f.class == rca.SlowCompute && a.goTogether(f.nodes) {
		out = []rca.Culprit{{
			Rank: -1, Host: a.Host(f.nodes[0]), Channel: f.lane, Group: words.RankNumbers(a.IDs(f.nodes)),
			Why: f.what + "; which of them is not seen, since they go on together inside their host",
		}}
	}
	return out, facts
}

// goTogether says that several ranks are members of one communicator inside a host whose operations are not seen to begin or end.
func (a *slowAnalysis) goTogether(nodes []int32) bool {
	if len(nodes) < 2 {
		return false
	}
	for _, n := range nodes {
		if r := a.Nodes[n].Rank; r == nil || r.Caps&rca.SeesKernels != 0 || a.Host(n) == "" || a.Host(n) != a.Host(nodes[0]) {
			return false
		}
	}
	for c := range a.Comms {
		inside := true
		for i := range a.Comms[c].Members {
			inside = inside && a.Host(a.Comms[c].Members[i].Node) == a.Host(nodes[0])
		}
		if inside && a.Comms[c].Ghost < 0 && !slices.ContainsFunc(nodes, func(n int32) bool { return a.Comms[c].Find(n) == nil }) {
			return true
		}
	}
	return false
}
