// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package topology knows which GPUs, NICs, links and switches lie between two ranks (H5). It reads Slurm's topology.conf, NCCL's
// topology XML, a file of its own, or any of them together.
package topology

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Kind is the kind of a device, named as Holmes' table 1 names it.
type Kind string

// Kinds.
const (
	GPU    Kind = "gpu"
	NIC    Kind = "nic"
	Link   Kind = "link"
	Switch Kind = "switch"
)

// Device is one device.
type Device struct {
	Name  string // "node-1/gpu3", "node-1/mlx5_0", "node-1/mlx5_0-leaf-2", "leaf-2".
	Kind  Kind
	Below int // NICs below a switch; 0 for other devices.
}

// Topology is a cluster. The zero value knows no devices and gives every place a GPU and a NIC of its own.
type Topology struct {
	// nics gives the NIC of a GPU by host and GPU; host "" stands for every host.
	nics map[string]map[string]string
	// parents gives the switches above a switch, or above a host's NIC ("host/nic"), or a host ("host").
	parents map[string][]string
	below   map[string]int
}

// Place is where a rank runs.
type Place struct {
	Host string
	GPU  string // Index on the host.
	NIC  string // Empty: taken from the topology.
}

// Known reports whether switches are known: without them a path ends at its NICs.
func (t *Topology) Known() bool { return t != nil && len(t.parents) > 0 }

// GPU gives the GPU of a place.
func (t *Topology) GPU(p Place) Device { return Device{Name: p.Host + "/gpu" + p.GPU, Kind: GPU} }

// NICName gives the name of the NIC that a place's GPU uses, empty when it is not known.
func (t *Topology) NICName(p Place) string {
	if p.NIC != "" || t == nil {
		return p.NIC
	}
	if name := t.nics[p.Host][p.GPU]; name != "" {
		return name
	}
	return t.nics[""][p.GPU]
}

// NIC gives the NIC that a place's GPU uses. Where nothing is known, each GPU has its own.
func (t *Topology) NIC(p Place) Device {
	name := t.NICName(p)
	if name == "" {
		name = "nic" + p.GPU
	}
	return Device{Name: p.Host + "/" + name, Kind: NIC}
}

// Path gives the devices that data passes between two places: NICs, links and switches, up from both to the lowest switches above
// both. Where several switches are equally near, it gives all of them, because the one in use is not known. Between two places of
// one host it gives nothing: GPUs there talk over NVLink.
func (t *Topology) Path(a, b Place) []Device {
	if a.Host == b.Host {
		return nil
	}
	na, nb := t.NIC(a), t.NIC(b)
	out := []Device{na, nb}
	if !t.Known() {
		return append(out, Device{Name: min(na.Name, nb.Name) + "-" + max(na.Name, nb.Name), Kind: Link})
	}
	ra, rb := t.climb(a.Host, na.Name), t.climb(b.Host, nb.Name)
	meet := -1
	for name, r := range ra {
		if s, both := rb[name]; both && (meet < 0 || r.height+s.height < meet) {
			meet = r.height + s.height
		}
	}
	used := map[Device]bool{}
	for name, r := range ra {
		if s, both := rb[name]; both && r.height+s.height == meet {
			t.descend(ra, name, used)
			t.descend(rb, name, used)
		}
	}
	for d := range used {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Device) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return slices.Compact(out)
}

// reached is a switch above a NIC: at what height, and through which device.
type reached struct {
	height int
	from   []string
}

// climb gives the switches above a NIC, nearest first.
func (t *Topology) climb(host, nic string) map[string]reached {
	parents := func(name string) []string {
		if name == nic && len(t.parents[nic]) == 0 {
			return t.parents[host]
		}
		return t.parents[name]
	}
	out := map[string]reached{}
	level := []string{nic}
	for height := 1; len(level) > 0; height++ {
		var next []string
		for _, name := range level {
			for _, up := range parents(name) {
				r, seen := out[up]
				if !seen {
					r.height = height
					next = append(next, up)
				}
				if r.height == height {
					r.from = append(r.from, name)
				}
				out[up] = r
			}
		}
		level = next
	}
	return out
}

// descend adds a switch and all devices on the shortest paths down from it.
func (t *Topology) descend(above map[string]reached, name string, used map[Device]bool) {
	r, ok := above[name]
	if !ok {
		return // The NIC itself.
	}
	used[Device{Name: name, Kind: Switch, Below: t.below[name]}] = true
	for _, from := range r.from {
		used[Device{Name: from + "-" + name, Kind: Link}] = true
		t.descend(above, from, used)
	}
}

// finish counts the NICs below every switch. The readers refuse a switch that is above itself.
func (t *Topology) finish() error {
	t.below = map[string]int{}
	isParent := map[string]bool{}
	for _, ups := range t.parents {
		for _, up := range ups {
			isParent[up] = true
		}
	}
	for name := range t.parents {
		slices.Sort(t.parents[name])
		t.parents[name] = slices.Compact(t.parents[name])
	}
	leaves := make([]string, 0, len(t.parents))
	for name := range t.parents {
		if !isParent[name] {
			leaves = append(leaves, name)
		}
	}
	if err := t.checkOrder(); err != nil {
		return err
	}
	for _, leaf := range leaves {
		nics := 1
		if !strings.Contains(leaf, "/") {
			nics = max(1, distinct(t.nics[leaf]), distinct(t.nics[""]))
		}
		for up := range t.climb("", leaf) {
			t.below[up] += nics
		}
	}
	return nil
}

func distinct(nics map[string]string) int {
	seen := map[string]bool{}
	for _, n := range nics {
		seen[n] = true
	}
	return len(seen)
}

// merge adds the content of another topology.
func (t *Topology) merge(o *Topology) {
	if t.nics == nil {
		t.nics, t.parents = map[string]map[string]string{}, map[string][]string{}
	}
	for host, nics := range o.nics {
		if t.nics[host] == nil {
			t.nics[host] = map[string]string{}
		}
		maps.Copy(t.nics[host], nics)
	}
	for name, ups := range o.parents {
		t.parents[name] = append(t.parents[name], ups...)
	}
}
