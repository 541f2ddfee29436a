// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ccld

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
)

const (
	window  = time.Minute // Of detection (section 4.2.1).
	windows = 8           // At most, of evidence that is shorter than as many minutes.
	repeat  = 2           // Slow windows before a rank is named. The paper says that there is such a number, not which.
)

// Slow is C5 and the slow branch of figure 7, on each communicator and kind of operation by itself: rounds of other sizes take other times.
// initial is the administrator's T_base, 0 none. The result is that of the largest slowdown.
func Slow(j *record.Job, initial time.Duration) record.Vote {
	v := record.Vote{Method: "ccl-d", Class: rca.Unknown, Ranks: []int{}, Note: "R below its bound"}
	type key struct {
		group *record.Group
		fn    string
		bytes int64
	}
	by := map[key][]Round{}
	var keys []key
	for _, r := range j.Rounds {
		k := key{r.Group, r.Func, r.Bytes}
		if by[k] == nil {
			keys = append(keys, k)
		}
		by[k] = append(by[k], roundOf(r))
	}
	best, start := Result{}, false
	for _, k := range keys {
		r, atStart := slowest(by[k], initial, Options{Alpha: j.Opt.Alpha, Beta: j.Opt.Beta, Theta: j.Opt.Theta, Repeat: repeat})
		if r.Kind != Normal && r.TMax-r.TBase > best.TMax-best.TBase {
			best, start = r, atStart
		}
	}
	if best.Kind == Normal {
		return v
	}
	v.Class = map[Kind]rca.Class{Compute: rca.SlowCompute, Comm: rca.SlowComm, Mixed: rca.SlowMixed}[best.Kind]
	v.Note = fmt.Sprintf("R %.2f, P %.2f", best.R, best.P)
	if start {
		v.Note += ", slow at the start"
	}
	for _, r := range [2]int{best.Rank, best.Second} {
		if r >= 0 && !slices.Contains(v.Ranks, r) {
			v.Ranks = append(v.Ranks, r)
		}
	}
	return v
}

// slowest judges the windows of one kind of operation. atStart: the baseline is the administrator's.
func slowest(rounds []Round, initial time.Duration, o Options) (r Result, atStart bool) {
	// m is the smaller of 100 and the rounds of the first two minutes. Evidence that begins long after the job did is shorter: then the first
	// quarter of it stands for the healthy past.
	m := min(most, max(1, len(rounds)/4))
	base, _ := Baseline(rounds[:m], 0)
	if initial > 0 {
		if r = Repeated(cut(rounds[:m]), initial, o); r.Kind != Normal {
			return r, true
		}
	}
	var healthy []float64
	for _, w := range cut(rounds[:m]) {
		healthy = append(healthy, Analyze(w, base, Options{Theta: math.Inf(1)}).R)
	}
	o.Theta = Theta(healthy, o.Theta)
	return Repeated(cut(rounds[m:]), base, o), false
}

// cut divides rounds into windows of a minute, or of an eighth of what there is.
func cut(rounds []Round) [][]Round {
	if len(rounds) == 0 {
		return nil
	}
	length := min(window, (rounds[len(rounds)-1].At-rounds[0].At)/windows+1)
	var out [][]Round
	from := 0
	for i := range rounds {
		if rounds[i].At-rounds[from].At >= length {
			out = append(out, rounds[from:i])
			from = i
		}
	}
	return append(out, rounds[from:])
}

func roundOf(r *record.Round) Round {
	out := Round{Barrier: r.Barrier, At: r.Parts[0].Left}
	for _, p := range r.Parts {
		out.Ranks, out.Duration = append(out.Ranks, p.Rank), append(out.Duration, p.Stay())
	}
	out.Send = probes(r, func(p *record.Piece) (int, int) { return p.SendFlows, p.SendProbes })
	out.Recv = probes(r, func(p *record.Piece) (int, int) { return p.RecvFlows, p.RecvProbes })
	if r.Parts[0].Algo == "tree" {
		if out.Layer = layers(r.Group, out.Ranks); out.Layer == nil {
			out.Send, out.Recv = nil, nil
		}
	}
	return out
}

// probes gives what probes found of one direction at each member. Nil where a member with flows has none: its rate may be the lowest.
func probes(r *record.Round, of func(*record.Piece) (flows, probes int)) []int {
	out := make([]int, 0, len(r.Parts))
	for _, p := range r.Parts {
		flows, n := of(p)
		if flows > 0 && n == 0 {
			return nil
		}
		out = append(out, n)
	}
	return out
}
