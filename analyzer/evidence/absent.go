// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"slices"
	"strconv"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/search"
)

// block is the range of ranks that a launcher puts on one host: consecutive, in the order of their local ranks.
type block struct{ first, ranks int }

// blocks derives from the local ranks that processes claim which ranks run on each host, seen or not. It leaves out hosts whose
// ranks are not consecutive, and gives nothing where hosts have different numbers of ranks.
func (s *Session) blocks() map[*Node]block {
	size := 0
	first := map[*Node]int{}
	for rank, p := range s.processes {
		local, err := strconv.Atoi(p.Labels["local_rank"])
		if err != nil || local < 0 {
			return nil
		}
		size = max(size, local+1)
		n := s.byRank[rank]
		if at, known := first[n]; !known {
			first[n] = rank - local
		} else if at != rank-local {
			first[n] = -1
		}
	}
	out := map[*Node]block{}
	for n, at := range first {
		if at >= 0 && at%size == 0 {
			out[n] = block{at, size}
		}
	}
	return out
}

// absent gives, for each exporter, the ranks that no source has ever shown although another rank of the same host was seen. The
// ranks are in order.
func (s *Session) absent() map[*Node][]int {
	if s.world == 0 || len(s.processes) >= s.world {
		return nil
	}
	out := map[*Node][]int{}
	for n, b := range s.blocks() {
		for r := b.first; r < min(b.first+b.ranks, s.world); r++ {
			if _, known := s.processes[r]; !known {
				out[n] = append(out[n], r)
			}
		}
	}
	return out
}

// besideAbsent gives one seen rank of each host that lacks some, up to search.MostEnds: its exporter can tell what the host runs.
func (s *Session) besideAbsent() []int {
	absent := s.absent()
	var out []int
	for _, n := range slices.SortedFunc(maps.Keys(absent), byBase) {
		if len(out) < search.MostEnds {
			out = append(out, n.Ranks[0])
		}
	}
	return out
}

// silent adds ranks that have never called NCCL: the exporter does not show them, although preload hooks record the calls of
// other ranks on the host. Hooks report a process from its first call on, so a rank that is stuck before its first call leaves no
// record at all.
func (a *assembly) silent(s *Session) {
	absent := s.absent()
	for _, n := range slices.SortedFunc(maps.Keys(absent), byBase) {
		if n.state == nil || n.err != nil || len(n.state.Unread) > 0 {
			continue
		}
		hooked, host := false, ""
		for i := range n.state.Processes {
			p := &n.state.Processes[i]
			hooked = hooked || p.CallsSeen && p.JobID == s.job.ID
			host = s.hostOf(n, p.Host)
		}
		for _, rank := range absent[n] {
			if _, shown := a.seen[rank]; shown || !hooked {
				continue
			}
			a.ev.Ranks = append(a.ev.Ranks, rca.Rank{
				ID: rank, Host: host, Caps: rca.SeesCalls | rca.SeesInit,
				ReadBytesPerSec: -1, WriteBytesPerSec: -1, CPUCores: -1, ProxyRunDelay: -1,
			})
		}
	}
}
