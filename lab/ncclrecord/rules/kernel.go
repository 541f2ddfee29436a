// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/lab/ncclrecord/recording"
)

var kernels = []Rule{
	{"kernel-complete", "A Coll or P2p of a finished job has a KernelCh start and stop on each of its channels.", inHealthyWithKernels(kernelComplete)},
	{"kernel-thread", "KernelCh comes on the thread of the communicator's proxy operations.", kernelThread},
	{"kernel-path", "A KernelCh that ended recorded KernelChStop before its stop.", always2(func(s *recording.Span) (bool, bool) {
		return s.State("KernelChStop") != nil, !s.Live()
	}, "KernelCh")},
	{"kernel-once", "An operation has one KernelCh a channel, stopped once.", always(func(s *recording.Span) bool {
		n := 0
		for _, o := range siblings(s) {
			if o.Fields["channel"] == s.Fields["channel"] {
				n++
			}
		}
		return n == 1 && len(s.Stops) < 2
	}, "KernelCh")},
	{"kernel-after-proxy", "A KernelCh starts after the proxy operations of its channel.", always2(func(s *recording.Span) (bool, bool) {
		ops := proxiesBeside(s)
		return len(ops) > 0 && ops[0].Index < s.Index, len(ops) > 0
	}, "KernelCh")},
	{"kernel-before-end", "A KernelCh start is reported before the last proxy operation of its channel stops.", kernelBeforeEnd("")},
	{"kernel-before-end-group", "The same for several collectives in a group.", kernelBeforeEnd("group")},
	{"kernel-prompt", "A KernelCh start is reported within 1 ms of the GPU's time.", always2(func(s *recording.Span) (bool, bool) {
		return absolute(at(s.Call)-s.Timer()) < time.Millisecond, s.Timer() != 0
	}, "KernelCh")},
	{"kernel-timer-order", "The GPU's start is not after its stop.", always2(func(s *recording.Span) (bool, bool) {
		stop := s.State("KernelChStop")
		return stop != nil && s.Timer() <= stop.Timer(), stop != nil && s.Timer() != 0
	}, "KernelCh")},
	{"kernel-not-stale", "The GPU's start is not before the GroupEndApiStart of its operation; up to v4, not 1 ms before its Coll or P2p.", notStale(false)},
	{"kernel-not-stale-alltoall", "The same in jobs with all-to-alls that include a send to oneself.", notStale(true)},
	{"kernel-rank", "KernelCh carries the rank (counted on ranks other than 0).", always2(func(s *recording.Span) (bool, bool) {
		return s.Num("rank") == commRank(s), commRank(s) > 0
	}, "KernelCh")},
}

func siblings(s *recording.Span) []*recording.Span {
	if s.Parent == nil {
		return []*recording.Span{s}
	}
	return s.Parent.Of(s.Name)
}

// kernelComplete: the kernel was seen on the announced channels, or, where none are announced, on those of the proxies.
func kernelComplete(s *recording.Span) bool {
	var ended []*recording.Span
	for _, k := range s.Of("KernelCh") {
		if !k.Live() {
			ended = append(ended, k)
		}
	}
	if s.Fields["channels"] != "" {
		return len(channels(ended)) == s.Num("channels")
	}
	return slices.Equal(channels(ended), channels(s.Of("ProxyOp")))
}

// inHealthyWithKernels asks of the operations of finished jobs that were to have kernel events.
func inHealthyWithKernels(holds func(s *recording.Span) bool) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if !healthy(r) || r.Case == "no-kernel-events" {
			return
		}
		each(r, func(p *recording.Process, s *recording.Span) {
			if p.ABI() >= 3 {
				t.Add(holds(s))
			}
		}, "Coll", "P2p")
	}
}

func kernelThread(t *Tally, r *recording.Recording) {
	for _, p := range r.Processes {
		threads := map[*recording.Comm]int{}
		for _, s := range p.Of("ProxyOp") {
			threads[s.Comm] = s.Thread
		}
		for _, s := range p.Of("KernelCh") {
			if threads[s.Comm] != 0 {
				t.Add(s.Thread == threads[s.Comm])
			}
		}
	}
}

// proxiesBeside are the proxy operations of the same operation and channel.
func proxiesBeside(k *recording.Span) []*recording.Span {
	if k.Parent == nil {
		return nil
	}
	var found []*recording.Span
	for _, op := range k.Parent.Of("ProxyOp") {
		if op.Fields["channel"] == k.Fields["channel"] {
			found = append(found, op)
		}
	}
	return found
}

func kernelBeforeEnd(only string) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if !healthy(r) || (r.Case == "group") != (only == "group") {
			return
		}
		each(r, func(_ *recording.Process, k *recording.Span) {
			last := 0
			for _, op := range proxiesBeside(k) {
				if op.Live() {
					return
				}
				last = max(last, op.End().Index)
			}
			if last > 0 {
				t.Add(k.Index < last)
			}
		}, "KernelCh")
	}
}

// at is a call's time on the axis of the GPU times.
func at(c *recording.Call) time.Duration {
	if c.Span == nil {
		return c.Time
	}
	return c.Span.Process.Offset + c.Time
}

func absolute(d time.Duration) time.Duration { return max(d, -d) }

// enqueued is the earliest time at which an operation's kernel can have started.
func enqueued(task *recording.Span) time.Duration {
	if task.Parent != nil && task.Parent.Parent != nil {
		if end := task.Parent.Parent.State("GroupEndApiStart"); end != nil {
			return at(end)
		}
	}
	return at(task.Call) - time.Millisecond
}

func notStale(alltoall bool) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if (r.Case == "alltoall") != alltoall {
			return
		}
		each(r, func(_ *recording.Process, k *recording.Span) {
			if k.Timer() != 0 && k.Parent != nil {
				t.Add(k.Timer() > enqueued(k.Parent))
			}
		}, "KernelCh")
	}
}

var ends = []Rule{
	{"all-stopped", "Every event of a finished job but the receive steps is stopped.", func(t *Tally, r *recording.Recording) {
		if !healthy(r) || r.Settings["end"] == "hung" {
			return
		}
		for _, p := range r.Processes {
			for _, s := range p.Spans {
				if s.Name != "ProxyCtrl" && (s.Name != "ProxyStep" || s.Parent == nil || isSend(s.Parent)) {
					t.Add(!s.Live())
				}
			}
		}
	}},
	{"finalized", "Every communicator of a finished job is finalized after the last of its events.", func(t *Tally, r *recording.Recording) {
		if !healthy(r) || r.Settings["end"] == "hung" {
			return
		}
		eachComm(r, func(p *recording.Process, c *recording.Comm) {
			t.Add(c.Finalize != nil && lastCall(p, c) < c.Finalize.Index)
		})
	}},
	{"finalize-thread", "finalize comes on the thread that called init.", func(t *Tally, r *recording.Recording) {
		if !healthy(r) {
			return
		}
		eachComm(r, func(_ *recording.Process, c *recording.Comm) {
			if c.Finalize != nil {
				t.Add(c.Finalize.Thread == c.Init.Thread)
			}
		})
	}},
}

// lastCall is where the last callback of a communicator is.
func lastCall(p *recording.Process, comm *recording.Comm) int {
	for i, c := range slices.Backward(p.Calls) {
		if s := c.Span; s != nil && s.Comm == comm && s.Name != "ProxyCtrl" {
			return i
		}
	}
	return 0
}
