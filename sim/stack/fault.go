// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Fault is a fault that the training programs can inject, and the answer that is right for it.
type Fault struct {
	Name  string // The program's name, with its argument.
	About string
	// Classes and Causes that are right; empty Classes: nobody may be paged.
	Classes []rca.Class
	Causes  []rca.Cause
	// Slow faults let the job go on: they show only against a baseline of some minutes' training.
	Slow bool
	// RealOnly faults need the program that runs the real NCCL library: ringjob does not know them.
	RealOnly bool
}

// Pages says whether somebody must be paged.
func (f Fault) Pages() bool { return len(f.Classes) > 0 }

// Named says whether a verdict names the injected rank alone, with a class and a cause that are right.
func (f Fault) Named(v *rca.Verdict, rank int) bool {
	return len(v.Culprits) == 1 && v.Culprits[0].Rank == rank &&
		slices.Contains(f.Classes, v.Class) && slices.Contains(f.Causes, v.Cause)
}

// Kind gives the fault's name without its argument.
func (f Fault) Kind() string { return kind(f.Name) }

func kind(name string) string {
	k, _, _ := strings.Cut(name, "=")
	return k
}

// StartsAtOnce says whether the fault lies before the first operation, so that nothing can train before it.
func (f Fault) StartsAtOnce() bool {
	return slices.Contains([]string{"first-step", "init-hang", "split-hang"}, f.Kind())
}

// InjectedBySignal says whether Inject starts the fault.
func (f Fault) InjectedBySignal() bool { return !f.StartsAtOnce() && f.Name != "none" }

// FindFault gives the fault of a name, with the name's own argument if it has one.
func FindFault(name string) (Fault, bool) {
	for _, f := range Faults {
		if kind(f.Name) == kind(name) {
			if strings.Contains(name, "=") {
				f.Name = name
			}
			return f, true
		}
	}
	return Fault{}, false
}

// Faults are those of the demo and of the end-to-end tests. A stopped or killed process is found inside or outside
// the operation its peers wait in, so both classes are right; the cause is not open.
var Faults = []Fault{
	{
		Name: "link-stall", About: "what the rank sends stops leaving its NIC",
		Classes: []rca.Class{rca.Fault}, Causes: []rca.Cause{rca.CauseNetworkSend},
	},
	{
		Name: "op-not-entered", About: "the rank stays in its own code and does not call the next operation",
		Classes: []rca.Class{rca.NotEntered}, Causes: []rca.Cause{rca.CauseNotCalled},
	},
	{
		// A GPU that freezes between two operations is one on which the next kernel does not start.
		Name: "gpu-freeze", About: "the GPU stops producing and consuming inside an operation",
		Classes: []rca.Class{rca.Fault, rca.NotEntered}, Causes: []rca.Cause{rca.CauseGPU, rca.CauseKernelNotRunning},
	},
	{
		Name: "other-op", About: "the rank calls another operation than its peers",
		Classes: []rca.Class{rca.Inconsistent}, Causes: []rca.Cause{rca.CauseOtherOp},
	},
	{
		Name: "stop", About: "the process is stopped (SIGSTOP)",
		Classes: []rca.Class{rca.Fault, rca.NotEntered}, Causes: []rca.Cause{rca.CauseProcessStopped},
	},
	{
		Name: "kill", About: "the process is killed (SIGKILL)",
		Classes: []rca.Class{rca.Fault, rca.NotEntered}, Causes: []rca.Cause{rca.CauseProcessGone},
	},
	{
		// Where no source reports kernels, one that does not start is a GPU that neither produces nor consumes.
		Name: "kernel-stall", About: "an operation is enqueued and its kernel does not start",
		Classes: []rca.Class{rca.NotEntered, rca.Fault}, Causes: []rca.Cause{rca.CauseKernelNotRunning, rca.CauseGPU},
	},
	{
		Name: "broadcast-not-entered", About: "the rank does not call a Broadcast that its peers wait in",
		Classes: []rca.Class{rca.NotEntered}, Causes: []rca.Cause{rca.CauseNotCalled}, RealOnly: true,
	},
	{
		Name: "init-hang", About: "the rank does not come to the first communicator",
		Classes: []rca.Class{rca.NotEntered}, Causes: []rca.Cause{rca.CauseNotCalled}, RealOnly: true,
	},
	{
		Name: "split-hang", About: "the rank does not come to a split of a communicator",
		Classes: []rca.Class{rca.NotEntered}, Causes: []rca.Cause{rca.CauseNotCalled}, RealOnly: true,
	},
	{
		Name: "gpu-slow=3", About: "the GPU computes three times slower",
		Classes: []rca.Class{rca.SlowCompute}, Causes: []rca.Cause{rca.CauseGPU, rca.CauseCPU},
		Slow: true,
	},
	{
		Name: "link-slow=0.001", About: "the link of the rank carries a thousandth of its bandwidth",
		Classes: []rca.Class{rca.SlowComm}, Causes: []rca.Cause{rca.CauseNetworkSend},
		Slow: true,
	},
	{
		Name: "proxy-delay=20", About: "the proxy thread sleeps 20 ms before each transfer",
		Classes: []rca.Class{rca.SlowComm, rca.SlowMixed}, Causes: []rca.Cause{rca.CauseProxy},
		Slow: true,
	},
	{
		Name: "data-late=0.3", About: "the program waits 0.3 s for the data of every step",
		Classes: []rca.Class{rca.SlowCompute, rca.SlowMixed}, Causes: []rca.Cause{rca.CauseCPU, rca.CauseNotCalled, rca.CauseStorage},
		Slow: true,
	},
	{Name: "checkpoint=8", About: "the rank writes a long checkpoint while the others wait (benign)"},
	{Name: "first-step=8", About: "the rank compiles before its first operation (benign)"},
	{Name: "none", About: "nothing is wrong"},
}
