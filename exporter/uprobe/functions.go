// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import "github.com/culprit-project/culprit/trace"

// role is what a function of NCCL's API does to what is followed.
type role uint8

const (
	operates   role = iota // Calls an operation.
	groupStart             // Begins a group, or nests one.
	groupEnd               // Ends a group; the outermost one launches it.
	blocks                 // Makes or ends a communicator, and can block.
)

// function is one of NCCL's API, with the places of its arguments: 1 is the first, 0 none. The signatures are those of nccl.h.
type function struct {
	name string
	role role
	op   trace.Func

	comm, count, datatype, peer, stream, nranks, id, ids uint8

	idByValue bool // The unique id itself is the argument.
	ends      bool // The communicator is no more when it returns.
	makes     bool // A communicator is made from the one that it is called on.
}

// functions are probed. A record's kind is the index in this list.
var functions = []function{
	{name: "ncclAllReduce", op: trace.AllReduce, count: 3, datatype: 4, comm: 6, stream: 7},
	{name: "ncclReduce", op: trace.Reduce, count: 3, datatype: 4, peer: 6, comm: 7, stream: 8},
	{name: "ncclBroadcast", op: trace.Broadcast, count: 3, datatype: 4, peer: 5, comm: 6, stream: 7},
	{name: "ncclBcast", op: trace.Broadcast, count: 2, datatype: 3, peer: 4, comm: 5, stream: 6},
	{name: "ncclReduceScatter", op: trace.ReduceScatter, count: 3, datatype: 4, comm: 6, stream: 7},
	{name: "ncclAllGather", op: trace.AllGather, count: 3, datatype: 4, comm: 5, stream: 6},
	{name: "ncclAlltoAll", op: trace.AllToAll, count: 3, datatype: 4, comm: 5, stream: 6},
	{name: "ncclAllToAll", op: trace.AllToAll, count: 3, datatype: 4, comm: 5, stream: 6}, // RCCL's spelling.
	{name: "ncclGather", op: trace.Gather, count: 3, datatype: 4, peer: 5, comm: 6, stream: 7},
	{name: "ncclScatter", op: trace.Scatter, count: 3, datatype: 4, peer: 5, comm: 6, stream: 7},
	{name: "ncclSend", op: trace.Send, count: 2, datatype: 3, peer: 4, comm: 5, stream: 6},
	{name: "ncclRecv", op: trace.Recv, count: 2, datatype: 3, peer: 4, comm: 5, stream: 6},
	{name: "ncclGroupStart", role: groupStart},
	{name: "ncclGroupEnd", role: groupEnd},
	{name: "ncclGroupSimulateEnd", role: groupEnd},
	{name: "ncclCommInitRank", role: blocks, nranks: 2, id: 3, idByValue: true},
	{name: "ncclCommInitRankConfig", role: blocks, nranks: 2, id: 3, idByValue: true},
	{name: "ncclCommInitRankScalable", role: blocks, nranks: 2, id: 5, ids: 4},
	{name: "ncclCommInitAll", role: blocks},
	{name: "ncclCommSplit", role: blocks, comm: 1, makes: true},
	{name: "ncclCommShrink", role: blocks, comm: 1, makes: true},
	{name: "ncclCommGrow", role: blocks, comm: 1, makes: true},
	{name: "ncclCommFinalize", role: blocks, comm: 1},
	{name: "ncclCommDestroy", role: blocks, comm: 1, ends: true},
	{name: "ncclCommAbort", role: blocks, comm: 1, ends: true},
}

// cookie tells the kernel's half what lies in which argument; the layout is that of enum place in bpf/calls.bpf.c.
func (f *function) cookie(kind int) uint64 {
	c := uint64(kind) | uint64(f.comm)<<8 | uint64(f.count)<<12 | uint64(f.datatype)<<16 | uint64(f.peer)<<20 |
		uint64(f.stream)<<24 | uint64(f.nranks)<<28 | uint64(f.id)<<32 | uint64(f.ids)<<36
	if f.idByValue {
		c |= 1 << 40
	}
	return c
}

// counted are the functions that NCCL counts per communicator, in the order of its enum ncclFunc_t.
var counted = [...]trace.Func{trace.Broadcast, trace.Reduce, trace.AllGather, trace.ReduceScatter, trace.AllReduce}

// isCounted tells whether NCCL counts a function.
func isCounted(f trace.Func) bool {
	for _, c := range counted {
		if c == f {
			return true
		}
	}
	return false
}

// datatypes are ncclDataType_t, and the bytes of one element.
var datatypes = []struct {
	name  string
	bytes uint16
}{
	{"ncclInt8", 1},
	{"ncclUint8", 1},
	{"ncclInt32", 4},
	{"ncclUint32", 4},
	{"ncclInt64", 8},
	{"ncclUint64", 8},
	{"ncclFloat16", 2},
	{"ncclFloat32", 4},
	{"ncclFloat64", 8},
	{"ncclBfloat16", 2},
	{"ncclFloat8e4m3", 1},
	{"ncclFloat8e5m2", 1},
}
