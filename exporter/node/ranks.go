// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import "strings"

// RankRef ties a live rank to the node's devices, so that their evidence can name it.
type RankRef struct {
	JobID    string
	Rank     int32
	HostPID  int    // 0 unknown.
	GPU      string // Index; empty unknown.
	UUID     string
	PCIBusID string // In lower case with a four-digit domain, as sysfs writes it; empty unknown.
	// RunDelay is the mean share of time in which the rank's NCCL threads were ready to run and got no CPU.
	RunDelay float64
	Threads  int // Behind RunDelay.
}

// Ranks lists the live ranks.
func (s *Sampler) Ranks() []RankRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refs []RankRef
	for _, p := range s.processes {
		if p.Dead() || p.Rank < 0 {
			continue
		}
		ref := RankRef{
			JobID: p.JobID, Rank: p.Rank, HostPID: p.Kernel.HostPID, GPU: p.GPU, UUID: p.Snap.Identity.GPUUUID, PCIBusID: NormalPCI(p.Snap.Identity.GPUPCIBusID),
			Threads: len(p.Kernel.Threads),
		}
		for _, th := range p.Kernel.Threads {
			ref.RunDelay += th.RunDelayFrac / float64(len(p.Kernel.Threads))
		}
		refs = append(refs, ref)
	}
	return refs
}

// NormalPCI writes a PCI bus id as sysfs does: lower case, a domain of four digits. NVML writes eight.
func NormalPCI(id string) string {
	id = strings.ToLower(id)
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") && strings.Contains(rest, ":") {
		return domain[4:] + ":" + rest
	}
	return id
}
