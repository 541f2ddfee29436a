// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"slices"
	"strings"
)

// job is one start of ranks and the operations that they do.
type job struct {
	name           string
	ranks, perHost int
	compute        string // capability of the played GPUs; 8.0 if empty
	env            []string
	ops            []string
	want           []string // parts of the functions that must have run, "AllReduce sum f32 tree ll"
}

var (
	collectives = []string{"allreduce", "reducescatter", "allgather", "broadcast", "reduce", "group", "broadcasts"}
	transfers   = []string{"sendrecv", "alltoall", "gather"}
	types       = []string{"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16"}
	eightBits   = []string{"f8e4m3", "f8e5m2"} // NCCL reduces them from compute capability 9.0 on
	reductions  = []string{"sum", "prod", "max", "min", "avg", "premul"}
	protocols   = []string{"LL", "LL128", "Simple"}
)

// each makes an operation of every name and size, on f32.
func each(names []string, sizes ...int) []string {
	var ops []string
	for _, size := range sizes {
		for _, name := range names {
			ops = append(ops, fmt.Sprintf("%s:f32:sum:%d", name, size))
		}
	}
	return ops
}

// arithmetic is every type with every reduction; the sizes are odd, so that lines, slices and grains are not full.
func arithmetic(types []string, names ...string) []string {
	var ops []string
	for _, name := range names {
		for _, typ := range types {
			for _, reduction := range reductions {
				ops = append(ops, fmt.Sprintf("%s:%s:%s:%d", name, typ, reduction, 8*1237))
			}
		}
	}
	return ops
}

func inPlace(names []string, size int) []string {
	var ops []string
	for _, name := range names {
		ops = append(ops, fmt.Sprintf("%s:f32:sum:%d:in", name, size))
	}
	return ops
}

// shortPlan takes some seconds for a version.
func shortPlan() []job {
	return []job{
		{name: "default/4ranks-2hosts", ranks: 4, perHost: 2, ops: slices.Concat(each(collectives, 4, 65540), each(transfers, 40004))},
		{name: "default/3ranks-3hosts", ranks: 3, perHost: 1, ops: slices.Concat(each(collectives, 1<<20), inPlace(collectives[:3], 36000))},
		{name: "default/1rank", ranks: 1, perHost: 1, ops: arithmetic([]string{"i32", "bf16"}, "allreduce")},
	}
}

// fullPlan is everything that is played.
func fullPlan() []job {
	var jobs []job
	for _, places := range [][2]int{{2, 2}, {3, 1}, {4, 2}, {5, 1}, {7, 1}, {8, 2}, {8, 4}} {
		ranks, perHost := places[0], places[1]
		ops := slices.Concat(each(collectives, 4, 1000, 65540, 1<<20+4), each(transfers, 4*ranks, 40004, 1<<20), inPlace(collectives[:3], 840000))
		jobs = append(jobs, job{name: fmt.Sprintf("default/%dranks-%dhosts", ranks, ranks/perHost), ranks: ranks, perHost: perHost, ops: ops})
	}
	jobs = append(jobs,
		job{name: "default/large", ranks: 2, perHost: 1, ops: each([]string{"allreduce", "allgather", "reducescatter", "broadcast", "sendrecv"}, 64<<20)},
		job{name: "default/large-1host", ranks: 2, perHost: 2, ops: each([]string{"allreduce", "sendrecv"}, 64<<20)})
	for _, protocol := range protocols {
		jobs = append(jobs, ringJobs(protocol)...)
		jobs = append(jobs, treeJobs(protocol)...)
	}
	jobs = append(jobs,
		job{name: "default/1rank", ranks: 1, perHost: 1, ops: arithmetic(types, "allreduce", "reducescatter", "reduce")},
		job{name: "default/fp8", ranks: 4, perHost: 2, compute: "9.0", ops: arithmetic(eightBits, "allreduce", "reducescatter", "reduce")})
	return append(jobs, patJobs()...)
}

func ringJobs(protocol string) []job {
	env := []string{"NCCL_ALGO=Ring", "NCCL_PROTO=" + protocol}
	proto := strings.ToLower(protocol)
	want := []string{}
	for _, function := range []string{"AllReduce sum f32", "ReduceScatter sum f32", "Reduce sum f32", "AllGather sum u8"} {
		want = append(want, function+" ring "+proto)
	}
	return []job{
		{name: "ring/" + protocol + "/sizes", ranks: 4, perHost: 2, env: env, ops: each(collectives, 4, 5000, 200000, 3<<20+4), want: want},
		{name: "ring/" + protocol + "/types", ranks: 3, perHost: 1, env: env, ops: arithmetic(types, "allreduce", "reducescatter", "reduce")},
	}
}

func treeJobs(protocol string) []job {
	env := []string{"NCCL_ALGO=Tree", "NCCL_PROTO=" + protocol}
	want := []string{"AllReduce sum f32 tree " + strings.ToLower(protocol)}
	return []job{
		{name: "tree/" + protocol + "/sizes", ranks: 6, perHost: 2, env: env, ops: each([]string{"allreduce", "group"}, 4, 5000, 200000, 3<<20+4), want: want},
		{name: "tree/" + protocol + "/types", ranks: 4, perHost: 1, env: env, ops: arithmetic(types, "allreduce")},
	}
}

func patJobs() []job {
	var jobs []job
	env := []string{"NCCL_ALGO=allgather:PAT;reducescatter:PAT", "NCCL_PROTO=Simple"}
	names := []string{"allgather", "reducescatter"}
	want := []string{"AllGather sum u8 pat simple", "ReduceScatter sum f32 pat simple"}
	for _, ranks := range []int{2, 3, 5, 6, 8, 9} {
		ops := slices.Concat(each(names, 4*ranks, 5000, 200000, 2<<20), inPlace(names, 4620*ranks))
		jobs = append(jobs, job{name: fmt.Sprintf("pat/%dranks", ranks), ranks: ranks, perHost: 1, env: env, ops: ops, want: want})
	}
	return jobs
}
