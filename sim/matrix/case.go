// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package matrix runs faults on real NCCL libraries through the whole way, from the library's callbacks to the page, and
// judges what was said.
package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/sim/stack"
)

// Mode is how a job is watched and how its ranks are connected.
type Mode string

// Modes.
const (
	// Net has the plugin alone, and every transfer goes over NCCL's network transport.
	Net Mode = "net"
	// SHM has the plugin and the hooks, and ranks of one host share memory.
	SHM Mode = "shm"
	// Hooks has the preloaded hooks alone, as beside a foreign profiler.
	Hooks Mode = "hooks"
	// Chain has the plugin with a second plugin behind it.
	Chain Mode = "chain"
	// Multi is Net with one process a host, which drives several GPUs.
	Multi Mode = "multi"
	// JAX is Multi with a communicator for each group of GPUs, each made by itself: one inside each process, and one of the GPUs of
	// the same number in all processes. None has all ranks. The program calls a step ahead of its GPUs.
	JAX Mode = "jax"
	// Apart is JAX without the communicators inside a process, and not ahead: no communicator has two GPUs of a process.
	Apart Mode = "apart"
)

// several says whether a process drives several GPUs.
func (m Mode) several() bool { return m == Multi || m == JAX || m == Apart }

// Described is a mode with what it means.
type Described struct {
	Mode  Mode
	About string
}

// Modes are all of them.
var Modes = []Described{
	{Net, "the plugin alone; every transfer over NET"},
	{SHM, "the plugin and the preload hooks; shared memory inside a host, NET between hosts"},
	{Hooks, "the preload hooks alone; NET"},
	{Chain, "the plugin with a second plugin behind it; NET"},
	{Multi, "the plugin alone in one process a host, with four ranks each; NET"},
	{JAX, "as multi; communicators made one by one inside a process and across them, none of all ranks; called a step ahead"},
	{Apart, "as jax, not ahead, without the communicators inside a process"},
}

// Faults are the columns of the matrix, by name.
var Faults = []string{
	"link-stall", "link-slow", "gpu-freeze", "gpu-slow", "kernel-stall", "proxy-delay", "op-not-entered", "other-op",
	"broadcast-not-entered", "init-hang", "split-hang", "stop", "kill", "checkpoint", "first-step", "none",
}

// Case is one cell of the matrix.
type Case struct {
	Version string `json:"version"`
	Mode    Mode   `json:"mode"`
	Fault   string `json:"fault"` // Without its argument.
}

// Name identifies the case.
func (c Case) Name() string { return fmt.Sprintf("%s/%s/%s", c.Mode, c.Version, c.Fault) }

// The short list and that of continuous integration: what each version has to show in little time. Together they hold one
// fault of each kind of evidence, a benign pause and a healthy run.
var (
	shortList = []cell{{Net, "link-stall"}, {SHM, "op-not-entered"}, {Multi, "gpu-freeze"}, {Apart, "op-not-entered"}, {Net, "none"}}
	ciList    = []cell{
		{Net, "link-stall"},
		{SHM, "op-not-entered"},
		{Net, "broadcast-not-entered"},
		{Net, "gpu-freeze"},
		{Chain, "kill"},
		{Net, "none"},
		{Multi, "kernel-stall"},
		{Multi, "stop"},
		{JAX, "op-not-entered"},
		{Apart, "gpu-freeze"},
	}
)

type cell struct {
	mode  Mode
	fault string
}

// Lists are the names of lists that ByList knows.
var Lists = []string{"all", "ci", "short"}

// ByList gives the cases of a list for the versions, mode by mode and fault by fault.
func ByList(list string, versions []string) ([]Case, error) {
	var cells []cell
	switch list {
	case "all":
		for _, m := range Modes {
			for _, f := range Faults {
				cells = append(cells, cell{m.Mode, f})
			}
		}
	case "ci":
		cells = ciList
	case "short":
		cells = shortList
	default:
		return nil, fmt.Errorf("no list %q; known: %s", list, strings.Join(Lists, ", "))
	}
	var out []Case
	for _, c := range cells {
		for _, v := range versions {
			out = append(out, Case{Version: v, Mode: c.mode, Fault: c.fault})
		}
	}
	return out, nil
}

// Only keeps the cases of some modes and faults; an empty list keeps all.
func Only(cases []Case, modes, faults []string) ([]Case, error) {
	for _, m := range modes {
		if !slices.ContainsFunc(Modes, func(d Described) bool { return string(d.Mode) == m }) {
			return nil, fmt.Errorf("no mode %q; known: net, shm, hooks, chain, multi, jax, apart", m)
		}
	}
	for _, f := range faults {
		if !slices.Contains(Faults, f) {
			return nil, fmt.Errorf("no fault %q; known: %s", f, strings.Join(Faults, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(cases), func(c Case) bool {
		return len(modes) > 0 && !slices.Contains(modes, string(c.Mode)) || len(faults) > 0 && !slices.Contains(faults, c.Fault)
	}), nil
}

// Duty is what must come of a case.
type Duty int

// Duties.
const (
	// MustName: the page names the rank, with a right class and cause.
	MustName Duty = iota
	// MayBeUnknown: the hang is noticed; the source cannot always show whose it is. A name must be right.
	MayBeUnknown
	// MayBeSilent: the source cannot always show that anything is wrong. A name must be right.
	MayBeSilent
	// Nobody: nobody is paged.
	Nobody
)

// Sight is what a job's sources can show.
type Sight struct {
	Plugin  bool // Operations' ends, proxy steps.
	Kernels bool // When kernels start and stop.
	Calls   bool // Calls that make communicators.
	Inside  bool // Ranks of one host are connected by what the plugin's proxy steps do not see.
}

// SightOf gives what the sources of a case can show.
func SightOf(c Case) Sight {
	// 2.29 and 2.30 report no kernel after a grouped Broadcast, and the program groups some inside a host.
	last := "2.31"
	if c.Mode == SHM {
		last = "2.29"
	}
	return Sight{
		Plugin:  c.Mode != Hooks,
		Kernels: c.Mode != Hooks && nccl.CompareVersions(c.Version, "2.28.3") >= 0 && nccl.CompareVersions(c.Version, last) < 0,
		Calls:   c.Mode == SHM || c.Mode == Hooks,
		Inside:  c.Mode == SHM,
	}
}

// shown adds to what is right of a fault how the sources may show it.
func (s Sight) shown(f stack.Fault) stack.Fault {
	if !s.Plugin && (f.Kind() == "gpu-freeze" || f.Kind() == "kernel-stall") {
		// The hooks see calls alone: a rank whose GPU does not come back makes no further call.
		f.Classes = append(slices.Clone(f.Classes), rca.NotEntered)
		f.Causes = append(slices.Clone(f.Causes), rca.CauseNotCalled)
	}
	return f
}

// Duty gives what must come of a fault. What the sources cannot show is stated here, with its reason, and nowhere else.
func (s Sight) Duty(f stack.Fault) Duty {
	if !f.Pages() {
		return Nobody
	}
	switch f.Kind() {
	case "init-hang":
		// NCCL loads a plugin when the ranks have met: while one stays away there is no plugin, and no trace file.
		if !s.Calls {
			return MayBeSilent
		}
	case "split-hang":
		// Nothing has been launched yet, as in a job that still loads and compiles, and the plugin sees no split before its end.
		if !s.Calls {
			return MayBeSilent
		}
	case "link-stall":
		// The hooks see calls, and everybody has made them.
		if !s.Plugin {
			return MayBeUnknown
		}
	case "gpu-freeze":
		// The GPU may stand in a kernel that exchanges data with ranks of its host alone: both sides look alike.
		if !s.Plugin || s.Inside {
			return MayBeUnknown
		}
	case "kernel-stall":
		if !s.Plugin || s.Inside && !s.Kernels {
			return MayBeUnknown
		}
	case "link-slow", "gpu-slow", "proxy-delay":
		// The time inside an operation is not seen by its calls.
		if !s.Plugin {
			return MayBeSilent
		}
	}
	return MustName
}
