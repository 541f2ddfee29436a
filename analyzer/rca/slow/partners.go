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

// hiddenPartners gives the ranks of the same host with which those accused run operations that are not seen: they may have waited for them,
// and where several of them are accused, for one another. Of a partner as much of whose work is seen as of the accused, waiting for one another
// would show alike: that it does not stand out speaks for it.
func (a *analysis) hiddenPartners(nodes []int32) []int32 {
	var out []int32
	for _, members := range a.hiddenWithinHosts() {
		accused := 0
		for _, m := range members {
			if slices.Contains(nodes, m) {
				accused++
			}
		}
		for _, m := range members {
			switch {
			case slices.Contains(nodes, m):
				if accused > 1 {
					out = append(out, m)
				}
			case slices.ContainsFunc(members, func(n int32) bool { return slices.Contains(nodes, n) && !asMany(a.pieces(n), a.pieces(m)) }):
				out = append(out, m)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// pieces is how much of a rank's work is seen.
func (a *analysis) pieces(n int32) int64 { return int64(len(a.now.ranks[n])) }

// hiddenWithinHosts gives the members of each communicator that is used within a host and of which nothing is seen.
func (a *analysis) hiddenWithinHosts() [][]int32 {
	seen := make([]bool, len(a.Comms))
	for i := range a.now.segs {
		if c, ok := a.now.segs[i].in(); ok {
			seen[c] = true
		}
	}
	var out [][]int32
	for c := range a.Comms {
		if seen[c] || !a.usedWithinHost(int32(c)) {
			continue
		}
		var members []int32
		for _, m := range a.Comms[c].Members {
			members = append(members, m.Node)
		}
		out = append(out, members)
	}
	return out
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

// nodeDecides takes the one whose GPU its node complains about in place of those accused who may have waited for it unseen.
func (a *analysis) nodeDecides(c *chosen) {
	if c.class != rca.SlowCompute {
		return
	}
	partners := a.hiddenPartners(c.nodes)
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(partners, c.nodes))))
	n := a.OnlyAiling(all, func(f *rca.Fact) bool { return job.ThrottledGPU(f) || job.GPUAilment(f) })
	if n < 0 || !slices.Contains(partners, n) || slices.ContainsFunc(c.nodes, func(m int32) bool { return a.Host(m) != a.Host(n) }) {
		return
	}
	waited := slices.DeleteFunc(slices.Clone(c.nodes), func(m int32) bool { return m == n })
	f := c.finding
	f.what = fmt.Sprintf(words.WaitedForUnseen, words.RankNumbers(a.IDs(waited)))
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
	others := slices.DeleteFunc(slices.Clone(partners), func(n int32) bool { return slices.Contains(c.nodes, n) })
	f := *c.alone
	f.nodes, f.what = slices.Sorted(slices.Values(append(slices.Clone(c.nodes), others...))), words.OneOfThem
	v.Slowdown = rca.Round(c.gain)
	v.Culprits = []rca.Culprit{a.suspect(&f)}
	why := words.MayHaveWaitedForEachOther
	if len(others) > 0 {
		why = fmt.Sprintf(words.MayHaveWaited, words.RankNumbers(a.IDs(others)))
	}
	v.Summary = a.slowSentence(c.alone) + why
	v.Action = words.SeeKernels
}
