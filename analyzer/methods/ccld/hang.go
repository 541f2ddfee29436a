// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ccld

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Hang is the hang branch of figure 7 on every communicator that hangs; what it finds on the one that has hung longest is the answer. Barriers
// raise no alert. ok is false when no collective hangs.
func Hang(j *record.Job) (v record.Vote, ok bool) {
	for _, s := range j.Standing() {
		if s.P2P || barrier(s.First) {
			continue
		}
		if got := decide(s); !ok || len(got.Ranks) > 0 {
			v, ok = got, true
		}
		if len(v.Ranks) > 0 {
			break
		}
	}
	return v, ok
}

func decide(s *record.Standing) record.Vote {
	v := record.Vote{Method: "ccl-d", Class: rca.Unknown, Ranks: []int{}}
	name := " on " + s.Group.Label()
	switch low, free, odd := behind(s), notHung(s), otherTypes(s); {
	case len(low) > 0:
		v.Class, v.Ranks, v.Note = rca.NotEntered, low, "H1: operation counter behind"+name
	case len(free) > 0:
		v.Class, v.Ranks, v.Note = rca.Inconsistent, free, "H2: ranks that do not hang"+name
	case len(odd) > 0:
		v.Class, v.Ranks, v.Note = rca.Inconsistent, odd, "H2: operation type sets differ"+name
	default:
		v.Note = "H3: fewest SendCount and RecvCount" + name
		if low := fewest(s); len(low) > 0 {
			v.Class, v.Ranks = rca.Fault, low
		}
	}
	return v
}

func barrier(o *rca.Op) bool {
	return o.Barrier || o.Func == "AllReduce" && o.Bytes > 0 && o.Bytes <= 4
}

// behind gives the ranks whose operation counter has not advanced to the operation that hangs: the counter of kernels where they are seen,
// else that of calls. A rank without a probing frame has no counter.
func behind(s *record.Standing) []int {
	low := slices.Clone(s.Group.Silent)
	for i := range s.Group.Members {
		m := &s.Group.Members[i]
		n := m.On.Called
		if m.Rank.Caps&rca.SeesKernels != 0 {
			n = m.Last()
		}
		if s.First.Number >= 0 && n >= 0 && n <= s.First.Number {
			low = append(low, m.Rank.ID)
		}
	}
	slices.Sort(low)
	return low
}

// notHung gives the ranks that have left the operation.
func notHung(s *record.Standing) []int {
	var out []int
	for i := range s.Group.Members {
		m := &s.Group.Members[i]
		if s.Has(m.Rank.ID) == nil && s.First.Number >= 0 && m.On.Completed > s.First.Number {
			out = append(out, m.Rank.ID)
		}
	}
	return out
}

// otherTypes gives the ranks whose operation type set (C3) is not that of most.
func otherTypes(s *record.Standing) []int {
	sets := map[string][]int{}
	most := ""
	for i := range s.Parts {
		o := s.Parts[i].Op
		k := fmt.Sprint(o.Func, "/", o.Algo, "/", o.Proto, "/", o.Datatype, "/", o.Bytes, "/", o.Root)
		sets[k] = append(sets[k], s.Parts[i].Rank.ID)
		if len(sets[k]) > len(sets[most]) || len(sets[k]) == len(sets[most]) && k < most {
			most = k
		}
	}
	var out []int
	for k, ranks := range sets {
		if k != most {
			out = append(out, ranks...)
		}
	}
	slices.Sort(out)
	return out
}

// fewest gives the rank with the fewest SendCount and RecvCount among those that can be compared: in a ring all, in a tree those of one layer,
// each tree by itself. The counts are of the kernel, as in the paper: a send counts when the kernel has made it ready, a receive when the
// kernel has consumed it.
func fewest(s *record.Standing) []int {
	type layer struct {
		tree, depth, flows int
		total              int64
	}
	counts := map[layer]map[int]int64{}
	n := s.Group.Nodes()
	for i := range s.Parts {
		p := &s.Parts[i]
		for tree := range 2 {
			l, sum := layer{tree: tree}, int64(0)
			for k := range p.Op.Flows {
				f := &p.Op.Flows[k]
				if p.Op.Algo == "tree" && treeOf(f.Channel, p.Op.Channels) != tree || p.Op.Algo != "tree" && tree > 0 {
					continue
				}
				l.flows, l.total = l.flows+1, l.total+f.Total
				if f.Send {
					sum += f.Ready
				} else {
					sum += f.Done
				}
			}
			if l.flows == 0 {
				continue
			}
			if node := s.Group.Node(p.On.CommRank); p.Op.Algo == "tree" && node >= 0 {
				l.depth = depth(node, n, tree)
			}
			if counts[l] == nil {
				counts[l] = map[int]int64{}
			}
			counts[l][p.Rank.ID] += sum
		}
	}
	var out []int
	worst := 0.0
	for _, by := range counts {
		low, high := int64(-1), int64(0)
		for _, c := range by {
			high = max(high, c)
			if low < 0 || c < low {
				low = c
			}
		}
		lacks := float64(high-low) / float64(max(1, high))
		if lacks == 0 || lacks < worst {
			continue
		}
		if lacks > worst {
			out, worst = nil, lacks
		}
		for r, c := range by {
			if c == low && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	slices.Sort(out)
	return out
}

// treeOf gives the tree that a channel belongs to: the second half of the channels is the second tree's.
func treeOf(channel, channels int) int {
	if channels > 1 && 2*channel >= channels {
		return 1
	}
	return 0
}
