// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package told

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Process is what is known of a rank's process; unknown is 0 or empty.
type Process struct {
	Rank      int
	PID       int
	Host, GPU string
	Bus       string // As Bus gives it.
}

// Directory finds a process by what a message has of it. A number that processes of several hosts share tells nothing without the
// host.
type Directory struct {
	by     map[string]Process
	double map[string]bool
	ranks  map[int]Process
}

// NewDirectory gives one that knows nobody.
func NewDirectory() *Directory {
	return &Directory{by: map[string]Process{}, double: map[string]bool{}, ranks: map[int]Process{}}
}

// Add makes a process known.
func (d *Directory) Add(p Process) {
	have := d.ranks[p.Rank]
	d.ranks[p.Rank] = Process{
		Rank: p.Rank, PID: cmp.Or(have.PID, p.PID), Host: cmp.Or(have.Host, p.Host), GPU: cmp.Or(have.GPU, p.GPU), Bus: cmp.Or(have.Bus, p.Bus),
	}
	for _, key := range keys(p.PID, p.Host, p.GPU, p.Bus) {
		if have, ok := d.by[key]; ok && have.Rank != p.Rank {
			d.double[key] = true
			continue
		}
		if have := d.by[key]; have.Rank == p.Rank && have.Host != "" {
			continue
		}
		d.by[key] = p
	}
}

func keys(pid int, host, gpu, bus string) []string {
	var out []string
	host = short(host)
	for _, h := range []string{host, ""} {
		if pid > 0 {
			out = append(out, "pid "+strconv.Itoa(pid)+" "+h)
		}
		if bus != "" {
			out = append(out, "bus "+bus+" "+h)
		}
		if gpu != "" && h != "" {
			out = append(out, "gpu "+gpu+" "+h)
		}
		if host == "" {
			break
		}
	}
	return out
}

// short is a host's name without its domain; an address stays whole.
func short(host string) string {
	name, _, _ := strings.Cut(host, ".")
	if _, err := strconv.Atoi(name); err == nil {
		return host
	}
	return name
}

// Resolve gives a finding its rank, where its process is known.
func (d *Directory) Resolve(f *Finding) {
	if f.Rank < 0 && f.Worker != "" {
		f.Rank = workerRank(f.Worker)
		f.Worker = workerName(f.Worker)
	}
	if f.Rank < 0 {
		f.Rank = d.find(f)
	}
	if f.Rank < 0 {
		return
	}
	p := d.ranks[f.Rank]
	f.Host, f.PID, f.GPU = cmp.Or(f.Host, p.Host), cmp.Or(f.PID, p.PID), cmp.Or(f.GPU, p.GPU)
}

// Fill gives culprits the place of their process, where only their rank is known.
func (d *Directory) Fill(culprits []rca.Culprit) {
	for i := range culprits {
		if c := &culprits[i]; c.Rank >= 0 {
			p := d.ranks[c.Rank]
			c.Host, c.PID, c.GPU = cmp.Or(c.Host, p.Host), cmp.Or(c.PID, p.PID), cmp.Or(c.GPU, p.GPU)
		}
	}
}

// Host gives the host of a rank; empty unknown.
func (d *Directory) Host(rank int) string { return d.ranks[rank].Host }

func (d *Directory) find(f *Finding) int {
	gpu := f.GPU
	if f.Local >= 0 {
		gpu = ""
	}
	all := keys(f.PID, f.Host, gpu, Bus(f.Bus))
	for _, key := range all {
		if p, ok := d.by[key]; ok && !d.double[key] && (f.Host == "" || p.Host == "" || short(f.Host) == short(p.Host)) {
			return p.Rank
		}
	}
	return -1
}

// Bus brings PCI addresses into one form: "0000:02:00" of the driver and "2000" of NCCL are the same.
func Bus(address string) string {
	if address == "" || address == "." {
		return ""
	}
	if !strings.Contains(address, ".") {
		address += ".0"
	}
	return strings.TrimLeft(strings.ToLower(strings.NewReplacer(":", "", ".", "").Replace(address)), "0")
}

// workerName shortens a program's own name of a process: "Worker_TP2" is TP2.
func workerName(name string) string {
	whole := name
	for _, prefix := range []string{"RayWorkerWrapper", "VllmWorker", "Worker", "scheduler", "sglang::scheduler"} {
		name = strings.TrimPrefix(name, prefix)
	}
	name = strings.ReplaceAll(strings.Trim(strings.TrimPrefix(strings.Trim(name, "_-"), "RANK"), "_-"), "_", " ")
	if len(name) > 1 && name[1] >= 'a' && name[1] <= 'z' && strings.HasPrefix(whole, "Worker") {
		return whole // WorkerDict.
	}
	return name
}

// workerRank gives the rank of a process whose name has one number that tells it from the others of its server: -1 for none, or
// several, or replicas that are jobs of their own.
func workerRank(name string) int {
	parts := strings.Fields(workerName(name))
	if len(parts) != 1 || strings.HasPrefix(parts[0], "DP") || strings.HasPrefix(parts[0], "EP") {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimLeft(parts[0], "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	if err != nil {
		return -1
	}
	return n
}
