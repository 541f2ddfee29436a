// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"github.com/culprit-project/culprit/trace"
)

// comm is one communicator.
type comm struct {
	id      trace.CommID
	slot    slot
	name    string
	members []int32
	hosts   int
	toSelf  bool   // Members send to themselves, as in every all-to-all.
	shape   string // Communicators of one shape share calibrations.
	rings   [][]int32
	place   []int32 // Of each member in the first ring.
	ops     []*op   // Collectives not yet entered by everybody, from number first on; nil: entered.
	first   int64
	known   []calibratedCall // Of collectives called so far.
	pairs   [][]pairing      // Sends and receives by source, and then by destination as they come.
}

// pairing matches the sends of one rank to the receives of another, in order.
type pairing struct {
	dst          int32
	sends, recvs int64 // Launched so far.
	// open are the operations that only one side has launched, the oldest first: those up to the further side's number.
	open []*op
}

// pairing finds or makes what matches two members' transfers. It is valid until the next call.
func (c *comm) pairing(src, dst int32) *pairing {
	if c.pairs == nil {
		c.pairs = make([][]pairing, len(c.members))
	}
	list := c.pairs[src]
	for i := range list {
		if list[i].dst == dst {
			return &list[i]
		}
	}
	c.pairs[src] = append(list, pairing{dst: dst})
	return &c.pairs[src][len(list)]
}

func (s *sim) makeComms() {
	for sl := range numSlots {
		for i, g := range s.cfg.Job.groups(sl) {
			if len(g) < 2 || !s.used(sl) {
				continue
			}
			c := &comm{
				slot: sl, name: fmt.Sprintf("%s_%d", slotNames[sl], i), members: g, toSelf: s.allToAll(sl),
				id: trace.CommID(random(s.cfg.Seed, forCommID, int64(sl), int64(i), 1) | 1<<60),
			}
			c.layout(s)
			index := int32(len(s.comms))
			s.comms = append(s.comms, c)
			for m, r := range g {
				s.ranks[r].comms[sl] = membership{comm: index, rank: int32(m)}
			}
		}
	}
}

// allToAll tells whether a slot's communicators carry all-to-alls.
func (s *sim) allToAll(sl slot) bool {
	for _, p := range s.programs {
		for _, in := range p.train {
			if in.slot == sl && in.allToAll {
				return true
			}
		}
	}
	return false
}

// used tells whether the job's programs use a slot.
func (s *sim) used(sl slot) bool {
	for _, p := range s.programs {
		for _, in := range p.train {
			if in.slot == sl && (in.kind == doCollect || in.kind == doP2P) {
				return true
			}
		}
	}
	return false
}

// layout groups the members by host and lays out one ring per channel: hosts in order, inside a host rotated by the
// channel, so that each channel leaves through another GPU and NIC.
func (c *comm) layout(s *sim) {
	var hosts []int32
	byHost := map[int32][]int32{}
	for m, r := range c.members {
		h := s.hw[r].host
		if _, ok := byHost[h]; !ok {
			hosts = append(hosts, h)
		}
		byHost[h] = append(byHost[h], int32(m))
	}
	c.hosts = len(hosts)
	c.shape = fmt.Sprintf("%d/%d/%d", c.slot, len(c.members), len(hosts))
	for ch := range s.cfg.Job.Channels {
		var ring []int32
		for _, h := range hosts {
			local := byHost[h]
			off := ch * max(1, len(local)/s.cfg.Job.Channels) % len(local)
			ring = append(ring, local[off:]...)
			ring = append(ring, local[:off]...)
		}
		c.rings = append(c.rings, ring)
	}
	c.place = make([]int32, len(c.members))
	for i, m := range c.rings[0] {
		c.place[m] = int32(i)
	}
}

// tree gives, per member, the parent in channel ch's tree (-1 at the root): a chain inside each host, a binary tree over
// the hosts, mirrored for odd channels so that inner nodes of one tree are leaves of the other.
func (c *comm) tree(s *sim, ch int) []int32 {
	ring := c.rings[ch]
	parent := make([]int32, len(ring))
	var leaders []int32
	for i, m := range ring {
		if i == 0 || s.hw[c.members[ring[i-1]]].host != s.hw[c.members[m]].host {
			leaders = append(leaders, m)
			continue
		}
		parent[m] = ring[i-1]
	}
	n := len(leaders)
	for i, m := range leaders {
		at := i
		if ch%2 == 1 {
			at = n - 1 - i
		}
		up := treeParent(at, n)
		switch {
		case up < 0:
			parent[m] = -1
		case ch%2 == 1:
			parent[m] = leaders[n-1-up]
		default:
			parent[m] = leaders[up]
		}
	}
	return parent
}

// treeParent is the parent of node i in the in-order binary tree over n nodes rooted at 0; -1 for the root.
func treeParent(i, n int) int {
	if i == 0 {
		return -1
	}
	bit := i & -i
	up := (i ^ bit) | (bit << 1)
	if up >= n {
		up = i ^ bit
	}
	return up
}
