// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"slices"
	"strings"
)

// advice is what to do about one kind of fact of a host.
type advice struct {
	kind   string
	part   string // Part of the fact's text, with blanks for underscores; empty: any.
	causes []Cause
	do     string
	keep   bool // A setting needs a change; the host stays in service.
}

var (
	ofGPU = []Cause{CauseGPU, CauseKernelNotRunning}
	ofNet = []Cause{CauseNetworkSend, CauseReceiver, CausePCIe}
	ofCPU = []Cause{CauseCPU, CauseProxy, CauseNotCalled}
)

// advices are in the order of their weight: the first that fits is used.
var advices = []advice{
	{kind: "gpu_lost", causes: ofGPU, do: "Drain the host and reboot it: the driver lost the GPU. Replace the GPU if it is lost again."},
	{kind: "driver_hang", causes: ofGPU, do: "Drain the host and reboot it: the GPU's driver does not answer."},
	{kind: "row_remap_failed", causes: ofGPU, do: "Drain the host and replace the GPU: it has no spare memory rows left."},
	{kind: "ecc_uncorrectable", causes: ofGPU, do: "Drain the host and reset the GPU (nvidia-smi --gpu-reset). Replace it if uncorrectable ECC errors come again."},
	{kind: "xid", causes: ofGPU, do: "Look the Xid up in the kernel log (dmesg -T | grep -i xid), drain the host, and reset the GPU."},
	{kind: "nvlink_down", causes: append([]Cause{CauseNetworkSend}, ofGPU...), do: "Check NVLink on the host (nvidia-smi nvlink --status) and the fabric manager; drain the host."},
	{kind: "nvlink_errors", causes: append([]Cause{CauseNetworkSend}, ofGPU...), do: "Check NVLink on the host (nvidia-smi nvlink --errorcounters); drain the host if the counters grow."},
	{kind: "clock_throttled", part: "thermal", causes: ofGPU, do: "Check the cooling of the host: fans, airflow, temperature (nvidia-smi -q -d TEMPERATURE). Drain it until the GPU is cool."},
	{kind: "clock_throttled", part: "power brake", causes: ofGPU, do: "Check the power supply of the host: it asks the GPU to brake. Drain the host."},
	{kind: "clock_throttled", part: "hw slowdown", causes: ofGPU, do: "Check power supply and cooling of the host: the hardware slows the GPU down. Drain the host."},
	{
		kind: "clock_throttled", part: "power cap", causes: ofGPU, keep: true,
		do: "Compare the GPU's power limit with its peers (nvidia-smi -q -d POWER) and raise it (nvidia-smi -pl WATTS). The GPU is not broken.",
	},
	{kind: "foreign_process", causes: ofGPU, keep: true, do: "End the other process that computes on this GPU (nvidia-smi shows it). The GPU is not broken."},
	{kind: "port_down", causes: ofNet, do: "Check cable and switch port: the NIC's port is down. Drain the host."},
	{kind: "link_downed", causes: ofNet, do: "Check cable and switch port: the link went down and came back. Drain the host if it does so again."},
	{kind: "port_rate_reduced", causes: ofNet, do: "Check cable and switch port: the link came up at a lower rate. Drain the host."},
	{kind: "link_width_reduced", causes: ofNet, do: "Drain the host and reseat the card: its PCIe link has fewer lanes than it could have."},
	{kind: "link_speed_reduced", causes: ofNet, do: "Drain the host and reseat the card: its PCIe link is slower than it could be."},
	{kind: "cnp_rate", causes: ofNet, keep: true, do: "Look for congestion on the way of this NIC (ECN marks, queue lengths at the switch): the NIC is told to slow down."},
	{kind: "numa_remote", causes: ofNet, keep: true, do: "Give the rank the NIC that is nearest to its GPU (NCCL_IB_HCA, topology file): it uses one behind another CPU."},
	{kind: "cpu_affinity", causes: ofCPU, keep: true, do: "Bind the ranks of this host to CPUs of their own: their NCCL threads share too few."},
	{kind: "cpu_pressure", causes: ofCPU, keep: true, do: "Look for what else runs on the host, and at the CPU limit of the job's container: threads wait for a CPU."},
	{kind: "cpu_clock_reduced", causes: ofCPU, keep: true, do: "Check frequency governor and power profile of the host: its CPUs may not run at full speed."},
	{kind: "cpu_thermal_throttle", causes: ofCPU, do: "Check the cooling of the host: its CPUs are slowed down by heat."},
	{kind: "oom_kill", causes: []Cause{CauseProcessGone}, keep: true, do: "Give the job more host memory or let it use less: the kernel killed a process of this host for lack of memory."},
}

// fits reports whether a fact is of the kind.
func (a *advice) fits(f *Fact) bool {
	return f.Kind == a.kind && strings.Contains(strings.ReplaceAll(f.Text, "_", " "), a.part)
}

// Ailment names what a fact is about, the same on all hosts: its kind and, where kinds have several reasons, the reason.
func (f *Fact) Ailment() string {
	for i := range advices {
		if a := &advices[i]; a.fits(f) {
			return f.Component + " " + f.Kind + " " + a.part
		}
	}
	return f.Component + " " + f.Kind
}

// ActionForFacts suggests what to do from what sets the culprit's own host apart; empty where nothing there says more than the
// cause does.
func ActionForFacts(cause Cause, c *Culprit, facts []Fact) string {
	for i := range advices {
		a := &advices[i]
		if !slices.Contains(a.causes, cause) {
			continue
		}
		for k := range facts {
			f := &facts[k]
			if a.fits(f) && (f.Rank >= 0 && f.Rank == c.Rank || f.Rank < 0 && f.Host != "" && f.Host == c.Host) {
				return a.do
			}
		}
	}
	return ""
}

// KeepsHost reports whether a suggested action changes a setting, so that the host can stay in service.
func KeepsHost(action string) bool {
	return slices.ContainsFunc(advices, func(a advice) bool { return a.keep && a.do == action })
}
