// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
)

// dataComms tells of every communicator whether its collectives carry a model's data: those of tensor and data
// parallelism, which keep to one pipeline stage, but not the norms that all stages agree on.
func (a *analysis) dataComms() []bool {
	out := make([]bool, len(a.Comms))
	for i := range a.now.segs {
		s := &a.now.segs[i]
		if s.compute || s.dir != 0 || s.bytes <= controlBytes {
			continue
		}
		if ci, ok := s.in(); ok && !a.now.exchange[ci] {
			out[ci] = true
		}
	}
	return out
}

// replicasOf gives the ranks seen that work on the same part of the model as some do: whoever is tied to them by
// collectives that carry data.
func (a *analysis) replicasOf(nodes []int32) []int32 {
	carries := a.dataComms()
	in := make([]bool, len(a.Nodes))
	out := slices.Clone(nodes)
	for _, n := range nodes {
		in[n] = true
	}
	done := make([]bool, len(a.Comms))
	for k := 0; k < len(out); k++ {
		for ci := range a.Comms {
			if done[ci] || !carries[ci] || !slices.Contains(a.Comms[ci].At, out[k]) {
				continue
			}
			done[ci] = true
			for _, n := range a.members(int32(ci), true) {
				if !in[n] {
					in[n] = true
					out = append(out, n)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// unseenReplicas gives ranks to compare the accused with before they are accused, where too few of those who do the same
// work have been seen: a stage that is slow as a whole is no rank's fault.
func (a *analysis) unseenReplicas(accused []int32) []int {
	const enough, most = 2, 4 // Hosts besides the accused's.
	if len(a.hostsOf(a.replicasOf(accused)))-len(a.hostsOf(accused)) >= enough {
		return nil
	}
	carries := a.dataComms()
	var out []int
	for ci := range a.Comms {
		at := a.Comms[ci].At
		if !carries[ci] || !a.now.across[ci] || !slices.ContainsFunc(accused, func(n int32) bool { return slices.Contains(at, n) }) {
			continue
		}
		unseen := a.IDs(a.members(int32(ci), false))
		for i := range min(most, len(unseen)) {
			out = append(out, unseen[i*len(unseen)/min(most, len(unseen))])
		}
		if len(out) > 0 {
			break // The members of one are on the hosts of all.
		}
	}
	return out
}

// unseenEnds gives the accused of which nothing finished is known, and the ranks at the other ends of what they send and receive,
// as far as nothing is known of those: whether an end or the one before it is slow shows on both.
func (a *analysis) unseenEnds(accused []int32) []int {
	const most = 8
	var out []int
	ask := func(n int32) {
		if id := a.Nodes[n].ID; len(a.now.ranks[n]) == 0 && id >= 0 && len(out) < most && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for _, n := range accused {
		ask(n)
		r := a.Nodes[n].Rank
		if r == nil {
			continue
		}
		for i := range r.Memberships {
			m := &r.Memberships[i]
			ci, ok := a.CommOf[m.Comm]
			if !ok {
				continue
			}
			for k := range m.InFlight {
				for _, p := range a.PeersOn(ci, &m.InFlight[k]) {
					ask(p)
				}
			}
		}
	}
	return out
}
