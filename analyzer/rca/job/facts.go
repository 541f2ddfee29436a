// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// OnlyAiling gives the only one of some ranks that has an ailment; -1 none, or several.
func (x *Index) OnlyAiling(nodes []int32, ailment func(*rca.Fact) bool) int32 {
	sick := int32(-1)
	for _, n := range nodes {
		if x.Ailing(n, ailment) {
			if sick >= 0 {
				return -1
			}
			sick = n
		}
	}
	return sick
}

// NIC gives the name of a rank's NIC, from the rank or from the topology; empty unknown.
func (x *Index) NIC(r *rca.Rank) string {
	return x.Opt.Topology.NICName(topology.Place{Host: r.Host, GPU: r.GPU, NIC: r.NIC})
}

// Ailing reports whether a host's own evidence shows an ailment of this rank. Evidence of the whole host counts for a rank only
// when it names the rank's NIC or the rank's NIC is not known.
func (x *Index) Ailing(n int32, ailment func(*rca.Fact) bool) bool {
	r := x.Nodes[n].Rank
	if r == nil {
		return false
	}
	nic := x.NIC(r)
	for i := range x.Ev.Facts {
		f := &x.Ev.Facts[i]
		if !ailment(f) {
			continue
		}
		if f.Rank == r.ID || f.Rank < 0 && f.Host != "" && f.Host == r.Host && (nic == "" || f.Device == "" || f.Device == nic) {
			return true
		}
	}
	return false
}

// FactOf reports whether a fact with the ailment names this very rank, not only its host.
func (x *Index) FactOf(n int32, ailment func(*rca.Fact) bool) bool {
	return slices.ContainsFunc(x.Ev.Facts, func(f rca.Fact) bool { return f.Rank == x.Nodes[n].ID && ailment(&f) })
}

// AilingNIC gives the only NIC of a rank's host for which the host reports an ailment; empty none, or several.
func (x *Index) AilingNIC(n int32) string {
	name := ""
	for i := range x.Ev.Facts {
		f := &x.Ev.Facts[i]
		if f.Component != "nic" || f.Device == "" || f.Host != x.Host(n) || f.Rank >= 0 && f.Rank != x.Nodes[n].ID {
			continue
		}
		if name != "" && name != f.Device {
			return ""
		}
		name = f.Device
	}
	return name
}

// NetAilment reports whether a fact is about a NIC, its link or its PCIe connection to the GPU.
func NetAilment(f *rca.Fact) bool {
	return f.Component == "nic" || f.Component == "link" || f.Component == "pcie"
}

// DeadNIC reports whether a fact stops a NIC, and does not merely slow it down.
func DeadNIC(f *rca.Fact) bool {
	return NetAilment(f) && (f.Kind == "port_down" || f.Kind == "link_downed")
}

// GPUAilment reports whether a fact stops a GPU; a throttled clock only slows it down.
func GPUAilment(f *rca.Fact) bool {
	if f.Component != "gpu" && f.Component != "nvlink" && f.Component != "memory" {
		return false
	}
	switch f.Kind {
	case "clock_throttled", "temperature", "power_capped", "foreign_process":
		return false
	}
	return true
}

// ThrottledGPU reports whether a fact says that a GPU runs at a lower clock than it can.
func ThrottledGPU(f *rca.Fact) bool {
	return f.Component == "gpu" && (f.Kind == "clock_throttled" || f.Kind == "power_capped")
}

// apart gives the facts that set their host apart. What most other hosts show too, such as GPUs that are shared, explains nothing that
// befell one host alone; a part that has stopped tells wherever it is.
func (x *Index) apart() []rca.Fact {
	hosts := map[string]map[string]bool{}
	for i := range x.Ev.Facts {
		f := &x.Ev.Facts[i]
		like := f.Ailment()
		if hosts[like] == nil {
			hosts[like] = map[string]bool{}
		}
		hosts[like][f.Host] = true
	}
	others := len(x.Mates) - 1
	var out []rca.Fact
	for i := range x.Ev.Facts {
		f := &x.Ev.Facts[i]
		alike := len(hosts[f.Ailment()]) - 1
		if f.Host == "" || GPUAilment(f) || DeadNIC(f) || 2*alike <= others {
			out = append(out, *f)
		}
	}
	return out
}

// FactsOf gives what sets a rank's host apart, as that says of the rank (X2).
func (x *Index) FactsOf(n int32) []string {
	var out []string
	r := x.Nodes[n].Rank
	for i := range x.Apart {
		f := &x.Apart[i]
		if f.Rank == x.Nodes[n].ID || f.Rank < 0 && r != nil && f.Host != "" && f.Host == r.Host {
			s := f.Text
			if s == "" {
				s = fmt.Sprintf("%s %s %g (expected %g)", f.Device, f.Kind, f.Value, f.Expected)
			}
			where := f.Host
			if where == "" {
				where = x.RankName(n)
			}
			out = append(out, fmt.Sprintf("%s, %s: %s", where, f.Component, s))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Place gives where a rank runs. A rank of which nothing was seen has a place of its own.
func (x *Index) Place(n int32) topology.Place {
	r := x.Nodes[n].Rank
	if r == nil || r.Host == "" {
		return topology.Place{Host: fmt.Sprintf("rank%d", x.Nodes[n].ID)}
	}
	return topology.Place{Host: r.Host, GPU: r.GPU, NIC: r.NIC}
}
