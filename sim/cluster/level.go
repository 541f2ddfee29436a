// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/trace"
)

// Level is what a job's sources can tell of its operations: what the shim reports by default with the NCCL that the job has.
type Level string

// Levels of evidence, from the most to the least.
const (
	KernelEvents Level = "kernels"  // NCCL 2.28.3 to 2.30: calls, proxy steps and kernels.
	ProxySteps   Level = "steps"    // NCCL 2.31 and later, or kernel events off: calls and proxy steps.
	Launches     Level = "launches" // NCCL 2.24 to 2.27: proxy steps; an operation appears when it is launched.
	Calls        Level = "calls"    // Preloaded hooks alone: calls, and no ends.
)

// Levels lists all levels.
var Levels = []Level{KernelEvents, ProxySteps, Launches, Calls}

func (l Level) check() error {
	if !slices.Contains(Levels, l) {
		return fmt.Errorf("level of evidence %q is none of %v", l, Levels)
	}
	return nil
}

func (l Level) kernels() bool { return l == KernelEvents }
func (l Level) steps() bool   { return l != Calls }
func (l Level) calls() bool   { return l != Launches }

func (l Level) capabilities() uint64 {
	caps := trace.CapCommIdentity
	if l.calls() {
		caps |= trace.CapAPIEvents
	}
	if l.steps() {
		caps |= trace.CapProxySteps | trace.CapPeerWait | trace.CapCompletion | trace.CapP2PChannels
	}
	if l.kernels() {
		caps |= trace.CapKernelCh | trace.CapKernelTimer
	}
	return caps
}

// kernelsSeen tells whether the sources show when the kernels of a communicator's operations start and stop. Before 2.31 NCCL's kernel
// events run ahead once a rank has sent to itself, so that the shim does not believe them.
func (s *sim) kernelsSeen(c *comm) bool { return s.cfg.Level.kernels() && !c.toSelf }

// endless tells whether nothing shows the end of an operation.
func (s *sim) endless(o *op) bool {
	return !s.kernelsSeen(o.comm) && !(s.cfg.Level.steps() && s.onNetwork(o))
}

// allEndless tells whether nothing shows the end of any of a communicator's operations.
func (s *sim) allEndless(c *comm) bool {
	return !s.kernelsSeen(c) && !(s.cfg.Level.steps() && c.hosts > 1)
}

// onNetwork tells whether some of an operation's data leaves a host.
func (s *sim) onNetwork(o *op) bool {
	if !o.p2p {
		return o.comm.hosts > 1
	}
	return s.hw[o.comm.members[o.src]].host != s.hw[o.comm.members[o.dst]].host
}

// endlessKept is how many launched operations without an end the shim keeps: an older one goes when a later one comes.
const endlessKept = 16
