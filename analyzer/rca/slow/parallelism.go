// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca/pulse"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// served is how many communicators of a size serve one kind of parallelism.
type served struct {
	kind  pulse.Parallelism
	size  int
	comms int
}

// parallelismEvidence says what communicators without names serve, by what they carry in an iteration (Pulse P8, figure 5): NCCL names
// none unless the framework does, and a verdict then speaks of hashes. Empty where all have names, or nothing was seen of them.
func (a *analysis) parallelismEvidence() string {
	var all []served
	for ci, t := range a.traffic() {
		kind := pulse.Infer(t)
		if kind == pulse.None {
			continue
		}
		s := served{kind, a.Comms[ci].Size, 1}
		if i := slices.IndexFunc(all, func(o served) bool { return o.kind == s.kind && o.size == s.size }); i >= 0 {
			all[i].comms++
		} else {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(x, y served) int { return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.size, y.size)) })
	parts := make([]string, 0, len(all))
	for _, s := range all {
		parts = append(parts, fmt.Sprintf(words.ServedBy, s.kind, s.comms, words.Plural(s.size, "rank")))
	}
	return fmt.Sprintf(words.Parallelism, strings.Join(parts, ", "))
}

// traffic gives what each communicator without a name carries in an iteration: collectives as one of its members saw them, sends of all.
func (a *analysis) traffic() map[int32]pulse.Traffic {
	if a.now.iters < 1 {
		return nil
	}
	type pair struct{ from, to int32 }
	out, pairs := map[int32]pulse.Traffic{}, map[int32]map[pair]bool{}
	for n, list := range a.now.ranks {
		for _, i := range list {
			s := &a.now.segs[i]
			ci, ok := s.in()
			if !ok || s.iter == noIteration || s.restored || a.Comms[ci].Named || a.Comms[ci].Size < 2 {
				continue
			}
			t := out[ci]
			t.Size = a.Comms[ci].Size
			switch me := a.Comms[ci].Find(int32(n)); { // Far fewer than 2^31 ranks.
			case me == nil:
				continue
			case s.dir > 0:
				t.P2P++
				t.P2PBytes += s.bytes
				if to := a.Comms[ci].Find(a.NodeOf(s.peer)); to != nil {
					if pairs[ci] == nil {
						pairs[ci] = map[pair]bool{}
					}
					pairs[ci][pair{me.CommRank, to.CommRank}] = true
					t.Around = t.Around || int(me.CommRank) == t.Size-1 && to.CommRank == 0
				}
			case s.dir == 0 && me.CommRank == 0:
				t.Collectives++
				t.CollectiveBytes += s.bytes
			}
			out[ci] = t
		}
	}
	for ci, t := range out {
		t.Collectives, t.CollectiveBytes = t.Collectives/a.now.iters, t.CollectiveBytes/int64(a.now.iters)
		t.P2P, t.P2PBytes, t.Pairs = t.P2P/a.now.iters, t.P2PBytes/int64(a.now.iters), len(pairs[ci])
		out[ci] = t
	}
	return out
}
