// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"time"

	"github.com/culprit-project/culprit/lab/ncclrecord/recording"
)

var proxies = []Rule{
	{"proxy-thread", "ProxyOp and ProxyStep come on one thread of their own for each communicator.", proxyThread},
	{"proxy-thread-shared", "Communicators of a split that shares resources have one progress thread.", sharedThread},
	{"proxy-parent", "A ProxyOp's parent is a Coll or P2p of its communicator.", always(func(s *recording.Span) bool {
		return s.Parent != nil && (s.Parent.Name == "Coll" || s.Parent.Name == "P2p") && s.Parent.Comm == s.Comm
	}, "ProxyOp")},
	{"proxy-in-progress", "A ProxyOp that has steps is ProxyOpInProgress exactly once, before the first of them.", always(func(s *recording.Span) bool {
		state := s.State("ProxyOpInProgress")
		return len(s.Children) == 0 || state != nil && s.Count("ProxyOpInProgress") == 1 && state.Index < s.Children[0].Index
	}, "ProxyOp")},
	{"proxy-all-steps", "A ProxyOp has as many steps as it announces.", inHealthy(func(s *recording.Span) bool {
		return len(s.Children) == s.Num("steps")
	}, "ProxyOp")},
	{"step-once", "A step is started once.", always(func(s *recording.Span) bool {
		if s.Parent == nil {
			return false
		}
		n := 0
		for _, c := range s.Parent.Children {
			if c.Fields["step"] == s.Fields["step"] {
				n++
			}
		}
		return n == 1
	}, "ProxyStep")},
	{"steps-in-order", "Steps start and stop in their order.", stepsInOrder},
	{"send-path", "A finished send step went SendGPUWait, SendPeerWait, SendWait.", path(true, "SendGPUWait SendPeerWait SendWait")},
	{"send-path-native", "A finished send step went SendGPUWait, SendWait.", path(true, "SendGPUWait SendWait")},
	{"recv-path", "A finished receive step went RecvWait, RecvFlushWait, RecvGPUWait.", path(false, "RecvWait RecvFlushWait RecvGPUWait")},
	{"send-stop", "A send step of a finished job is stopped.", steps(true, func(s *recording.Span) bool { return !s.Live() })},
	{"recv-stop", "A receive step of a finished job is stopped.", steps(false, func(s *recording.Span) bool { return !s.Live() })},
	{"stop-once", "Nothing is stopped twice, and nothing is recorded after the stop.", always(func(s *recording.Span) bool {
		return len(s.Stops) < 2 && (s.Live() || len(s.States) == 0 || s.States[len(s.States)-1].Index < s.End().Index)
	}, "ProxyOp", "ProxyStep")},
	{"recv-done-native", "ProxyOpRecvDone comes once for every step of a receive.", native(false, "ProxyOpRecvDone")},
	{"send-done-native", "ProxyOpSendDone comes once for every step of a send.", native(true, "ProxyOpSendDone")},
	{"step-args", "States of steps have arguments.", func(t *Tally, r *recording.Recording) {
		each(r, func(_ *recording.Process, s *recording.Span) {
			for _, c := range s.States {
				t.Add(c.Value != "-")
			}
		}, "ProxyStep")
	}},
	{"proxy-stop-last", "A ProxyOp is stopped after the last of its steps.", inHealthy(func(s *recording.Span) bool {
		last := lastStop(s)
		return last != nil && !s.Live() && last.Index < s.End().Index
	}, "ProxyOp")},
	{"coll-proxy-stop-soon", "A collective's ProxyOp is stopped within 1 ms of its last step.", stopSoon("Coll")},
	{"p2p-proxy-stop-soon", "A send's or receive's ProxyOp is stopped within 1 ms of its last step.", stopSoon("P2p")},
	{"queue", "On one connection a collective's ProxyOp begins after the one before has stopped.", queue},
	{"ctrl", "The progress thread reports itself (ProxyCtrl) less than 100 times a second.", controls},
}

func proxyThread(t *Tally, r *recording.Recording) {
	if r.Case == "split-shared" {
		return
	}
	for _, p := range r.Processes {
		threads, comms := map[*recording.Comm]int{}, map[int]*recording.Comm{}
		for _, s := range p.Of("ProxyOp", "ProxyStep") {
			if threads[s.Comm] == 0 {
				threads[s.Comm] = s.Thread
			}
			if comms[s.Thread] == nil {
				comms[s.Thread] = s.Comm
			}
			t.Add(s.Thread != userThread(p) && threads[s.Comm] == s.Thread && comms[s.Thread] == s.Comm)
		}
	}
}

func sharedThread(t *Tally, r *recording.Recording) {
	if r.Case != "split-shared" {
		return
	}
	for _, p := range r.Processes {
		threads, comms := map[int]bool{}, map[*recording.Comm]bool{}
		for _, s := range p.Of("ProxyOp") {
			threads[s.Thread], comms[s.Comm] = true, true
		}
		if len(comms) > 1 {
			t.Add(len(threads) == 1)
		}
	}
}

func stepsInOrder(t *Tally, r *recording.Recording) {
	each(r, func(_ *recording.Process, op *recording.Span) {
		stopped := -1
		for i, s := range op.Children {
			ok := i == 0 || s.Num("step") >= op.Children[i-1].Num("step")
			if !s.Live() {
				ok = ok && s.End().Index > stopped
				stopped = s.End().Index
			}
			t.Add(ok)
		}
	}, "ProxyOp")
}

// steps is a rule about the steps of one direction in finished jobs.
func steps(send bool, holds func(s *recording.Span) bool) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if !healthy(r) {
			return
		}
		each(r, func(_ *recording.Process, s *recording.Span) {
			if s.Parent != nil && isSend(s.Parent) == send {
				t.Add(holds(s))
			}
		}, "ProxyStep")
	}
}

func path(send bool, want string) func(*Tally, *recording.Recording) {
	return steps(send, func(s *recording.Span) bool { return s.Path() == want })
}

// native: up to 2.26 the states of the operation count its steps.
func native(send bool, state string) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if !healthy(r) {
			return
		}
		each(r, func(p *recording.Process, s *recording.Span) {
			if p.ABI() > 3 || isSend(s) != send || s.Count("ProxyOpSendPosted")+s.Count("ProxyOpRecvPosted") == 0 {
				return
			}
			for n := range s.Num("steps") {
				t.Add(n < s.Count(state))
			}
		}, "ProxyOp")
	}
}

func lastStop(op *recording.Span) *recording.Call {
	var last *recording.Call
	for _, s := range op.Children {
		if !s.Live() && (last == nil || s.End().Index > last.Index) {
			last = s.End()
		}
	}
	return last
}

func stopSoon(parent string) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if !healthy(r) {
			return
		}
		each(r, func(_ *recording.Process, s *recording.Span) {
			if last := lastStop(s); last != nil && !s.Live() && s.Parent != nil && s.Parent.Name == parent {
				t.Add(s.End().Time-last.Time < time.Millisecond)
			}
		}, "ProxyOp")
	}
}

func queue(t *Tally, r *recording.Recording) {
	for _, p := range r.Processes {
		last := map[string]*recording.Span{}
		for _, op := range p.Of("ProxyOp") {
			if op.Parent == nil || op.Parent.Name != "Coll" || len(op.States) == 0 {
				continue
			}
			key := fmt.Sprint(op.Fields["ctx"], op.Fields["channel"], op.Fields["send"], op.Fields["peer"])
			if before := last[key]; before != nil {
				t.Add(!before.Live() && before.End().Index < op.States[0].Index)
			}
			last[key] = op
		}
	}
}

func controls(t *Tally, r *recording.Recording) {
	for _, p := range r.Processes {
		events := p.Of("ProxyCtrl")
		if r.Case != "proxy-ctrl" || len(events) == 0 {
			continue
		}
		seconds := (events[len(events)-1].Time - events[0].Time).Seconds()
		t.Add(float64(len(events)) < 100*max(seconds, 0.1))
	}
}

var sizes = []Rule{
	{"volume", "transSize at SendWait adds up to what a ring AllReduce sends: 2(n-1) times its bytes, over all ranks.", volume(sentInSteps)},
	{"volume-native", "The same from the last ProxyOpSendDone, less the value at the first ProxyOpSendPosted.", volume(sentInStates)},
	{"size-begins-zero", "transSize is 0 at the first ProxyOpSendPosted or ProxyOpRecvPosted.", func(t *Tally, r *recording.Recording) {
		each(r, func(_ *recording.Process, s *recording.Span) {
			for _, name := range []string{"ProxyOpSendPosted", "ProxyOpRecvPosted"} {
				if c := s.State(name); c != nil {
					size, _ := c.Size()
					t.Add(size == 0)
				}
			}
		}, "ProxyOp")
	}},
	{"size-at-peer-wait", "transSize at SendPeerWait is that at SendWait.", always2(func(s *recording.Span) (bool, bool) {
		at, then := s.State("SendPeerWait"), s.State("SendWait")
		if at == nil || then == nil {
			return false, false
		}
		return at.Value == then.Value, true
	}, "ProxyStep")},
	{"size-within-chunk", "transSize at SendWait is at most the chunkSize of the ProxyOp.", always2(func(s *recording.Span) (bool, bool) {
		c := s.State("SendWait")
		if c == nil || s.Parent == nil {
			return false, false
		}
		size, ok := c.Size()
		return size <= s.Parent.Num("chunk"), ok
	}, "ProxyStep")},
	{"allgather-bytes", "The Coll of an AllGather or Broadcast counts bytes (ncclInt8), whatever the program passed.", always2(func(s *recording.Span) (bool, bool) {
		f := s.Fields["func"]
		return s.Fields["datatype"] == "ncclInt8", f == "AllGather" || f == "Broadcast"
	}, "Coll")},
	{"p2p-channels", "nChannels of a P2p is the number of channels of its proxy operations.", announced("P2p")},
	{"coll-channels", "nChannels of a Coll is the number of channels of its proxy operations.", announced("Coll")},
	{"small-one-channel", "A Coll of 4 KiB at most uses one channel, though two are allowed.", always2(func(s *recording.Span) (bool, bool) {
		n := s.Fields["channels"] + s.Fields["max_channels"]
		return n == "1", bytesOf(s) <= 4096
	}, "Coll")},
}

// always2 is a rule about those events of which asked is true.
func always2(holds func(s *recording.Span) (holds, asked bool), kinds ...string) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		each(r, func(_ *recording.Process, s *recording.Span) {
			if h, asked := holds(s); asked {
				t.Add(h)
			}
		}, kinds...)
	}
}

func announced(kind string) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if !healthy(r) || r.Settings["host"] != "" {
			return
		}
		each(r, func(_ *recording.Process, s *recording.Span) {
			if ops := s.Of("ProxyOp"); s.Fields["channels"] != "" && len(ops) > 0 {
				t.Add(s.Num("channels") == len(channels(ops)))
			}
		}, kind)
	}
}

// volume compares what all ranks sent of an AllReduce with what a ring must send.
func volume(sent func(op *recording.Span) (int, bool)) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if !healthy(r) || r.Settings["host"] != "" {
			return
		}
		type sum struct{ got, want, ranks int }
		ops := map[string]*sum{}
		each(r, func(_ *recording.Process, s *recording.Span) {
			if s.Fields["func"] != "AllReduce" || s.Fields["algo"] != "RING" || s.Fields["proto"] != "SIMPLE" {
				return
			}
			key := identity(s) + " " + s.Fields["seq"]
			if ops[key] == nil {
				ops[key] = &sum{}
			}
			o, known := ops[key], false
			for _, op := range s.Of("ProxyOp") {
				if !isSend(op) {
					continue
				}
				n, ok := sent(op)
				o.got += n
				known = known || ok
			}
			if known {
				o.ranks++
				o.want += 2 * bytesOf(s)
			}
		}, "Coll")
		for _, o := range ops {
			if o.ranks > 1 {
				t.Add(o.got == o.want/o.ranks*(o.ranks-1))
			}
		}
	}
}

func sentInSteps(op *recording.Span) (int, bool) {
	total, known := 0, false
	for _, s := range op.Children {
		if c := s.State("SendWait"); c != nil {
			n, ok := c.Size()
			total += n
			known = known || ok
		}
	}
	return total, known
}

func sentInStates(op *recording.Span) (int, bool) {
	var first, last int
	known := false
	for _, c := range op.States {
		n, ok := c.Size()
		switch {
		case c.Name == "ProxyOpSendPosted" && !known:
			first, known = n, ok
		case c.Name == "ProxyOpSendDone":
			last = n
		}
	}
	return last - first, known
}
