// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// stopping has the facts about a component that stop it.
var stopping = map[string]HostFault{"xid": DeadGPU, "ecc_uncorrectable": DeadGPU, "nvlink_errors": DeadGPU, "port_down": DeadPort}

// readSources notes which ranks were not seen, which share a NIC, and what hosts report of themselves.
func (j *Job) readSources() {
	x := j.Index
	type port struct{ host, nic string }
	ports := map[port]int32{}
	for n := range x.Nodes {
		r := x.Nodes[n].Rank
		j.Silent[n], j.Group[n], j.Port[n] = r == nil || x.Unseen(int32(n)), -1, int32(n)
		if r == nil || r.NIC == "" {
			continue
		}
		if first, ok := ports[port{r.Host, r.NIC}]; ok {
			j.Port[n] = first
		} else {
			ports[port{r.Host, r.NIC}] = int32(n)
		}
	}
	for i := range x.Ev.Missing {
		m := &x.Ev.Missing[i]
		src := Source{Name: m.Name, Fell: j.fell(m)}
		for _, r := range m.Ranks {
			if n := x.NodeOf(r); n >= 0 && j.Silent[n] && j.Group[n] < 0 {
				j.Group[n] = int32(len(j.Sources))
				src.Nodes = append(src.Nodes, n)
			}
		}
		if len(src.Nodes) > 0 {
			j.Sources = append(j.Sources, src)
		}
	}
	for i := range x.Ev.Facts {
		f := &x.Ev.Facts[i]
		kind, ok := stopping[f.Kind]
		if !ok {
			continue
		}
		if nodes := j.concerned(f); len(nodes) > 0 {
			j.Facts = append(j.Facts, Fact{kind, nodes})
		}
	}
}

// scrapes is how long a living exporter may at most not have been heard of: a few scrapes that fail in a row.
const scrapes = time.Minute

// fell tells whether a source stopped answering when the job stopped.
func (j *Job) fell(m *rca.Missing) Tri {
	stopped, known := j.lastWith(m.Ranks)
	switch {
	case m.Alive:
		return No
	case m.Heard <= 0 || !known:
		return Maybe
	case m.Heard <= stopped+scrapes && m.Heard+j.Index.Opt.HangAfter >= stopped:
		return Yes
	}
	return No
}

// lastWith is how long ago a rank last completed an operation in a communicator that some of these ranks belong to, or called one where no
// source records ends.
func (j *Job) lastWith(ranks []int) (last time.Duration, known bool) {
	x := j.Index
	note := func(since time.Duration, ok bool) {
		if ok && since > 0 && (!known || since < last) {
			last, known = since, true
		}
	}
	for i := range x.Comms {
		c := &x.Comms[i]
		if c.Call || !slices.ContainsFunc(ranks, func(r int) bool { n := x.NodeOf(r); return n >= 0 && c.Find(n) != nil }) {
			continue
		}
		for k := range c.Members {
			if m := c.Members[k].Membership; m != nil && x.Level == rca.LevelCalls {
				note(m.SinceCalled, m.Called > 0)
			} else if m != nil {
				note(m.SinceCompleted, m.Completed > 0)
			}
		}
	}
	return last, known
}

// concerned gives the nodes that a fact may be about: its rank, the ranks of its NIC, or all of its host.
func (j *Job) concerned(f *rca.Fact) (nodes []int32) {
	if n := j.Index.NodeOf(f.Rank); f.Rank >= 0 {
		if n >= 0 {
			nodes = append(nodes, n)
		}
		return nodes
	}
	for _, n := range j.Index.Mates[f.Host] {
		if r := j.Index.Nodes[n].Rank; f.Component != "nic" || f.Device == "" || r.NIC == "" || r.NIC == f.Device {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
