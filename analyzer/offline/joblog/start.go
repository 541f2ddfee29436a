// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// joined takes a rank that enters or leaves a communicator.
func (p *parser) joined(e *grammar.Event) {
	j := Join{
		Comm: strings.TrimLeft(e.Get("id"), "0"), Rank: min(e.Int("rank"), maxRank), Size: min(e.Int("size"), maxRank),
		Host: unlabelled(e.Get("host")), PID: e.Int("pid"), GPU: e.Get("gpu"), Bus: told.Bus(e.Get("bus") + "."),
		Address: e.Get("comm"),
		Done:    e.Get("how") == "COMPLETE" || e.Get("what") != "Init",
	}
	if j.Rank < 0 || j.Rank >= j.Size || len(p.log.Joins) >= maxRank {
		return
	}
	p.log.Joins = append(p.log.Joins, j)
}

// joins takes from NCCL's own lines who runs where, and who never got through a communicator's start.
func (b *builder) joins(logs []*Log) {
	byComm := map[string]map[int]Join{}
	for _, l := range logs {
		for _, j := range l.Joins {
			if byComm[j.Comm] == nil {
				byComm[j.Comm] = map[int]Join{}
			}
			j.Done = j.Done || byComm[j.Comm][j.Rank].Done || j.Comm == ""
			byComm[j.Comm][j.Rank] = j
		}
	}
	largest := ""
	for _, c := range slices.Sorted(maps.Keys(byComm)) { // The one without a name comes first.
		if size(byComm[c]) > size(byComm[largest]) || c != "" && size(byComm[c]) == size(byComm[largest]) {
			largest = c
		}
	}
	if len(byComm) == 0 || size(byComm[largest]) < b.World {
		return // Its ranks are not the job's.
	}
	b.World, b.stated = max(b.World, size(byComm[largest])), max(b.stated, size(byComm[largest]))
	for id, j := range byComm[largest] {
		r := b.Rank(id)
		r.Host, r.PID, r.GPU = j.Host, j.PID, j.GPU
		b.bus[id] = j.Bus
	}
	for _, c := range slices.Sorted(maps.Keys(byComm)) {
		if c == "" {
			continue // Nothing tells its communicators apart.
		}
		b.started(c, byComm[c], byComm[largest])
	}
}

func size(members map[int]Join) int {
	n := 0
	for _, j := range members {
		n = max(n, j.Size)
	}
	return n
}

// started reports a communicator whose start some members did not get through: the start is an operation of all.
func (b *builder) started(hash string, members, world map[int]Join) {
	done := 0
	for _, j := range members {
		if j.Done {
			done++
		}
	}
	n := size(members)
	if done == n || n < 2 {
		return
	}
	global := func(j Join) int {
		for id, w := range world {
			if w.Host == j.Host && w.PID == j.PID && w.GPU == j.GPU {
				return id
			}
		}
		return -1
	}
	if !b.fits(n) {
		return
	}
	sparse := b.sparse()
	c := b.Comm(rca.CommID("start of "+hash), "communicator "+hash, n)
	if c.Members = gather.All(n); n != size(world) || sparse {
		c.Members = slices.Repeat([]int{-1}, n)
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		j := members[id]
		g := global(j)
		if g < 0 || id >= n {
			continue
		}
		c.Members[id] = g
		m := gather.Member(c.ID, id)
		m.Called, m.Completed = 1, 1
		if !j.Done {
			m.Completed = 0
			m.InFlight = []rca.Op{operation(&Op{Seq: 1, Type: "start", In: -1, Out: -1, Ran: -1})}
		}
		b.Rank(g).Memberships = append(b.Rank(g).Memberships, m)
	}
	b.Note("communicator %s of %d ranks: %d began to start it, %d got through", hash, n, len(members), done)
}
