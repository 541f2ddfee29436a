// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

// Answer is the sealed truth about a run. It never lies beside the records that the analysis reads: Run returns it
// apart, and files keep it under another name that only the scorecard opens.
type Answer struct {
	Truths []Truth `json:"truths"` // None: nothing was wrong.
	// Hang: some rank was stuck for good at the end of the run.
	Hang bool `json:"hang"`
	// Benign names what an observer may mistake for trouble at the end of the run: "checkpoint", "first_step", …
	Benign string `json:"benign,omitempty"`
}

// Truth is what one fault makes true.
type Truth struct {
	Fault     string  `json:"fault"`
	AtSeconds float64 `json:"at_seconds"`
	// Class is the class of anomaly; Classes are all that a careful observer may call it.
	Class   string   `json:"class"`
	Classes []string `json:"classes"`
	// Causes may be named; none: any.
	Causes []string `json:"causes,omitempty"`
	// Ranks: naming any of them finds the culprit; none: nobody may be accused.
	Ranks []int `json:"ranks,omitempty"`
	// Mutual: others may be named beside them, for it takes two orders to make a deadlock.
	Mutual    bool   `json:"mutual,omitempty"`
	Component string `json:"component"`
	Place     string `json:"place,omitempty"`
}

// The words of classes and causes, as verdicts spell them.
const (
	classNotEntered   = "not_entered"
	classInconsistent = "inconsistent"
	classFault        = "fault"
	classSlowCompute  = "slow_compute"
	classSlowComm     = "slow_comm"
	classSlowMixed    = "slow_mixed"
	classImbalance    = "imbalance"
	classGlobalSlow   = "global_slow"

	causeStopped   = "process_stopped"
	causeGone      = "process_gone"
	causeHost      = "host_lost"
	causeNotCalled = "op_not_called"
	causeStorage   = "storage"
	causeKernel    = "kernel_not_running"
	causeOtherOp   = "other_op"
	causeDeadlock  = "deadlock"
	causeGPU       = "gpu"
	causeNetSend   = "network_send"
	causeReceiver  = "receiver"
	causePCIe      = "pcie"
	causeProxy     = "proxy"
	causeCPU       = "cpu"
	causeStage     = "pipeline_stage"
	causeRouting   = "expert_routing"
	causeUnknown   = "unknown"
)

func truth(class string, ranks []int, causes ...string) Truth {
	return Truth{Class: class, Classes: []string{class}, Ranks: slices.Clone(ranks), Causes: causes}
}

func (t Truth) or(classes ...string) Truth {
	t.Classes = append(t.Classes, classes...)
	return t
}

func (t Truth) involving() Truth {
	t.Mutual = true
	return t
}

func (t Truth) comp(component, place string) Truth {
	t.Component, t.Place = component, place
	return t
}

// settle adds what only the finished run shows.
func (a *Answer) settle(s *sim) {
	for i := range a.Truths {
		if n := s.cfg.Faults[i].FromIteration; n > 0 && n <= len(s.ranks[0].ends) {
			a.Truths[i].AtSeconds = s.ranks[0].ends[n-1].Seconds()
		}
	}
	for i := range s.ranks {
		s.ranks[i].inFlight(func(_ slot, o *op, m int32) {
			mb := &o.mem[m]
			if mb.entered != unset && s.horizon-mb.entered > hangAfter && (mb.left == unset || mb.left >= Never) {
				a.Hang = true
			}
		})
	}
	for i := range s.ranks {
		for _, b := range s.ranks[i].busy {
			if b.what == "checkpoint" && b.from <= s.horizon && s.horizon < b.to {
				a.Benign = "checkpoint"
			}
		}
	}
}

const hangAfter = Time(10e9)
