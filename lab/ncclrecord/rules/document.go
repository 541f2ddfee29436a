// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/lab/ncclrecord/recording"
)

// Column is the recordings of one library and version of the interface.
type Column struct {
	Name       string
	Recordings []*recording.Recording
}

// Columns splits a library's recordings: those through its own interface, and those through its converters.
func Columns(name string, all []*recording.Recording) (native Column, converted []Column) {
	native.Name = name
	for _, r := range all {
		abi := r.Settings["abi"]
		if abi == "" {
			native.Recordings = append(native.Recordings, r)
			continue
		}
		converted = append(converted, Column{Name: name + " as v" + abi, Recordings: []*recording.Recording{r}})
	}
	return native, converted
}

// ABI is the version of the interface that was negotiated.
func (c Column) ABI() int {
	for _, r := range c.Recordings {
		for _, p := range r.Processes {
			if abi := p.ABI(); abi > 0 {
				return abi
			}
		}
	}
	return 0
}

const head = `# What NCCL's profiler callbacks are like

ncclrecord document wrote this report from the recordings in lab/ncclrecord/testdata. A recorder plugin wrote down every callback of the unmodified libraries from the public wheels. The host side is
real: bootstrap, transports, progress threads, plugin loader. The GPU and its kernels are played, with two channels at most,
over sockets on one machine. So orders, states and fields are NCCL's own; times and what depends on the GPU's clock are not.

The column 2.28.9-h200 is of a real GPU: two ranks of PyTorch 2.11 on one NVIDIA H200 (driver 580.159), one job of sim/gpu/calls.py that
makes every kind of call, replays a CUDA graph (on a thread of CUDA's own) and sends to itself in all-to-alls. Its GPU's clock ticks in
steps of 32 ns and was 0.34 ms ahead of the host's: a kernel's start was told as early as 0.34 ms before the GPU's own time for it.

A cell says in how many cases a rule held: "yes (n)" in all, "no (n)" in none, "–" where the version has nothing to count.
`

// Document renders the page from the recordings in a folder, VERSION.gz each.
func Document(w io.Writer, dir string, culprit int) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.gz"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no recordings in %s: %w", dir, err)
	}
	var natives, converted []Column
	for _, file := range files {
		all, err := recording.Load(file)
		if err != nil {
			return err
		}
		n, c := Columns(strings.TrimSuffix(filepath.Base(file), ".gz"), all)
		natives, converted = append(natives, n), append(converted, c...)
	}
	write(w, natives, converted, culprit)
	return nil
}

func write(w io.Writer, natives, converted []Column, culprit int) {
	fmt.Fprint(w, head)
	fmt.Fprintf(w, "\nLibraries, with the version of the interface that they use: %s.\n", libraries(natives))
	for _, g := range Groups {
		fmt.Fprintf(w, "\n## %s\n\n", g.Title)
		table(w, g.Rules, natives)
	}
	fmt.Fprint(w, "\n## Older plugins in newer libraries\n\nA plugin that exports nothing newer is served through converters inside NCCL.\n\n")
	table(w, convertedRules(), converted)
	fmt.Fprintf(w, "\n## Where a hung job stands\n\nThe fault strikes rank %d. For each rank: the oldest operation that is not over, and the state of the oldest open step\nof each of its proxy operations.\n", culprit)
	faults(w, natives, culprit)
}

func libraries(columns []Column) string {
	var names []string
	for _, c := range columns {
		names = append(names, fmt.Sprintf("%s (v%d)", c.Name, c.ABI()))
	}
	return strings.Join(names, ", ")
}

func table(w io.Writer, rules []Rule, columns []Column) {
	fmt.Fprint(w, "| rule |")
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.Name)
	}
	fmt.Fprint(w, "\n|---|", strings.Repeat("---|", len(columns)), "\n")
	for _, r := range rules {
		fmt.Fprintf(w, "| %s |", r.Sentence)
		for _, c := range columns {
			fmt.Fprintf(w, " %s |", r.Apply(c.Recordings))
		}
		fmt.Fprintln(w)
	}
}

func convertedRules() []Rule {
	names := []string{"comm-known", "comm-same-id", "group-order", "parent-call", "group-around", "sequence", "p2p-channels", "coll-channels", "proxy-all-steps", "send-path", "recv-path", "kernel-complete", "all-stopped"}
	var found []Rule
	for _, g := range Groups {
		for _, r := range g.Rules {
			if slices.Contains(names, r.Name) {
				found = append(found, r)
			}
		}
	}
	return found
}

// faults says for every fault where the ranks stand, libraries that agree on one line.
func faults(w io.Writer, columns []Column, culprit int) {
	var cases []string
	for _, c := range columns {
		for _, r := range c.Recordings {
			if !healthy(r) && !slices.Contains(cases, r.Case) {
				cases = append(cases, r.Case)
			}
		}
	}
	for _, name := range cases {
		fmt.Fprintf(w, "\n### %s\n\n| rank | stands | libraries |\n|---|---|---|\n", name)
		type line struct{ standing, libraries []string }
		var roles []string
		lines := map[string]*line{}
		for _, c := range columns {
			for _, r := range c.Recordings {
				if r.Case != name {
					continue
				}
				for _, s := range Standings(r, culprit) {
					if lines[s.Role] == nil {
						roles = append(roles, s.Role)
						lines[s.Role] = &line{}
					}
					l := lines[s.Role]
					i := slices.Index(l.standing, s.What)
					if i < 0 {
						l.standing, l.libraries = append(l.standing, s.What), append(l.libraries, c.Name)
					} else if !strings.HasSuffix(l.libraries[i], c.Name) {
						l.libraries[i] += ", " + c.Name
					}
				}
			}
		}
		slices.SortStableFunc(roles, func(a, b string) int { return order(a) - order(b) })
		for _, role := range roles {
			for i, what := range lines[role].standing {
				fmt.Fprintf(w, "| %s | %s | %s |\n", role, what, lines[role].libraries[i])
			}
		}
	}
}

func order(role string) int {
	return slices.Index([]string{"the rank itself", "the next rank", "the rank before", "the others"}, role)
}
