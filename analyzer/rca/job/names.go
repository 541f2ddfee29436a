// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// RankName names a rank with its place: "Rank 5 (node2, GPU 1)", and with its process where the process has other ranks, too.
func (x *Index) RankName(n int32) string {
	nd := &x.Nodes[n]
	if nd.ID < 0 {
		return "an unseen member of " + x.Comms[nd.Comm].Name
	}
	s := "rank " + strconv.Itoa(nd.ID)
	if nd.Rank == nil {
		return s
	}
	if nd.Rank.Name != "" {
		s = nd.Rank.Name
	}
	var place []string
	if nd.Rank.Host != "" {
		place = append(place, nd.Rank.Host)
	}
	if slices.ContainsFunc(x.Mates[x.Nodes[n].Rank.Host], func(m int32) bool { return x.SameProcess(n, m) }) {
		place = append(place, "process "+strconv.Itoa(nd.Rank.PID))
	}
	if nd.Rank.GPU != "" {
		place = append(place, "GPU "+nd.Rank.GPU)
	}
	if len(place) > 0 {
		s += " (" + strings.Join(place, ", ") + ")"
	}
	return s
}

// SameProcess reports whether one process has both ranks, on GPUs of their own.
func (x *Index) SameProcess(a, b int32) bool {
	r, s := x.Nodes[a].Rank, x.Nodes[b].Rank
	return a != b && r.PID != 0 && r.PID == s.PID && r.Host == s.Host
}

// RankList names ranks briefly: "ranks 1, 2 and 3", cut after a few.
func (x *Index) RankList(ns []int32) string {
	const few = 8
	if len(ns) == 1 {
		return x.RankName(ns[0])
	}
	var parts []string
	what := "ranks "
	for i, n := range ns {
		if i == few {
			parts = append(parts, fmt.Sprintf("%d more", len(ns)-few))
			break
		}
		if r := x.Nodes[n].Rank; r != nil && r.Name != "" {
			what = ""
			parts = append(parts, r.Name)
			continue
		}
		parts = append(parts, strconv.Itoa(x.Nodes[n].ID))
	}
	return what + strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// OpLabel names an operation by the number that its source's own tools show: the sequence number of a Flight Recorder
// entry counts from 1 where call order counts from 0.
func OpLabel(o *rca.Op) string {
	fn := o.Func
	if fn == "" {
		fn = "operation"
	}
	n := o.Number
	if o.Unnumbered || strings.HasPrefix(fn, callPrefix) {
		return fn // The operation has no number.
	}
	if n < 0 || IsP2P(o) && o.Seq >= 0 || o.Seq == n+1 {
		n = o.Seq
	}
	if n < 0 {
		return fn
	}
	return fn + " #" + strconv.FormatInt(n, 10)
}

// IDs gives the global ranks of those nodes that have one.
func (x *Index) IDs(ns []int32) []int {
	out := make([]int, 0, min(len(ns), rca.MaxCulprits))
	for _, n := range ns {
		if len(out) < rca.MaxCulprits && x.Nodes[n].ID >= 0 {
			out = append(out, x.Nodes[n].ID)
		}
	}
	slices.Sort(out)
	return out
}

// Culprit makes a culprit of a rank with its place and without a channel.
func (x *Index) Culprit(n int32) rca.Culprit {
	c := rca.Culprit{Rank: x.Nodes[n].ID, Channel: -1}
	if r := x.Nodes[n].Rank; r != nil {
		c.Host, c.GPU, c.NIC, c.PID, c.Pod = r.Host, r.GPU, x.NIC(r), r.PID, r.Pod
		if r.Name != "" {
			c.Rank, c.Group = -1, r.Name
		}
	}
	return c
}

// NewVerdict makes a verdict that says nothing yet: unknown.
func NewVerdict(x *Index) rca.Verdict {
	return rca.Verdict{Version: rca.VerdictVersion, JobID: x.Ev.JobID, Class: rca.Unknown, Cause: rca.CauseUnknown, Culprits: []rca.Culprit{}}
}
