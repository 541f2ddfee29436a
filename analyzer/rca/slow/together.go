// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Ranks that exchange data inside their host in every layer advance together. Where nothing shows when each of them entered these
// operations, all of them are late because one is, and only their nodes can tell which.

// narrow leaves of such ranks those whose GPU the node complains of, and puts all of a group in the place of some: who waits for the
// slow one of them shows more than it does itself.
func (a *analysis) narrow(f *finding) {
	if f.class != rca.SlowCompute {
		return
	}
	group := a.together(f.nodes)
	if group == nil {
		return
	}
	sick := slices.DeleteFunc(slices.Clone(group), func(n int32) bool {
		return !a.FactOf(n, func(f *rca.Fact) bool { return f.Component == "gpu" })
	})
	if f.nodes = group; len(sick) > 0 {
		f.nodes = sick
	}
}

// culprits are a finding's ranks with what their nodes say of them; one group of those that are not told apart.
func (a *analysis) culprits(f *finding) (out []rca.Culprit, facts []string) {
	for _, n := range f.nodes {
		if len(out) == rca.MaxCulprits {
			break
		}
		c := a.Culprit(n)
		c.Channel, c.Why = f.lane, f.what
		out = append(out, c)
		facts = append(facts, a.FactsOf(n)...)
	}
	if f.class == rca.SlowCompute && a.together(f.nodes) != nil {
		out = []rca.Culprit{{
			Rank: -1, Host: a.Host(f.nodes[0]), Channel: f.lane, Group: words.RankNumbers(a.IDs(f.nodes)),
			Why: f.what + words.OneInside,
		}}
	}
	return out, facts
}

// together gives the members of the smallest communicator inside a host that several ranks belong to and whose operations are not seen to
// begin or end; nil: there is none.
func (a *analysis) together(nodes []int32) []int32 {
	if len(nodes) < 2 {
		return nil
	}
	for _, n := range nodes {
		if a.Nodes[n].Rank == nil || a.Host(n) == "" || a.Host(n) != a.Host(nodes[0]) {
			return nil
		}
	}
	blind := func(m job.Member) bool {
		return a.Nodes[m.Node].Rank.Caps&rca.SeesKernels == 0 || m.Membership != nil && m.Membership.KernelUntrusted
	}
	var group []int32
	for c := range a.Comms {
		members := a.Comms[c].Members
		inside := a.Comms[c].Unnamed < 0 && !slices.ContainsFunc(members, func(m job.Member) bool {
			return a.Host(m.Node) != a.Host(nodes[0]) || slices.Contains(nodes, m.Node) && !blind(m)
		})
		if !inside || group != nil && len(members) >= len(group) || slices.ContainsFunc(nodes, func(n int32) bool { return a.Comms[c].Find(n) == nil }) {
			continue
		}
		group = nil
		for i := range members {
			group = append(group, members[i].Node)
		}
		slices.Sort(group)
	}
	return group
}
