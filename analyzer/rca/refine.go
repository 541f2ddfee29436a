// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

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

// refineGroup names the one member of a stuck group whose GPU shows an error.
func (w *waitFor) refineGroup(r *root) {
	sick := int32(-1)
	for _, n := range r.nodes {
		if w.ailing(n, gpuAilment) {
			if sick >= 0 {
				return
			}
			sick = n
		}
	}
	if sick < 0 {
		return
	}
	r.kind, r.nodes, r.what = rootFlaw, []int32{sick}, flawGPUError
	r.leaf = leaf{class: Fault, cause: CauseGPU, weight: 0.9, hard: true}
}

// ailing says whether the node's own evidence shows an ailment of this rank. Evidence of the whole host counts for a
// rank only when it names the rank's NIC or the rank's NIC is not known.
func (x *index) ailing(n int32, ailment func(*Fact) bool) bool {
	r := x.nodes[n].rank
	if r == nil {
		return false
	}
	for i := range x.ev.Facts {
		f := &x.ev.Facts[i]
		if !ailment(f) {
			continue
		}
		if f.Rank == r.ID || f.Rank < 0 && f.Host != "" && f.Host == r.Host && (r.NIC == "" || f.Device == "" || f.Device == r.NIC) {
			return true
		}
	}
	return false
}

func netAilment(f *Fact) bool {
	return f.Component == "nic" || f.Component == "link" || f.Component == "pcie"
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
