// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// coverLinks turns several links that do not deliver into what they share. One link alone is its sender's. Links that
// all begin or end at one rank are that rank's NIC. Two directions between the same two ends tell nobody apart: the link is named.
func (w *waitFor) coverLinks(roots []root) []root {
	var links, rest []root
	for _, r := range roots {
		if r.kind == rootFlaw && r.leaf.cause == rca.CauseNetworkSend && r.peer >= 0 {
			links = append(links, w.allLinks(r)...)
		} else {
			rest = append(rest, r)
		}
	}
	if len(links) < 2 {
		return append(rest, links...)
	}
	if hub := shared(links); hub >= 0 {
		return append(rest, hubRoot(links, hub))
	}
	// Greedy cover: the rank that most uncovered links touch, until none is left.
	for len(links) > 0 {
		count := map[int32]int{}
		for _, l := range links {
			count[l.nodes[0]]++
			count[l.peer]++
		}
		best := links[0].nodes[0]
		for n, c := range count {
			if c > count[best] || c == count[best] && c > 1 && n < best {
				best = n
			}
		}
		if count[best] < 2 {
			rest = append(rest, links[0])
			links = links[1:]
			continue
		}
		var mine, others []root
		for _, l := range links {
			if l.nodes[0] == best || l.peer == best {
				mine = append(mine, l)
			} else {
				others = append(others, l)
			}
		}
		if shared(mine) >= 0 {
			rest = append(rest, hubRoot(mine, best))
		} else {
			rest = append(rest, bothWays(mine)) // The other end explains as much.
		}
		links = others
	}
	return rest
}

// bothWays makes one link of the two directions between the same two ends.
func bothWays(links []root) root {
	r := links[0]
	r.kind, r.vertex = rootLink, []int32{r.nodes[0], r.peer}
	r.leaf.weight *= bothWaysFactor
	return r
}

// allLinks splits a rank's undelivered flows by peer.
func (w *waitFor) allLinks(r root) []root {
	n := r.nodes[0]
	var peers []int32
	var out []root
	for _, o := range w.ownsOf(n) {
		if o.strong && o.cause == rca.CauseNetworkSend && o.peer >= 0 && !slices.Contains(peers, o.peer) {
			peers = append(peers, o.peer)
			l := r
			l.peer, l.inst, l.what, l.leaf.weight = o.peer, o.inst, o.what, o.weight
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b root) int { return cmp.Compare(a.peer, b.peer) })
	return out
}

// shared gives the one end that all links have and no other, -1 when there is none or there are two.
func shared(links []root) int32 {
	hub := int32(-1)
	for _, n := range [2]int32{links[0].nodes[0], links[0].peer} {
		all := true
		for _, l := range links {
			all = all && (l.nodes[0] == n || l.peer == n)
		}
		if all && hub >= 0 {
			return -1
		}
		if all {
			hub = n
		}
	}
	return hub
}

func hubRoot(links []root, hub int32) root {
	r := links[0]
	r.peer, r.channel = -1, -1
	for _, l := range links {
		r.vertex = append(r.vertex, l.nodes[0], l.peer)
		if l.nodes[0] == hub && l.leaf.weight >= r.leaf.weight {
			r.inst, r.what, r.leaf = l.inst, l.what, l.leaf
		}
	}
	r.nodes = []int32{hub}
	slices.Sort(r.vertex)
	r.vertex = slices.Compact(r.vertex)
	return r
}
