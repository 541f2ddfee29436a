// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/culprit-project/culprit/trace"
)

// OpKind is what operations have in common whose time and bytes are summed up together.
type OpKind struct {
	Comm  trace.CommID
	Func  trace.Func
	Algo  trace.Algo
	Proto trace.Proto
	Path  OpPath
	Size  int // Index into OpSizes.
}

// OpPath says which links an operation goes over.
type OpPath uint8

// Paths. An operation of a communicator on several nodes goes over the network, also where a rank passes on to a neighbour of its own node.
const (
	PathUnknown OpPath = iota
	PathNode           // NVLink, PCIe or shared memory.
	PathNetwork
)

func (p OpPath) String() string { return [...]string{"", "node", "network"}[p] }

// OpSizes are the size buckets of operations: the largest payload of each in bytes, and its name. The last has no limit.
var OpSizes = []struct {
	Most uint64
	Name string
}{
	{64 << 10, "<=64KiB"}, {1 << 20, "<=1MiB"}, {16 << 20, "<=16MiB"}, {256 << 20, "<=256MiB"}, {^uint64(0), ">256MiB"},
}

// mostOpKinds bounds the kinds of one process: sizes and communicators are the program's to choose.
const mostOpKinds = 256

// promote is how many times the time of the least shown kind another one has to take for its place: series do not come and go.
const promote = 2

// OpSum sums up operations of one kind. Bytes are as nccl-tests count them.
type OpSum struct{ NS, Bytes uint64 }

func (s *OpSum) add(t OpSum) {
	s.NS += t.NS
	s.Bytes += t.Bytes
}

// opState is a kind's sum. A kind that is not shown gets a share of the rest; its own series, once it has one, counts from then on.
type opState struct {
	total, own, pending OpSum
	shown               bool
}

// Operations sum up a process's finished operations by kind. The zero value is ready. Its methods may be called concurrently.
type Operations struct {
	mu    sync.Mutex
	kinds map[OpKind]*opState
	rest  [trace.NumFunc]uint64 // Nanoseconds of kinds that had no series then, and of barriers.
}

// Add takes in an operation that has ended. Those whose duration is unknown do not count.
func (o *Operations) Add(c *trace.Completion, nodes int32) {
	const unknown = trace.OpAbandoned | trace.OpNoCompletion | trace.OpEndUnseen
	begin := c.EnqueuedNS
	if c.EnteredNS > begin && c.Flags&trace.OpKernelUntrusted == 0 {
		begin = c.EnteredNS // A program enqueues an operation long before its GPU comes to it.
	}
	if c.Flags&unknown != 0 || begin == 0 || c.LeftNS <= begin || int(c.Func) >= len(o.rest) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Flags&trace.OpBarrier != 0 {
		o.rest[c.Func] += c.LeftNS - begin
		return
	}
	sum := OpSum{NS: c.LeftNS - begin, Bytes: wholeBytes(c)}
	kind := OpKind{Comm: c.CommID, Func: c.Func, Algo: c.Algo, Proto: c.Proto, Path: pathOf(c, nodes), Size: sizeOf(sum.Bytes)}
	state := o.kinds[kind]
	if state == nil {
		if len(o.kinds) >= mostOpKinds {
			o.rest[c.Func] += sum.NS
			return
		}
		if o.kinds == nil {
			o.kinds = map[OpKind]*opState{}
		}
		state = &opState{}
		o.kinds[kind] = state
	}
	state.total.add(sum)
	state.pending.add(sum)
}

// Show gives the sums of the n kinds that took most time, in a stable order, and by function the time of all others. Kinds of communicators
// that have ended leave.
func (o *Operations) Show(n int, ended func(trace.CommID) bool, kind func(OpKind, OpSum), rest func(trace.Func, uint64)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, s := range o.kinds {
		if ended(k.Comm) {
			o.rest[k.Func] += s.pending.NS
			delete(o.kinds, k)
		}
	}
	order := slices.SortedFunc(maps.Keys(o.kinds), func(x, y OpKind) int {
		return cmp.Or(cmp.Compare(o.kinds[y].weight(), o.kinds[x].weight()), compareKinds(x, y))
	})
	for i, k := range order {
		s := o.kinds[k]
		if s.shown = i < n; s.shown {
			s.own.add(s.pending)
		} else {
			o.rest[k.Func] += s.pending.NS
		}
		s.pending = OpSum{}
	}
	order = order[:min(max(n, 0), len(order))]
	slices.SortFunc(order, compareKinds)
	for _, k := range order {
		kind(k, o.kinds[k].own)
	}
	for f, ns := range o.rest {
		if ns > 0 {
			rest(trace.Func(f), ns)
		}
	}
}

func (s *opState) weight() float64 {
	if s.shown {
		return promote * float64(s.total.NS)
	}
	return float64(s.total.NS)
}

func compareKinds(x, y OpKind) int {
	return cmp.Or(
		cmp.Compare(x.Comm, y.Comm), cmp.Compare(x.Func, y.Func), cmp.Compare(x.Algo, y.Algo), cmp.Compare(x.Proto, y.Proto),
		cmp.Compare(x.Path, y.Path), cmp.Compare(x.Size, y.Size),
	)
}

// wholeBytes gives an operation's bytes as nccl-tests count them: of what each rank gives or gets a part of, those of all ranks.
func wholeBytes(c *trace.Completion) uint64 {
	switch c.Func {
	case trace.AllGather, trace.ReduceScatter, trace.AllToAll, trace.Gather, trace.Scatter:
		return c.Bytes * uint64(max(c.NRanks, 1))
	}
	return c.Bytes
}

func sizeOf(bytes uint64) int {
	for i := range OpSizes {
		if bytes <= OpSizes[i].Most {
			return i
		}
	}
	return len(OpSizes) - 1
}

// pathOf tells an operation's path by its flows, and without any by the nodes of its communicator.
func pathOf(c *trace.Completion, nodes int32) OpPath {
	switch {
	case c.Send.Flows > 0 || c.Recv.Flows > 0, nodes > 1 && c.Flags&trace.OpP2P == 0:
		return PathNetwork
	case nodes == 1:
		return PathNode
	}
	return PathUnknown
}
