// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/iteration"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// account sums up what a rank has finished, as the exporter's sampler does from the trace file.
type account struct {
	totals     node.Totals
	ops        *node.Operations
	probes     *node.Probes
	shown      node.Totals // What was exported last: counters never fall.
	detector   *iteration.Detector
	iterations prometheus.Histogram
	lost       uint64
}

func newAccount() *account {
	return &account{
		ops:      &node.Operations{},
		probes:   &node.Probes{},
		detector: iteration.New(),
		iterations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "culprit_nccl_iteration_seconds", Help: "Duration of the training iterations found in the operation sequence.",
			Buckets: []float64{0.1, 0.5, 2, 10, 60}, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}),
	}
}

// finished takes in an operation that has ended.
func (a *account) finished(c *trace.Completion) {
	f := &a.totals.Func[c.Func]
	f.Ops++
	f.Bytes += c.Bytes
	a.totals.AddKernel(c)
	a.ops.Add(c, -1)
	a.probes.Add(c)
	addDirection(&a.totals.Send, &c.Send)
	addDirection(&a.totals.Recv, &c.Recv)
	d, ok := a.detector.Observe(iteration.Op{
		Comm: uint64(c.CommIndex)<<32 | uint64(c.CommGeneration), Func: uint16(c.Func), Peer: c.Peer, Bytes: c.Bytes,
		EndNS: c.LeftNS, Barrier: c.Flags&trace.OpBarrier != 0,
	})
	if ok {
		a.iterations.Observe(d.Seconds())
	}
}

func addDirection(t *node.DirectionTotals, d *trace.Direction) {
	steps := uint64(d.Steps)
	t.Posted += steps
	t.Ready += steps
	t.Transmitted += steps
	t.Done += steps
	for i, w := range d.WaitNS {
		t.WaitNS[i] += w
	}
	t.ActiveNS += d.ActiveNS
	t.Bytes += d.Bytes
}

// process is what the exporter's collector reads of a rank.
func (a *account) process(p *nodeapi.Process) *node.Process {
	totals := a.totals
	for i := range p.Flows {
		f := &p.Flows[i]
		if f.IsSend {
			addFlow(&totals.Send, f)
		} else {
			addFlow(&totals.Recv, f)
		}
	}
	keepRising(&totals.Send, &a.shown.Send)
	keepRising(&totals.Recv, &a.shown.Recv)
	a.shown = totals
	out := &node.Process{
		JobID: p.JobID, Rank: p.Rank, Host: p.Host, GPU: p.GPU, Snap: p.Snapshot, Totals: totals, Ops: a.ops, Probes: a.probes,
		Overrun: a.lost, Iterations: a.iterations,
	}
	if p.Kernel != nil {
		out.Kernel = *p.Kernel
	}
	return out
}

// addFlow adds a flow's current operation, which no completion tells of yet.
func addFlow(t *node.DirectionTotals, f *trace.Flow) {
	t.Posted += uint64(f.Posted)
	t.Ready += uint64(f.Ready)
	t.Transmitted += uint64(f.Transmitted)
	t.Done += uint64(f.Done)
	for i, w := range f.WaitNS {
		t.WaitNS[i] += w
	}
	t.ActiveNS += f.ActiveNS
	t.Bytes += f.Bytes
}

// keepRising holds counters at what was shown where the sums of finished operations, which leave out rounding, are less
// than those of the operations in flight were.
func keepRising(t, shown *node.DirectionTotals) {
	t.Posted = max(t.Posted, shown.Posted)
	t.Ready = max(t.Ready, shown.Ready)
	t.Transmitted = max(t.Transmitted, shown.Transmitted)
	t.Done = max(t.Done, shown.Done)
	for i := range t.WaitNS {
		t.WaitNS[i] = max(t.WaitNS[i], shown.WaitNS[i])
	}
	t.ActiveNS = max(t.ActiveNS, shown.ActiveNS)
	t.Bytes = max(t.Bytes, shown.Bytes)
}

// ledger keeps the accounts of all ranks up to date with a simulation.
type ledger struct {
	accounts []*account
	at       cluster.Time
}

func newLedger(ranks int) *ledger {
	l := &ledger{accounts: make([]*account, ranks), at: -1}
	for i := range l.accounts {
		l.accounts[i] = newAccount()
	}
	return l
}

// follow takes in what has finished since it was called last.
func (l *ledger) follow(rec *cluster.Recording, now time.Duration) {
	for r, a := range l.accounts {
		rec.Finished(r, l.at, a.finished)
	}
	l.at = cluster.At(now)
}
