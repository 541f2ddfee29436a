// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace"
)

// FaultKind is what goes wrong.
type FaultKind string

// Faults. In comments: what Remaining and Peer mean where they are used.
const (
	NICDown           FaultKind = "nic_down"
	NICBandwidth      FaultKind = "nic_bandwidth"    // Remaining share of the line rate, sending.
	LinkFlap          FaultKind = "link_flap"        // Down for Remaining of every second.
	SwitchPortSlow    FaultKind = "switch_port_slow" // Remaining share, both directions of one NIC's port.
	Congestion        FaultKind = "congestion"       // Remaining share on the path from Rank's host to Peer's host.
	PCIeDowngrade     FaultKind = "pcie_downgrade"   // Remaining share.
	PCIeContention    FaultKind = "pcie_contention"  // Remaining share.
	CrossNUMA         FaultKind = "cross_numa"       // Remaining share between GPU and NIC.
	Misalignment      FaultKind = "memory_misalignment"
	GPUThrottle       FaultKind = "gpu_throttle"       // Remaining clock.
	BackgroundCompute FaultKind = "background_compute" // Remaining share of the GPU; the whole host.
	GPUError          FaultKind = "gpu_error"          // XID; the GPU stops, the process stays.
	CUDAError         FaultKind = "cuda_error"         // Out of memory and the like: the process dies.
	NVLinkError       FaultKind = "nvlink_error"       // Remaining share of NVLink, 0 dead.
	ECCError          FaultKind = "ecc_error"          // Uncorrectable: the GPU stops.
	CPUContention     FaultKind = "cpu_contention"     // Remaining share of CPU time; the whole host.
	CPUThrottle       FaultKind = "cpu_throttle"       // Remaining clock; the whole host.
	ProxyDelay        FaultKind = "proxy_delay"        // One rank's proxy thread sleeps for Delay now and then, 1-Remaining its chance per action.
	ProcessStopped    FaultKind = "process_stopped"
	ProcessKilled     FaultKind = "process_killed"
	HostLost          FaultKind = "host_lost"
	NotEntered        FaultKind = "op_not_entered" // The rank runs on in user code and calls nothing.
	OtherFunc         FaultKind = "other_op"       // Another function than its peers.
	OtherSize         FaultKind = "other_size"
	SkippedOp         FaultKind = "skipped_op"
	Deadlock          FaultKind = "deadlock" // Two groups called in opposite orders.
	DataStuck         FaultKind = "data_loader_stuck"
	StorageStuck      FaultKind = "storage_stuck"
	SlowData          FaultKind = "data_loader_slow" // Delay more per iteration.
	ExpertImbalance   FaultKind = "expert_imbalance" // One expert gets 1/Remaining times its tokens.
	StageImbalance    FaultKind = "stage_imbalance"  // One stage takes 1/Remaining times as long, by the model's cut.
	GlobalSlow        FaultKind = "global_slow"      // Every GPU at Remaining.
	GlobalNetwork     FaultKind = "global_network"   // Every NIC at Remaining.
)

// Fault is one injected fault.
type Fault struct {
	Kind      FaultKind
	Rank      int // Where: the rank, or a rank on the host, NIC or stage meant.
	Peer      int // Other end of a path.
	At        time.Duration
	For       time.Duration // 0: to the end.
	Remaining float64
	Delay     time.Duration
	// Every repeats the fault with this period, each lasting For (spikes and fluctuations).
	Every time.Duration
	// FromIteration is when an imbalance begins, in place of At; 0: from the start, as a bad cut of the model does.
	FromIteration int
	Slot          string // Communicator meant, for inconsistent operations: "tp", "dp", …; empty: "dp", else "world".
}

// deviationKind is how a rank's host thread leaves the common program.
type deviationKind int

const (
	deviateData deviationKind = iota
	deviateSlowData
	deviateSkip
	deviateFunc
	deviateSize
	deviateOrder
)

// deviation is one departure of a rank from the common program.
type deviation struct {
	kind     deviationKind
	from, to Time
	extra    Time
	slot     slot
	done     bool
}

// deviate applies inconsistent calls: nil to leave the call out.
func (r *rank) deviate(in *instr) *instr {
	for i := range r.script {
		d := &r.script[i]
		if d.done || in.kind != doCollect || in.slot != d.slot || r.host < d.from || r.comms[in.slot].comm < 0 {
			continue
		}
		other := *in
		switch d.kind {
		case deviateSkip:
			d.done = true
			return nil
		case deviateFunc:
			other.fn = trace.AllReduce
			if in.fn == trace.AllReduce {
				other.fn = trace.ReduceScatter
			}
		case deviateSize:
			other.bytes = in.bytes / 2
		default:
			continue
		}
		d.done = true
		return &other
	}
	return in
}

// swapOrder gives a copy of the program with its last two blocking collectives on different communicators exchanged,
// nil when there are none.
func (r *rank) swapOrder(prog []instr) []instr {
	last := -1
	for i := len(prog) - 1; i >= 0; i-- {
		in := &prog[i]
		if in.kind != doCollect || !in.blocking || r.comms[in.slot].comm < 0 {
			continue
		}
		if last < 0 {
			last = i
			continue
		}
		if in.slot != prog[last].slot {
			out := slices.Clone(prog)
			out[i], out[last] = out[last], out[i]
			return out
		}
	}
	return nil
}

// spans lists when the fault holds.
func (f *Fault) spans(horizon Time) [][2]Time {
	from, to := At(f.At), Never
	if f.For > 0 {
		to = from + At(f.For)
	}
	if f.Every == 0 {
		return [][2]Time{{from, to}}
	}
	var out [][2]Time
	for t := from; t <= horizon+Time(f.Every); t += At(f.Every) {
		out = append(out, [2]Time{t, t + At(f.For)})
	}
	return out
}

func (s *sim) applyFaults() (*Answer, error) {
	a := &Answer{}
	for i := range s.cfg.Faults {
		f := &s.cfg.Faults[i]
		if f.Rank < 0 || f.Rank >= len(s.hw) || f.Peer < 0 || f.Peer >= len(s.hw) {
			return nil, fmt.Errorf("fault %s: rank %d or peer %d outside 0..%d", f.Kind, f.Rank, f.Peer, len(s.hw)-1)
		}
		t, err := s.applyFault(f)
		if err != nil {
			return nil, fmt.Errorf("applying fault %s: %w", f.Kind, err)
		}
		t.Fault, t.AtSeconds = string(f.Kind), f.At.Seconds()
		a.Truths = append(a.Truths, t)
	}
	return a, nil
}
