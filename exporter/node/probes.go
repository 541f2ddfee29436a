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

// mostProbeComms bounds the communicators of one process that are counted: their ids are the program's to choose.
const mostProbeComms = 256

// ProbeSum is how many probes found a communicator's SendCount and RecvCount changed, summed over its finished operations. Divided into
// the number of operations it is the mean SendRate or RecvRate of CCL-D.
type ProbeSum struct{ Send, Recv uint64 }

// Probes sums up by communicator. The zero value is ready. Its methods may be called concurrently.
type Probes struct {
	mu   sync.Mutex
	sums map[trace.CommID]ProbeSum
}

// Add takes in an operation that has ended.
func (p *Probes) Add(c *trace.Completion) {
	if c.SendProbes == 0 && c.RecvProbes == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sum, known := p.sums[c.CommID]
	if !known && len(p.sums) >= mostProbeComms {
		return
	}
	if p.sums == nil {
		p.sums = map[trace.CommID]ProbeSum{}
	}
	p.sums[c.CommID] = ProbeSum{Send: sum.Send + uint64(c.SendProbes), Recv: sum.Recv + uint64(c.RecvProbes)}
}

// Show gives the sums of the n communicators that have most, in a stable order. Communicators that have ended leave.
func (p *Probes) Show(n int, ended func(trace.CommID) bool, show func(trace.CommID, ProbeSum)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.sums, func(id trace.CommID, _ ProbeSum) bool { return ended(id) })
	order := slices.SortedFunc(maps.Keys(p.sums), func(x, y trace.CommID) int {
		a, b := p.sums[x], p.sums[y]
		return cmp.Or(cmp.Compare(b.Send+b.Recv, a.Send+a.Recv), cmp.Compare(x, y))
	})
	order = order[:min(max(n, 0), len(order))]
	slices.Sort(order)
	for _, id := range order {
		show(id, p.sums[id])
	}
}
