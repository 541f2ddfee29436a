// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/lab/ncclrecord/recording"
)

// Standing is what one rank of a hung job shows at the end of its recording.
type Standing struct {
	Role string // Of the rank beside the one that the fault struck.
	What string
}

// Standings says where each rank of a job with a fault stands.
func Standings(r *recording.Recording, culprit int) []Standing {
	var found []Standing
	most := 0
	for _, p := range r.Processes {
		most = max(most, len(p.Of("Coll", "P2p")))
	}
	for i, p := range r.Processes {
		found = append(found, Standing{Role: role(i, culprit, len(r.Processes)), What: standing(p, most)})
	}
	return found
}

func role(rank, culprit, ranks int) string {
	switch (rank - culprit + ranks) % ranks {
	case 0:
		return "the rank itself"
	case 1:
		return "the next rank"
	case ranks - 1:
		return "the rank before"
	default:
		return "the others"
	}
}

// standing describes the oldest operation that is not over: what was started of it, and where its oldest open steps are.
func standing(p *recording.Process, most int) string {
	var open *recording.Span
	ops := p.Of("Coll", "P2p")
	for _, s := range ops {
		if incomplete(s) {
			open = s
			break
		}
	}
	if open == nil {
		return "nothing in flight; " + behind(len(ops), most)
	}
	var parts []string
	if len(open.Of("KernelCh")) > 0 {
		parts = append(parts, "kernel started")
	} else if p.ABI() >= 3 {
		parts = append(parts, "kernel not started")
	}
	states := map[string]bool{}
	for _, s := range ops {
		// Send and receive of one group are one kernel.
		if s != open && (open.Name != "P2p" || s.Name != "P2p" || s.Index < open.Index) {
			continue
		}
		for _, op := range s.Of("ProxyOp") {
			if op.Live() {
				states[direction(op)+" "+oldest(op)] = true
			}
		}
	}
	var sorted []string
	for s := range states {
		sorted = append(sorted, s)
	}
	slices.Sort(sorted)
	return strings.Join(append(parts, sorted...), "; ")
}

func behind(started, most int) string {
	if started < most {
		return fmt.Sprintf("started %d fewer operations than the rank with the most", most-started)
	}
	return "started as many operations as the others"
}

func incomplete(s *recording.Span) bool {
	for _, k := range append(s.Of("KernelCh"), s.Of("ProxyOp")...) {
		if k.Live() {
			return true
		}
	}
	return len(s.Of("ProxyOp")) == 0 && len(s.Of("KernelCh")) == 0
}

func direction(op *recording.Span) string {
	if isSend(op) {
		return "send"
	}
	return "receive"
}

// oldest is the state of the oldest step that is open, or what the operation waits for without one. Up to 2.26 some
// receive steps are never stopped: there the operation's own count of its steps tells which is the oldest.
func oldest(op *recording.Span) string {
	done := op.Count("ProxyOpRecvDone")
	for _, s := range op.Children {
		if s.Live() && s.Num("step") >= done {
			if len(s.States) == 0 {
				return "started"
			}
			return s.States[len(s.States)-1].Name
		}
	}
	if len(op.Children) == 0 {
		return "queued"
	}
	return "between steps"
}
