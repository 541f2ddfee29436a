// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/culprit-project/culprit/trace"
)

// Usage is how a rank's finished operations of a span passed their time in all, nanoseconds.
type Usage struct {
	// Waits of send flows for the GPU, the peer and the network, of receive flows for data, the flush and the GPU.
	Waits [6]float64
	// Kernels is the time from entering to leaving, by function.
	Kernels [trace.NumFunc]float64
	// First and Last are when the first and the last of the operations ended, by the host's clock; 0: none did.
	First, Last uint64
}

// Usage sums over a rank's finished operations of the last span, as far as its history goes: the same sums as over
// Trace's completions, at a fraction of their cost.
func (r *Recording) Usage(rank int, span time.Duration) Usage {
	s := r.s
	q := &s.ranks[rank]
	host := &s.hosts[s.hw[rank].host]
	from := s.horizon - At(span)
	var u Usage
	first, last := Never, Time(-1)
	for i := q.history.n - 1; i >= 0; i-- {
		h := q.history.at(i)
		if h.at < from {
			break
		}
		m := &h.o.mem[h.m]
		first, last = min(first, m.left), max(last, m.left)
		if entered, left := host.clock(m.entered), host.clock(m.left); left > entered && !s.cfg.NoKernelEvents {
			fn := m.in.fn
			if h.o.p2p {
				fn = [2]trace.Func{trace.Send, trace.Recv}[h.m]
			}
			u.Kernels[fn] += float64(left - entered)
		}
		if h.o.comm.hosts == 1 {
			continue
		}
		d := s.dirsOf(h.o, h.m)
		for k := range d.send.wait {
			u.Waits[k] += float64(d.send.wait[k])
			u.Waits[3+k] += float64(d.recv.wait[k])
		}
	}
	if last >= 0 {
		u.First, u.Last = host.clock(first), host.clock(last)
	}
	return u
}
