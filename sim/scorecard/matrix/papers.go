// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"slices"

	"github.com/culprit-project/culprit/sim/cluster"
)

// PaperCase is a case of a paper's table, with our runs that stand for it.
type PaperCase struct {
	Name      string
	Paper     string // What the paper reports of it.
	Kinds     []cluster.FaultKind
	Workloads []string // Empty: all.
}

// Holds reports whether a run stands for the case. Holmes' shapes do not: no paper's case is a passing fault.
func (p *PaperCase) Holds(scenario, severity, workload string) bool {
	return slices.Contains(p.Kinds, cluster.FaultKind(scenario)) && (len(p.Workloads) == 0 || slices.Contains(p.Workloads, workload)) &&
		severity != Spikes && severity != Fluctuation
}

func of(kinds ...cluster.FaultKind) []cluster.FaultKind { return kinds }

// MycroftCases are the injections of section 7.1 on its testbed's layout: 32 A100, TP 8, PP 2, DP 2.
func MycroftCases() []PaperCase {
	on := []string{"gpt-32"}
	return []PaperCase{
		{"#1 NIC shutdown", "rank", of(cluster.NICDown), on},
		{"#2 NIC bandwidth limit", "rank, NIC", of(cluster.NICBandwidth), on},
		{"#3 PCIe downgrade", "rank", of(cluster.PCIeDowngrade), on},
		{"#4 GPU power limit", "rank", of(cluster.GPUThrottle), on},
		{"#5 background computation", "machine", of(cluster.BackgroundCompute), on},
		{"#6 background traffic", "machines, network", of(cluster.Congestion), on},
		{"#7 NCCL proxy delay", "rank", of(cluster.ProxyDelay), on},
	}
}

// CCLDCases are the six classes of section 2.2 with the injections of section 6.2.1; table 1 is on 16 devices.
func CCLDCases() []PaperCase {
	on := []string{"fsdp-16"}
	return []PaperCase{
		{"H1 not-entered hang", "right", of(cluster.ProcessStopped, cluster.NotEntered, cluster.DataStuck), on},
		{"H2 inconsistent hang", "right", of(cluster.OtherFunc, cluster.OtherSize, cluster.SkippedOp), on},
		{"H3 hardware fault", "right", of(cluster.NICDown, cluster.GPUError), on},
		{"S1 computation slow", "right", of(cluster.GPUThrottle, cluster.SlowData), on},
		{"S2 communication slow", "right", of(cluster.NICBandwidth, cluster.LinkFlap, cluster.CrossNUMA), on},
		{"S3 mixed slow", "right", of(cluster.CPUContention), on},
	}
}

// PulseCases are the rows of table 3 in the scenarios and at the severities of table 4.
func PulseCases() []PaperCase {
	gpt, training, all := []string{"gpt-64"}, []string{"gpt-64", "mixtral-32"}, []string{"gpt-64", "mixtral-32", "neighbour-4"}
	return []PaperCase{
		{"network congestion", "machine", of(cluster.Congestion), all},
		{"CPU contention", "group", of(cluster.CPUContention), training},
		{"NIC down", "machine", of(cluster.NICDown), all},
		{"MoE expert imbalance", "machine", of(cluster.ExpertImbalance), []string{"mixtral-32"}},
		{"PCIe contention", "machine", of(cluster.PCIeContention), all},
		{"GPU throttling", "machine", of(cluster.GPUThrottle), training},
		{"GPU execution error", "machine", of(cluster.GPUError), training},
		{"CUDA execution error", "machine", of(cluster.CUDAError), training},
		{"CPU throttling", "group", of(cluster.CPUThrottle), training},
		{"PCIe downgrade", "machine", of(cluster.PCIeDowngrade), all},
		{"NIC-GPU cross NUMA binding", "machine", of(cluster.CrossNUMA), gpt},
		{"memory alignment", "machine", of(cluster.Misalignment), all},
	}
}

// PulseTypes group table 4's injections as figures 22 to 24 do.
func PulseTypes() []PaperCase {
	training, all := []string{"gpt-64", "mixtral-32"}, []string{"gpt-64", "mixtral-32", "neighbour-4"}
	return []PaperCase{
		{"computation fail-stop", "", of(cluster.GPUError, cluster.CUDAError), training},
		{"computation fail-slow", "", of(cluster.GPUThrottle, cluster.CPUThrottle, cluster.CPUContention), training},
		{"communication fail-stop", "", of(cluster.NICDown), all},
		{"communication fail-slow", "", of(cluster.PCIeDowngrade, cluster.PCIeContention, cluster.Congestion, cluster.CrossNUMA), all},
	}
}
