// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// joinProcesses makes one root of those ranks of a process that has died or is stopped: whatever each rank was doing, it is one event,
// and has one class, that of the first.
func (w *waitFor) joinProcesses(rs []root) []root {
	var out []root
	for _, r := range rs {
		i := slices.IndexFunc(out, func(o root) bool { return w.sameEnd(&o, &r) })
		if i < 0 {
			out = append(out, r)
			continue
		}
		first := &out[i]
		first.nodes = append(slices.Clone(first.nodes), r.nodes...)
		first.vertex = append(slices.Clone(first.vertex), r.vertex...)
		slices.Sort(first.nodes)
	}
	return out
}

// sameEnd says that two roots are ranks of one process and that the same has become of it.
func (w *waitFor) sameEnd(a, b *root) bool {
	return a.kind == rootDead && b.kind == rootDead && a.leaf.cause == b.leaf.cause && w.sameProcess(a.nodes[0], b.nodes[0])
}

func (w *waitFor) sameProcess(a, b int32) bool {
	r, s := w.Nodes[a].Rank, w.Nodes[b].Rank
	return r.PID != 0 && r.PID == s.PID && r.Host == s.Host
}

// endsOf names ranks that died or are stopped, and says what became of them.
func (w *waitFor) endsOf(r *root) (who, note string) {
	who, note = w.RankList(r.nodes), r.leaf.note
	switch others := r.nodes[1:]; {
	case len(others) == 0:
		return who, note
	case slices.ContainsFunc(others, func(n int32) bool { return !w.sameProcess(r.nodes[0], n) }):
		return who, words.OfSeveral(note)
	}
	first := w.Nodes[r.nodes[0]].Rank
	return fmt.Sprintf(words.RanksOfProcess, who, first.Host, first.PID), words.OfProcess(note)
}
