// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pyspy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Evidence gives each process's stack to its rank: by the process's number where other sources know it (byPID), else by
// the file's name (byName gives -1 for none). Stacks that nobody claims are reported as missing.
func Evidence(processes []Process, byPID map[int][]int, byName func(file string) int) (ev rca.Evidence, notes []string) {
	ranks := map[int]*Process{}
	for i := range processes {
		p := &processes[i]
		rank := -1
		if owners := byPID[p.PID]; p.PID > 0 && len(owners) == 1 {
			rank = owners[0]
		}
		if named := byName(p.File); rank < 0 || slices.Contains(byPID[p.PID], named) {
			rank = max(rank, named)
		}
		switch {
		case len(p.Main()) == 0:
		case rank < 0:
			ev.Missing = append(ev.Missing, rca.Missing{What: "file", Name: p.File, Why: fmt.Sprintf("nothing says whose stack process %d's is", p.PID)})
		case ranks[rank] != nil:
			notes = append(notes, fmt.Sprintf("%s: another stack of rank %d, left out", p.File, rank))
		default:
			ranks[rank] = p
		}
	}
	for _, r := range slices.Sorted(maps.Keys(ranks)) {
		p := ranks[r]
		stack := p.Main()
		ev.Ranks = append(ev.Ranks, rca.Rank{
			ID: r, PID: p.PID, Stack: stack, ReadBytesPerSec: -1, WriteBytesPerSec: -1, CPUCores: -1, ProxyRunDelay: -1,
		})
		ev.WorldSize = max(ev.WorldSize, r+1)
		for i := range p.Threads {
			if t := &p.Threads[i]; t.GIL && len(t.Stack) > 0 && !slices.Equal(t.Stack, stack) {
				ev.Facts = append(ev.Facts, rca.Fact{
					Rank: r, Component: "process", Kind: "gil_held", Text: fmt.Sprintf("rank %d: thread %s holds the interpreter lock in %s", r, cmp.Or(t.Name, t.ID), t.Stack[len(t.Stack)-1]),
				})
			}
		}
	}
	return ev, notes
}

// Cluster is a set of ranks with one stack (M11).
type Cluster struct {
	Ranks []int
	Stack []string // Innermost last.
}

// Clusters groups ranks by identical stacks, the largest group first.
func Clusters(ranks []rca.Rank) []Cluster {
	by := map[string]*Cluster{}
	for i := range ranks {
		r := &ranks[i]
		if len(r.Stack) == 0 {
			continue
		}
		key := strings.Join(r.Stack, "\n")
		if by[key] == nil {
			by[key] = &Cluster{Stack: r.Stack}
		}
		by[key].Ranks = append(by[key].Ranks, r.ID)
	}
	out := make([]Cluster, 0, len(by))
	for _, key := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[key].Ranks)
		out = append(out, *by[key])
	}
	slices.SortStableFunc(out, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(len(b.Ranks), len(a.Ranks)), cmp.Compare(a.Ranks[0], b.Ranks[0]))
	})
	return out
}
