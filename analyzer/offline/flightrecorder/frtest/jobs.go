// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package frtest

import "fmt"

// Layout is how a job's ranks are divided: the ranks of a stage are contiguous, tensor-parallel neighbours first.
type Layout struct {
	TP, DP, PP int
	Steps      int
	Creation   int // Names of groups start here.
}

// Training is a mixture-of-experts job: tensor-parallel groups within a stage, one expert group per stage and step,
// send/recv between stages, gradients over the data-parallel groups. Every rank's program follows from its place.
func Training(l Layout) *Job {
	stage := l.TP * l.DP
	world := stage * l.PP
	j := &Job{World: world}
	add := func(desc string, ranks []int) int {
		name := "0"
		if len(j.Groups) > 0 {
			name = fmt.Sprint(l.Creation + len(j.Groups))
		}
		j.Groups = append(j.Groups, Group{Name: name, Desc: desc, Ranks: ranks})
		return len(j.Groups) - 1
	}
	every := func(n int, f func(i int) int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = f(i)
		}
		return out
	}
	add("default_pg", every(world, func(i int) int { return i }))
	tp, dp, ep, pp := map[int]int{}, map[int]int{}, map[int]int{}, map[int]int{}
	for p := range l.PP {
		for d := range l.DP {
			base := p*stage + d*l.TP
			g := add("TENSOR_MODEL_PARALLEL_GROUP", every(l.TP, func(i int) int { return base + i }))
			for t := range l.TP {
				tp[base+t] = g
			}
		}
		for t := range l.TP {
			g := add("DATA_PARALLEL_GROUP", every(l.DP, func(i int) int { return p*stage + i*l.TP + t }))
			for d := range l.DP {
				dp[p*stage+d*l.TP+t] = g
			}
		}
		g := add("EXPERT_MODEL_PARALLEL_GROUP", every(stage, func(i int) int { return p*stage + i }))
		for i := range stage {
			ep[p*stage+i] = g
		}
	}
	for i := range stage {
		g := add("PIPELINE_MODEL_PARALLEL_GROUP", every(l.PP, func(p int) int { return p*stage + i }))
		for p := range l.PP {
			pp[p*stage+i] = g
		}
	}
	j.Program = func(rank int) []Call {
		p := rank / stage
		var calls []Call
		hidden := []int64{2048, 1, 512}
		for s := range l.Steps {
			if p > 0 {
				calls = append(calls, Call{Group: pp[rank], Kind: "recv", Peer: p - 1, Input: hidden, Output: hidden})
			}
			tokens := int64(2000 + (rank*37+s*11)%97) // Uneven, as routed.
			calls = append(calls,
				Call{Group: tp[rank], Kind: "_all_gather_base", Input: []int64{256, 512}, Output: []int64{256 * int64(l.TP), 512}},
				Call{Group: ep[rank], Kind: "all_to_all", Input: []int64{2048, 512}, Output: []int64{tokens, 512}},
				Call{Group: ep[rank], Kind: "all_to_all", Input: []int64{tokens, 512}, Output: []int64{2048, 512}},
				Call{Group: tp[rank], Kind: "_reduce_scatter_base", Input: []int64{256 * int64(l.TP), 512}, Output: []int64{256, 512}})
			if p < l.PP-1 {
				calls = append(calls, Call{Group: pp[rank], Kind: "send", Peer: p + 1, Input: hidden, Output: hidden})
			}
			calls = append(calls, Call{Group: dp[rank], Kind: "all_reduce", Input: []int64{1 << 20}, Output: []int64{1 << 20}, Type: "Float"},
				Call{Kind: "sync"})
		}
		return calls
	}
	return j
}

// CallIndex finds the n-th call (from 0) of a kind in a rank's program.
func (j *Job) CallIndex(rank int, kind string, n int) int {
	for i, c := range j.Program(rank) {
		if c.Kind == kind {
			if n == 0 {
				return i
			}
			n--
		}
	}
	panic(fmt.Sprintf("rank %d makes fewer calls of %s", rank, kind))
}
