// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace"
)

// show lists what has a series: of kinds "comm function path size: ns bytes", of all others "function: ns".
func show(o *node.Operations, n int, ended ...trace.CommID) []string {
	var out []string
	o.Show(n, func(id trace.CommID) bool { return slices.Contains(ended, id) }, func(k node.OpKind, s node.OpSum) {
		out = append(out, fmt.Sprintf("%x %s %s %s: %d %d", uint64(k.Comm), k.Func, k.Path, node.OpSizes[k.Size].Name, s.NS, s.Bytes))
	}, func(f trace.Func, ns uint64) { out = append(out, fmt.Sprintf("%s: %d", f, ns)) })
	return out
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("shown are\n%q, want\n%q", got, want)
	}
}

func op(comm trace.CommID, f trace.Func, bytes, ns uint64) *trace.Completion {
	return &trace.Completion{CommID: comm, Func: f, Bytes: bytes, NRanks: 8, EnqueuedNS: 1000, LeftNS: 1000 + ns}
}

func TestOperations(t *testing.T) {
	var o node.Operations
	// The kernel's start counts, unless it is not believed. AllGather is counted as nccl-tests do: with the parts of all eight ranks.
	o.Add(&trace.Completion{CommID: 1, Func: trace.AllGather, Bytes: 32 << 10, NRanks: 8, EnqueuedNS: 100, EnteredNS: 600, LeftNS: 1000}, 2)
	o.Add(&trace.Completion{CommID: 1, Func: trace.AllReduce, Bytes: 32 << 10, NRanks: 8, EnqueuedNS: 100, EnteredNS: 600, LeftNS: 1000, Flags: trace.OpKernelUntrusted}, 1)
	o.Add(&trace.Completion{CommID: 1, Func: trace.Send, Bytes: 512 << 20, NRanks: 8, EnqueuedNS: 100, LeftNS: 150, Flags: trace.OpP2P}, 2)
	o.Add(&trace.Completion{CommID: 1, Func: trace.Recv, Bytes: 1, NRanks: 8, EnqueuedNS: 100, LeftNS: 150, Flags: trace.OpP2P, Recv: trace.Direction{Flows: 1}}, 2)
	// A barrier's time counts and is nobody's bandwidth; an unknown duration counts for nothing.
	barrier := op(1, trace.AllReduce, 4, 7)
	barrier.Flags = trace.OpBarrier
	o.Add(barrier, 1)
	for _, f := range []trace.OpFlags{trace.OpNoCompletion, trace.OpAbandoned, trace.OpEndUnseen} {
		unknown := op(1, trace.Broadcast, 4, 7)
		unknown.Flags = f
		o.Add(unknown, 1)
	}
	o.Add(op(1, 900, 4, 7), 1)
	expect(t, show(&o, 10), "1 AllGather network <=1MiB: 400 262144", "1 AllReduce node <=64KiB: 900 32768", "1 Send  >256MiB: 50 536870912", "1 Recv network <=64KiB: 50 1", "AllReduce: 7")
}

// TestFewOperations has more kinds than series: those with most time have them, the sum by function is whole, and no counter jumps.
func TestFewOperations(t *testing.T) {
	var o node.Operations
	for i := range trace.CommID(3) {
		o.Add(op(i+1, trace.AllReduce, 1<<20, 100*uint64(i+1)), -1)
	}
	expect(t, show(&o, 2), "2 AllReduce  <=1MiB: 200 1048576", "3 AllReduce  <=1MiB: 300 1048576", "AllReduce: 100")
	// Somewhat more time takes nobody's place; twice as much does, and counts from then on.
	o.Add(op(1, trace.AllReduce, 1<<20, 150), -1)
	expect(t, show(&o, 2), "2 AllReduce  <=1MiB: 200 1048576", "3 AllReduce  <=1MiB: 300 1048576", "AllReduce: 250")
	o.Add(op(1, trace.AllReduce, 1<<20, 300), -1)
	o.Add(op(2, trace.AllReduce, 1<<20, 5), -1)
	expect(t, show(&o, 2), "1 AllReduce  <=1MiB: 300 1048576", "3 AllReduce  <=1MiB: 300 1048576", "AllReduce: 255")
	// Without room all is in the sum.
	expect(t, show(&o, -4), "AllReduce: 255")
	o.Add(op(3, trace.AllReduce, 1<<20, 1), -1)
	expect(t, show(&o, -4), "AllReduce: 256")
	// Communicators that have ended leave.
	expect(t, show(&o, 9, 1, 3), "2 AllReduce  <=1MiB: 200 1048576", "AllReduce: 256")
}

// TestManyOperations: sizes and communicators are the program's to choose, what is kept of them is not.
func TestManyOperations(t *testing.T) {
	var o node.Operations
	for i := range trace.CommID(10_000) {
		o.Add(op(i, trace.Reduce, 1, 2), -1)
	}
	kinds, ns := 0, uint64(0)
	o.Show(1<<30, func(trace.CommID) bool { return false }, func(_ node.OpKind, s node.OpSum) { kinds++; ns += s.NS }, func(_ trace.Func, rest uint64) { ns += rest })
	if kinds != 256 || ns != 20_000 {
		t.Errorf("%d kinds, %d ns in all", kinds, ns)
	}
}
