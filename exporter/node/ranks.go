// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strings"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// RankRef ties a live rank to the node's devices, so that their evidence can name it.
type RankRef struct {
	JobID    string
	Owner    string // As Process.Owner.
	Rank     int32
	HostPID  int    // 0 unknown.
	GPU      string // Index; empty unknown.
	UUID     string
	PCIBusID string // In lower case with a four-digit domain, as sysfs writes it; empty unknown.
	// RunDelay is the mean share of time in which the rank's NCCL threads were ready to run and got no CPU.
	RunDelay float64
	Threads  []nodeapi.Thread // Behind RunDelay.
	NICs     []string         // RDMA devices that it has queue pairs on, sorted.
	World    int32            // Size of the job; -1 unknown.
	Comms    []CommRef
}

// CommRef is a rank's place in a communicator.
type CommRef struct {
	ID           trace.CommID
	Rank, NRanks int32
}

// Ranks lists the live ranks.
func (s *Sampler) Ranks() []RankRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refs []RankRef
	for _, p := range s.processes {
		if p.Dead() || p.Rank < 0 || p.Disputed != "" {
			continue
		}
		ref := RankRef{
			JobID: p.JobID, Owner: p.Owner(), Rank: p.Rank, HostPID: p.Kernel.HostPID, GPU: p.GPU, UUID: p.Snap.Identity.GPUUUID, PCIBusID: NormalPCI(p.Snap.Identity.GPUPCIBusID),
			Threads: slices.Clone(p.Kernel.Threads), NICs: p.NICs(), World: p.Snap.Identity.WorldSize,
		}
		for i := range p.Snap.Comms {
			if c := &p.Snap.Comms[i]; !c.Ended {
				ref.Comms = append(ref.Comms, CommRef{ID: c.ID, Rank: c.Rank, NRanks: c.NRanks})
			}
		}
		for _, th := range p.Kernel.Threads {
			ref.RunDelay += th.RunDelayFrac / float64(len(p.Kernel.Threads))
		}
		refs = append(refs, ref)
	}
	return refs
}

// NICs names the RDMA devices that the process has queue pairs on, sorted.
func (p *Process) NICs() []string {
	var names []string
	for i := range p.Snap.QPs {
		if name := p.Snap.QPs[i].Device; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// NormalPCI writes a PCI bus id as sysfs does: lower case, a domain of four digits. NVML writes eight.
func NormalPCI(id string) string {
	id = strings.ToLower(id)
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") && strings.Contains(rest, ":") {
		return domain[4:] + ":" + rest
	}
	return id
}
