// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package job runs small jobs on a NCCL library under the recorder.
package job

import (
	"slices"
	"strings"
	"time"
)

// Fault is what goes wrong in a job.
type Fault string

// The faults. They strike before an operation.
const (
	None       Fault = "none"
	Stall      Fault = "stall"       // Nothing more leaves on the rank's data connections.
	Freeze     Fault = "freeze"      // Its GPU's blocks stand still.
	Hold       Fault = "hold"        // Its kernels do not start.
	StopRank   Fault = "stop"        // SIGSTOP.
	NotEntered Fault = "not-entered" // It does not call the operation.
	Abort      Fault = "abort"       // Its GPU freezes, and then every rank calls ncclCommAbort.
)

// What ncclrun calls them.
var kinds = map[Fault]string{
	Stall: "link-stall", Freeze: "gpu-freeze", Hold: "kernel-stall", StopRank: "stop", NotEntered: "op-not-entered", Abort: "gpu-freeze",
}

// Culprit is the rank that a fault strikes.
const Culprit = 1

// Case is one job.
type Case struct {
	Name   string
	Ranks  int
	Host   int    // Ranks of a host; those share its memory. 0: 1.
	Ops    string // Done one after the other on all ranks: NAME:BYTES.
	Rounds int    // How often all of them; 0: once. With a fault the job goes on until it is ended.
	Fault  Fault  // "": none.
	ABI    int    // The newest that the recorder exports; 0: all.
	Env    string // Further settings, as the shell has them.
	// The job may do its operations and then not end.
	MayHang bool
}

const (
	simple = "NCCL_PROTO=Simple "
	ring   = "NCCL_ALGO=Ring " + simple
	tree   = "NCCL_ALGO=allreduce:Tree " + simple

	allOps = "allreduce:1024 allreduce:1200000 allreduce:4 reducescatter:30000 allgather:30000 broadcast:60000 reduce:60000 sendrecv:300000"
)

// Cases are the jobs: healthy ones, then faulty ones.
var Cases = []Case{
	{Name: "ring", Ranks: 3, Ops: allOps, Rounds: 2, Env: ring},
	{Name: "ring-ll", Ranks: 2, Ops: "allreduce:1024 allreduce:100000 reducescatter:20000 allgather:20000", Rounds: 2, Env: "NCCL_ALGO=Ring NCCL_PROTO=LL"},
	{Name: "tree", Ranks: 4, Ops: "allreduce:1024 allreduce:600000", Rounds: 2, Env: tree},
	{Name: "default", Ranks: 3, Ops: "allreduce:1024 allreduce:1200000 allgather:30000 reducescatter:30000 sendrecv:300000"},
	{Name: "broadcast", Ranks: 2, Ops: "broadcast:60000", Rounds: 3, Env: ring},
	{Name: "broadcast-shown", Ranks: 2, Ops: "broadcast:60000", Rounds: 3, Env: ring + "NCCL_ALLGATHERV_ENABLE=0"},
	{Name: "group", Ranks: 2, Ops: "group:1024 group:65536", Rounds: 4, Env: ring},
	{Name: "group-broadcast", Ranks: 3, Ops: "groupbroadcast:20000 allreduce:1024", Rounds: 4, Env: ring, MayHang: true},
	{Name: "group-broadcast-shown", Ranks: 3, Ops: "groupbroadcast:20000 allreduce:1024", Rounds: 2, Env: ring + "NCCL_ALLGATHERV_ENABLE=0"},
	{Name: "alltoall", Ranks: 3, Ops: "alltoall:30000 allreduce:1024", Rounds: 4, Env: ring},
	{Name: "split", Ranks: 4, Ops: "allreduce:1024 split allreduce:40000 world allreduce:1024", Env: ring},
	{Name: "split-shared", Ranks: 4, Ops: "allreduce:1024 split allreduce:40000 world allreduce:1024", Env: ring + "NCCL_COMM_SPLIT_SHARE_RESOURCES=1"},
	{Name: "one-rank", Ranks: 1, Ops: "allreduce:1024 allgather:1024", Env: ring},
	{Name: "shm", Ranks: 4, Host: 2, Ops: "allreduce:1024 allreduce:600000 sendrecv:200000", Rounds: 2, Env: ring},
	{Name: "no-kernel-events", Ranks: 2, Ops: "allreduce:1024 allreduce:300000", Env: ring + "RECORDER_MASK=0xff9f"},
	{Name: "proxy-ctrl", Ranks: 2, Ops: "allreduce:1024 allreduce:100000", Env: ring + "RECORDER_MASK=0xffff"},
	{Name: "as-v4", Ranks: 2, Ops: allOps, ABI: 4, Env: ring},
	{Name: "as-v5", Ranks: 2, Ops: allOps, ABI: 5, Env: ring},
	{Name: "as-v6", Ranks: 2, Ops: allOps, ABI: 6, Env: ring},

	{Name: "ring-stall", Ranks: 3, Ops: loop, Fault: Stall, Env: ring},
	{Name: "ring-freeze", Ranks: 3, Ops: loop, Fault: Freeze, Env: ring},
	{Name: "ring-hold", Ranks: 3, Ops: loop, Fault: Hold, Env: ring},
	{Name: "ring-stop", Ranks: 3, Ops: loop, Fault: StopRank, Env: ring},
	{Name: "ring-not-entered", Ranks: 3, Ops: loop, Fault: NotEntered, Env: ring},
	{Name: "ring-abort", Ranks: 3, Ops: loop, Fault: Abort, Env: ring},
	{Name: "sendrecv-stall", Ranks: 3, Ops: "sendrecv:400000", Fault: Stall, Env: ring},
	{Name: "broadcast-not-entered", Ranks: 3, Ops: "allreduce:400000 broadcast:400000", Fault: NotEntered, Env: ring},
	{Name: "shm-stall", Ranks: 4, Host: 2, Ops: loop, Fault: Stall, Env: ring},
}

const loop = "allreduce:2000000"

// Order is the place of a case among all.
func Order(name string) int {
	return slices.IndexFunc(Cases, func(c Case) bool { return c.Name == name })
}

// Suits says whether a case can be recorded on a library: an older plugin is only one where there is a newer interface,
// and Broadcasts can be shown only where they are hidden.
func (c Case) Suits(nccl string) bool {
	shown := strings.HasSuffix(c.Name, "-shown") && NativeABI(nccl) < 6
	return c.ABI < NativeABI(nccl) && !shown
}

// NativeABI is the newest version of the interface that an NCCL has, 0 for one that is not known.
func NativeABI(nccl string) int {
	for minor, abi := range map[string]int{"2.24": 2, "2.25": 2, "2.26": 3, "2.27": 4, "2.28": 5, "2.29": 6, "2.30": 6, "2.31": 7, "2.32": 7} {
		if strings.HasPrefix(nccl, minor+".") {
			return abi
		}
	}
	return 0
}

const (
	// After the fault the job stands this long, so that what it does while it hangs is recorded too.
	hanging = 1500 * time.Millisecond
	// A job that does not get on is a failure, and so is one that does not end after its last operation.
	patience = 90 * time.Second
	ending   = 25 * time.Second
)
