// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// refine joins the node's own evidence in (X2): it settles between the ends of a link or the GPUs of a host where the
// flows cannot, and never accuses somebody whom the flows do not already suspect.
func (w *waitFor) refine(roots []root) {
	for i := range roots {
		r := &roots[i]
		switch {
		case r.kind == rootLink && r.peer >= 0 || r.kind == rootFlaw && r.leaf.cause == CauseNetworkSend && r.peer >= 0:
			w.refineLink(r)
		case r.kind == rootGroup:
			w.refineGroup(r)
		}
	}
}

func (w *waitFor) refineLink(r *root) {
	from, to := w.ailing(r.nodes[0], netAilment), w.ailing(r.peer, netAilment)
	switch {
	case from && !to:
		r.kind = rootFlaw
		r.leaf.weight = max(r.leaf.weight, 0.9)
	case to && !from:
		r.kind = rootFlaw
		r.nodes, r.peer = []int32{r.peer}, r.nodes[0]
		r.leaf.weight = max(r.leaf.weight, 0.88)
		r.what = flawReceiving
	default:
		return
	}
	r.leaf.class, r.leaf.cause, r.leaf.hard = Fault, CauseNetworkSend, true
}

// refineGroup names the one member of a stuck group whose GPU shows an error, or else whose NIC is dead.
func (w *waitFor) refineGroup(r *root) {
	if n := w.onlyAiling(r.nodes, gpuAilment); n >= 0 {
		r.kind, r.nodes, r.what = rootFlaw, []int32{n}, flawGPUError
		r.leaf = leaf{class: Fault, cause: CauseGPU, weight: 0.9, hard: true}
	} else if n := w.onlyAiling(r.nodes, deadNIC); n >= 0 && r.leaf.class != Fault {
		r.kind, r.nodes, r.what = rootFlaw, []int32{n}, flawNICDown
		r.leaf = leaf{class: Fault, cause: CauseNetworkSend, weight: 0.8, hard: true}
		if w.nic(w.nodes[n].rank) == "" && !w.factOf(n, deadNIC) {
			// A NIC of its host, nobody knows whose.
			r.leaf.weight, r.leaf.hard = 0.45, false
		}
	}
}

// onlyAiling gives the one of some ranks that has an ailment, -1 none or several.
func (x *index) onlyAiling(nodes []int32, ailment func(*Fact) bool) int32 {
	sick := int32(-1)
	for _, n := range nodes {
		if x.ailing(n, ailment) {
			if sick >= 0 {
				return -1
			}
			sick = n
		}
	}
	return sick
}

// nic gives the name of a rank's NIC, as the rank or the topology has it, empty unknown.
func (x *index) nic(r *Rank) string {
	return x.opt.Topology.NICName(topology.Place{Host: r.Host, GPU: r.GPU, NIC: r.NIC})
}

// ailing says whether the node's own evidence shows an ailment of this rank. Evidence of the whole host counts for a
// rank only when it names the rank's NIC or the rank's NIC is not known.
func (x *index) ailing(n int32, ailment func(*Fact) bool) bool {
	r := x.nodes[n].rank
	if r == nil {
		return false
	}
	nic := x.nic(r)
	for i := range x.ev.Facts {
		f := &x.ev.Facts[i]
		if !ailment(f) {
			continue
		}
		if f.Rank == r.ID || f.Rank < 0 && f.Host != "" && f.Host == r.Host && (nic == "" || f.Device == "" || f.Device == nic) {
			return true
		}
	}
	return false
}

// factOf: the node says it of the very rank, not of its host.
func (x *index) factOf(n int32, ailment func(*Fact) bool) bool {
	return slices.ContainsFunc(x.ev.Facts, func(f Fact) bool { return f.Rank == x.nodes[n].id && ailment(&f) })
}

// ailingNIC gives the one NIC of a rank's host that its node complains of, empty none or several.
func (x *index) ailingNIC(n int32) string {
	name := ""
	for i := range x.ev.Facts {
		f := &x.ev.Facts[i]
		if f.Component != "nic" || f.Device == "" || f.Host != x.host(n) || f.Rank >= 0 && f.Rank != x.nodes[n].id {
			continue
		}
		if name != "" && name != f.Device {
			return ""
		}
		name = f.Device
	}
	return name
}

func netAilment(f *Fact) bool {
	return f.Component == "nic" || f.Component == "link" || f.Component == "pcie"
}

// deadNIC: what stops a NIC, not what slows it.
func deadNIC(f *Fact) bool {
	return netAilment(f) && (f.Kind == "port_down" || f.Kind == "link_downed")
}

// gpuAilment: what stops a GPU; a throttled clock slows it only.
func gpuAilment(f *Fact) bool {
	if f.Component != "gpu" && f.Component != "nvlink" && f.Component != "memory" {
		return false
	}
	switch f.Kind {
	case "clock_throttled", "temperature", "power_capped", "foreign_process":
		return false
	}
	return true
}
