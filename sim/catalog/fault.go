// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

// Severity says how a kind of fault is graded.
type Severity int

// Ways of grading.
const (
	NoSeverity Severity = iota // It is there or not.
	Lost                       // Share of the resource that is lost, 0 to 1.
	Down                       // Share of each second that the link is down, 0 to 1.
	Chance                     // Probability per action of the proxy, 0 to 1.
	More                       // How many times longer or larger, above 1.
)

func (s Severity) String() string {
	return [...]string{"none", "share lost (0 to 1)", "share of each second down (0 to 1)", "chance per proxy action (0 to 1)", "times as much (above 1)"}[s]
}

// FaultKind describes a kind of fault.
type FaultKind struct {
	Kind     cluster.FaultKind
	Help     string
	Severity Severity
	Default  float64       // Severity when none is given.
	Delay    time.Duration // Default of delay, where the kind has one.
	Peer     bool          // Has another end.
	Slot     bool          // Concerns one communicator.
	Begins   bool          // Begins with an iteration rather than at a time.
}

// FaultKinds lists the faults, network first.
func FaultKinds() []FaultKind {
	return []FaultKind{
		{Kind: cluster.NICDown, Help: "The rank's NIC is shut down."},
		{Kind: cluster.NICBandwidth, Help: "The rank's NIC sends slower than its line rate.", Severity: Lost, Default: 0.9},
		{Kind: cluster.LinkFlap, Help: "The NIC's link goes down once a second.", Severity: Down, Default: 0.5},
		{Kind: cluster.SwitchPortSlow, Help: "The switch port of the NIC is slow both ways.", Severity: Lost, Default: 0.9},
		{Kind: cluster.Congestion, Help: "Background traffic loads the path from the rank's host to peer's.", Severity: Lost, Default: 0.9, Peer: true},
		{Kind: cluster.PCIeDowngrade, Help: "The GPU's PCIe link runs at a lower width or generation.", Severity: Lost, Default: 0.875},
		{Kind: cluster.PCIeContention, Help: "Other traffic takes a share of the GPU's PCIe link.", Severity: Lost, Default: 0.8},
		{Kind: cluster.CrossNUMA, Help: "The process is bound to the socket that its NIC is not on.", Severity: Lost, Default: 0.6},
		{Kind: cluster.Misalignment, Help: "Buffers are not aligned, so PCIe transfers split.", Severity: Lost, Default: 0.5},
		{Kind: cluster.NVLinkError, Help: "The GPU's NVLink is slow; dead when all is lost.", Severity: Lost, Default: 1},
		{Kind: cluster.GPUThrottle, Help: "The GPU runs at a lower clock.", Severity: Lost, Default: 0.5},
		{Kind: cluster.BackgroundCompute, Help: "Another program computes on all GPUs of the host.", Severity: Lost, Default: 0.5},
		{Kind: cluster.GPUError, Help: "The GPU stops with an XID; its process stays."},
		{Kind: cluster.ECCError, Help: "The GPU stops with an uncorrectable memory error."},
		{Kind: cluster.CUDAError, Help: "The process dies of a CUDA error, such as out of memory."},
		{Kind: cluster.CPUContention, Help: "Other programs take the host's CPUs: threads run late by delay on average.", Severity: Lost, Default: 0.9, Delay: 2 * time.Millisecond},
		{Kind: cluster.CPUThrottle, Help: "The host's CPUs run at a lower clock (powersave).", Severity: Lost, Default: 0.78, Delay: 15 * time.Microsecond},
		{Kind: cluster.ProxyDelay, Help: "The rank's proxy thread sleeps for delay now and then.", Severity: Chance, Default: 0.01, Delay: 20 * time.Millisecond},
		{Kind: cluster.ProcessStopped, Help: "The process is stopped (SIGSTOP, debugger)."},
		{Kind: cluster.ProcessKilled, Help: "The process is killed."},
		{Kind: cluster.HostLost, Help: "The host vanishes with all its ranks."},
		{Kind: cluster.NotEntered, Help: "The rank runs on in user code and calls no operation."},
		{Kind: cluster.OtherFunc, Help: "The rank calls another kind of operation than its peers.", Slot: true},
		{Kind: cluster.OtherSize, Help: "The rank calls an operation with another size than its peers.", Slot: true},
		{Kind: cluster.SkippedOp, Help: "The rank leaves an operation out.", Slot: true},
		{Kind: cluster.Deadlock, Help: "The rank calls the operations of two groups in the opposite order.", Slot: true},
		{Kind: cluster.DataStuck, Help: "The rank's data loader hangs."},
		{Kind: cluster.StorageStuck, Help: "The rank's data loader hangs in storage, uninterruptibly."},
		{Kind: cluster.SlowData, Help: "The rank's data loader takes delay longer in every iteration.", Delay: time.Second},
		{Kind: cluster.ExpertImbalance, Help: "The expert of the rank gets more than its share of tokens. No machine is bad.", Severity: More, Default: 3, Begins: true},
		{Kind: cluster.StageImbalance, Help: "The pipeline stage of the rank takes longer than the others. No machine is bad.", Severity: More, Default: 1.5, Begins: true},
		{Kind: cluster.GlobalSlow, Help: "Every GPU is slower. No machine is bad.", Severity: Lost, Default: 0.3},
		{Kind: cluster.GlobalNetwork, Help: "Every NIC is slower. No machine is bad.", Severity: Lost, Default: 0.7},
	}
}

// Parameters explains what a fault's text may hold.
const Parameters = `KIND[:NAME=VALUE]..., such as nic_bandwidth:rank=9:at=40s:severity=0.75
  rank=N        the rank, or a rank on the host, NIC, stage or expert meant (0)
  peer=N        a rank on the other end's host, for congestion
  at=TIME       when it begins, after the job's start (30s)
  for=TIME      how long it lasts (to the end)
  every=TIME    repeats it with this period, each lasting "for"
  severity=X    see the kind
  delay=TIME    see the kind
  slot=NAME     communicator of an inconsistent call: tp, cp, dp, ep, mp, world (dp)
  iteration=N   where an imbalance begins (0: with the job)`

// DefaultAt is when a fault begins that does not say.
const DefaultAt = 30 * time.Second

// ParseFault reads a fault as Parameters describes it.
func ParseFault(text string) (cluster.Fault, error) {
	parts := strings.Split(text, ":")
	all := FaultKinds()
	i := slices.IndexFunc(all, func(k FaultKind) bool { return string(k.Kind) == parts[0] })
	if i < 0 {
		return cluster.Fault{}, fmt.Errorf("no kind of fault %q", parts[0])
	}
	k := all[i]
	f := cluster.Fault{Kind: k.Kind, At: DefaultAt, Delay: k.Delay}
	if k.Peer {
		f.Peer = -1
	}
	severity := k.Default
	for _, p := range parts[1:] {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return f, fmt.Errorf("fault %s: %q is not name=value", k.Kind, p)
		}
		if err := k.parameter(&f, &severity, name, value); err != nil {
			return f, fmt.Errorf("fault %s: %s: %w", k.Kind, name, err)
		}
	}
	if f.Peer < 0 {
		return f, fmt.Errorf("fault %s: needs peer, a rank on another host", k.Kind)
	}
	if f.Every > 0 && (f.For <= 0 || f.For > f.Every) {
		return f, fmt.Errorf("fault %s: with every, for must lie between 0 and it", k.Kind)
	}
	f.Remaining = k.Severity.remaining(severity)
	return f, nil
}

// parameter takes in one name=value.
func (k *FaultKind) parameter(f *cluster.Fault, severity *float64, name, value string) (err error) {
	count := func(p *int) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a number", value)
		}
		*p = n
		return nil
	}
	span := func(p *time.Duration) error {
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration such as 40s", value)
		}
		*p = d
		return nil
	}
	switch {
	case name == "rank":
		return count(&f.Rank)
	case name == "peer" && k.Peer:
		return count(&f.Peer)
	case name == "at" && !k.Begins:
		return span(&f.At)
	case name == "for":
		return span(&f.For)
	case name == "every":
		return span(&f.Every)
	case name == "delay" && k.Delay > 0:
		return span(&f.Delay)
	case name == "slot" && k.Slot:
		f.Slot = value
		return nil
	case name == "iteration" && k.Begins:
		return count(&f.FromIteration)
	case name == "severity" && k.Severity != NoSeverity:
		*severity, err = strconv.ParseFloat(value, 64)
		if err != nil || !k.Severity.holds(*severity) {
			return fmt.Errorf("%q is not a %s", value, k.Severity)
		}
		return nil
	}
	return fmt.Errorf("a fault of this kind has no such parameter")
}

func (s Severity) holds(v float64) bool {
	if s == More {
		return v > 1 && v <= 1000
	}
	return v >= 0 && v <= 1
}

// remaining turns a severity into what cluster.Fault calls Remaining.
func (s Severity) remaining(v float64) float64 {
	switch s {
	case Lost, Chance:
		return 1 - v
	case Down:
		return v
	case More:
		return 1 / v
	}
	return 0
}
