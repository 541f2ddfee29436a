// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Within a host data goes through its memory or over NVLink, and a source without kernels records nothing of such operations but that they
// were called. What a rank waits for in them seems to be its own work.

// hiddenPartners gives the ranks of the same host with which those accused run operations that are not seen, without the accused. Of a partner
// as much of whose work is seen as of the accused, waiting for one another would show alike: that it does not stand out speaks for it.
func (a *analysis) hiddenPartners(nodes []int32) []int32 {
	seen := make([]bool, len(a.Comms))
	for i := range a.now.segs {
		if c, ok := a.now.segs[i].in(); ok {
			seen[c] = true
		}
	}
	var out []int32
	for c := range a.Comms {
		if seen[c] || !a.usedWithinHost(int32(c)) {
			continue
		}
		members := a.Comms[c].Members
		at := slices.IndexFunc(members, func(m job.Member) bool { return slices.Contains(nodes, m.Node) })
		if at < 0 {
			continue
		}
		pieces := func(n int32) int64 { return int64(len(a.now.ranks[n])) }
		for _, m := range members {
			if !slices.Contains(nodes, m.Node) && !asMany(pieces(members[at].Node), pieces(m.Node)) {
				out = append(out, m.Node)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// usedWithinHost reports whether a communicator is of ranks of one host, each of which has called it as often as there are iterations.
func (a *analysis) usedWithinHost(c int32) bool {
	members := a.Comms[c].Members
	if len(members) < 2 || a.Host(members[0].Node) == "" {
		return false
	}
	return !slices.ContainsFunc(members, func(m job.Member) bool {
		return a.Host(m.Node) != a.Host(members[0].Node) || m.Membership == nil || m.Membership.Called < int64(a.now.iters)
	})
}

// nodeDecides takes the one whose GPU its node complains about in place of those accused, where they may have waited for it unseen.
func (a *analysis) nodeDecides(c *chosen) {
	if !a.mayWaitUnseen(c) {
		return
	}
	n := a.OnlyAiling(a.hiddenPartners(c.nodes), func(f *rca.Fact) bool { return job.ThrottledGPU(f) || job.GPUAilment(f) })
	if n < 0 {
		return
	}
	f := c.finding
	f.what = fmt.Sprintf(words.WaitedForUnseen, words.RankNumbers(a.IDs(c.nodes)))
	f.nodes, f.cause, f.against = []int32{n}, rca.CauseGPU, nil // Its own work is not compared: what it rests on is the node's word.
	c.finding, c.alone, c.with = f, &f, 0
}

// mayWaitUnseen holds where ranks are accused of their own work and may as well have waited for others of their host, unless their nodes
// complain about their GPUs.
func (a *analysis) mayWaitUnseen(c *chosen) bool {
	sick := func(n int32) bool { return a.hasFact(n, "gpu") }
	return c.class == rca.SlowCompute && len(c.nodes) > 0 && len(a.hiddenPartners(c.nodes)) > 0 && !slices.ContainsFunc(c.nodes, sick)
}

func (a *analysis) sayMayWaitUnseen(c *chosen, v *rca.Verdict) {
	partners := a.hiddenPartners(c.nodes)
	f := *c.alone
	f.nodes, f.what = slices.Sorted(slices.Values(append(slices.Clone(c.nodes), partners...))), words.OneOfThem
	v.Slowdown = rca.Round(c.gain)
	v.Culprits = []rca.Culprit{a.suspect(&f)}
	v.Summary = a.slowSentence(c.alone) + fmt.Sprintf(words.MayHaveWaited, words.RankNumbers(a.IDs(partners)))
	v.Action = words.SeeKernels
}
