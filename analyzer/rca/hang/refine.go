// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// refine joins the node's own evidence in (X2): it settles between the ends of a link or the GPUs of a host where the
// flows cannot, and never accuses somebody whom the flows do not already suspect.
func (w *waitFor) refine(roots []root) {
	for i := range roots {
		r := &roots[i]
		switch {
		case r.kind == rootLink && r.peer >= 0 || r.kind == rootFlaw && r.leaf.cause == rca.CauseNetworkSend && r.peer >= 0:
			w.refineLink(r)
		case r.kind == rootGroup:
			w.refineGroup(r)
		}
	}
}

func (w *waitFor) refineLink(r *root) {
	from, to := w.Ailing(r.nodes[0], job.NetAilment), w.Ailing(r.peer, job.NetAilment)
	switch {
	case from && !to:
		r.kind = rootFlaw
		r.leaf.weight = max(r.leaf.weight, nodeShowsWeight)
	case to && !from:
		r.kind = rootFlaw
		r.nodes, r.peer = []int32{r.peer}, r.nodes[0]
		r.leaf.weight = max(r.leaf.weight, nodeShowsWeight)
		r.what = flawReceiving
	default:
		return
	}
	r.leaf.class, r.leaf.cause, r.leaf.hard = rca.Fault, rca.CauseNetworkSend, true
}

// refineGroup names the one member of a stuck group whose GPU shows an error, or else whose NIC is dead.
func (w *waitFor) refineGroup(r *root) {
	if n := w.OnlyAiling(r.nodes, job.GPUAilment); n >= 0 {
		r.kind, r.nodes, r.what = rootFlaw, []int32{n}, flawGPUError
		r.leaf = leaf{class: rca.Fault, cause: rca.CauseGPU, weight: nodeShowsWeight, hard: true}
	} else if n := w.OnlyAiling(r.nodes, job.DeadNIC); n >= 0 && r.leaf.class != rca.Fault {
		r.kind, r.nodes, r.what = rootFlaw, []int32{n}, flawNICDown
		r.leaf = leaf{class: rca.Fault, cause: rca.CauseNetworkSend, weight: nicDownWeight, hard: true}
		if w.NIC(w.Nodes[n].Rank) == "" && !w.FactOf(n, job.DeadNIC) {
			// A NIC of its host, nobody knows whose.
			r.leaf.weight, r.leaf.hard = hiddenWeight, false
		}
	}
}
