// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rcatest

import (
	"fmt"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// BigHang is a job of n ranks (tp 8, pp 8, the rest dp) that is held up by one rank that did not call: its tensor group waits for
// it, the data-parallel groups of its stage wait for that group's ranks, and the other stages wait for its stage.
func BigHang(n int) (rca.Evidence, int) {
	const tp, pp = 8, 8
	dp := n / tp / pp
	at := func(p, d, t int) int { return (p*dp+d)*tp + t }
	cp, cd := pp/2, dp/3
	culprit := at(cp, cd, 5)
	ev := rca.Evidence{JobID: "big", WorldSize: n, Ranks: make([]rca.Rank, n)}
	for r := range n {
		ev.Ranks[r] = rca.Rank{ID: r, Host: fmt.Sprintf("node%d", r/8), GPU: fmt.Sprint(r % 8), State: rca.ProcessRunning, Caps: AllCaps, ReadBytesPerSec: -1, WriteBytesPerSec: 0, CPUCores: 1}
	}
	// missing is the member that did not enter; -1: no member entered; -2: the members of the stage did not.
	add := func(name string, members []int, missing int) {
		ev.Comms = append(ev.Comms, rca.Comm{ID: rca.CommID(name), Name: name, Size: len(members), Members: members})
		ring := brokenRing(len(members), max(missing, 0))
		for i, r := range members {
			m := rca.Membership{Comm: rca.CommID(name), CommRank: i, Called: 1000, Started: 1000, Completed: 1000, SinceCalled: 9 * time.Second, SinceCompleted: 9 * time.Second}
			if missing == -2 && r/(dp*tp) != cp || missing >= 0 && i != missing {
				o := rca.Op{
					Number: 1000, Seq: 1000, Func: "AllReduce", Peer: -1, Root: -1, Bytes: 1 << 20, Datatype: "bfloat16", Algo: "ring", State: rca.OpMoving,
					Age: 7 * time.Second, Stuck: 6 * time.Second, Channels: 8, KernelStarted: 8,
				}
				for ch := 0; ch < 8 && missing >= 0; ch++ {
					for _, f := range ring[i] {
						f.Channel = ch
						o.Flows = append(o.Flows, f)
					}
				}
				m.Called, m.Started, m.InFlight = 1001, 1001, []rca.Op{o}
			}
			ev.Ranks[r].Memberships = append(ev.Ranks[r].Memberships, m)
		}
	}
	for p := range pp {
		for t := range tp {
			mem := make([]int, dp)
			for d := range dp {
				mem[d] = at(p, d, t)
			}
			add(fmt.Sprintf("dp_%d", p*tp+t), mem, missing(p == cp, cd))
		}
		for d := range dp {
			mem := make([]int, tp)
			for t := range tp {
				mem[t] = at(p, d, t)
			}
			add(fmt.Sprintf("tp_%d", p*dp+d), mem, missing(p == cp && d == cd, 5))
		}
	}
	world := make([]int, n)
	for r := range n {
		world[r] = r
	}
	add("world", world, -2)
	return ev, culprit
}

// brokenRing gives the flows of a ring in which one member is missing: the members after it starve, and those before it run into
// full windows.
func brokenRing(size, missing int) [][]rca.Flow {
	const window, total = 4, 1000
	out := make([][]rca.Flow, size)
	next := int64(-window) // What the next member has consumed; the missing one posts nothing.
	sent := make([]int64, size)
	ready := make([]int64, size)
	took := make([]int64, size)
	for d := size - 1; d > 0; d-- {
		sent[d] = min(int64(d), next+window)
		ready[d] = min(int64(d), sent[d]+window)
		took[d] = min(int64(d-1), ready[d]-1)
		next = took[d]
	}
	for d := 1; d < size; d++ {
		i := (missing + d) % size
		got := sent[d-1]
		out[i] = []rca.Flow{
			{Send: true, Peer: (i + 1) % size, Total: total, Posted: sent[d] + window, Ready: ready[d], Transmitted: sent[d], Done: sent[d], Stuck: 6 * time.Second, PeerPolls: 9},
			{Peer: (i + size - 1) % size, Total: total, Posted: took[d] + window, Ready: got, Transmitted: got, Done: took[d], Stuck: 6 * time.Second},
		}
	}
	return out
}

// missing gives the member that did not enter an operation, if one did not.
func missing(one bool, member int) int {
	if one {
		return member
	}
	return -1
}
