// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// window is NCCL_STEPS: how many buffer steps of a connection are open at most.
const window = 8

// openTransfers is how many transfers of an operation may be open: those of ring collectives take two buffer steps.
func openTransfers(op *span) int {
	if op.parent.field["algo"] == "RING" && op.parent.field["func"] != "Broadcast" {
		return window / 2
	}
	return window
}

// The calls of one group on the user's thread, a letter each: G start of GroupApi, A API call, L kernel launch, P Group,
// C Coll or P2p, small letters their ends; s and e the states of GroupApi.
var groupGrammar = regexp.MustCompile(`^(Gs(Aa)+e(LlPC+c+p)+g)*$`)

// grammars of a transfer: start, states, stop.
var (
	sendGrammar = regexp.MustCompile(`^ 8( 20)+ 9 stop$`)
	recvGrammar = regexp.MustCompile(`^ 10 11 12 stop$`)
)

var letters = map[string]string{
	"GroupApi": "G", "CollApi": "A", "P2pApi": "A", "KernelLaunch": "L", "Group": "P", "Coll": "C", "P2p": "C",
}

// checkOrderly holds a record of a job that ended orderly to NCCL's rules.
func checkOrderly(t *testing.T, r *record, sharedProxy bool) {
	t.Helper()
	for _, s := range r.spans {
		if s.live() {
			t.Errorf("%s %d was never stopped", s.kind, s.handle)
		}
	}
	checkUserThread(t, r)
	checkProxyThreads(t, r, sharedProxy)
	checkParents(t, r)
	checkProxyOps(t, r)
	checkQueues(t, r)
	checkKernels(t, r)
	checkSequence(t, r)
	checkEnd(t, r)
	if t.Failed() {
		t.FailNow()
	}
}

// checkUserThread: what the user's thread does comes from it alone, in the order of ncclGroupEnd, and Coll and P2p are
// stopped when they are enqueued.
func checkUserThread(t *testing.T, r *record) {
	t.Helper()
	var text strings.Builder
	user := r.calls[0].tid
	for _, c := range r.calls {
		if c.verb != "start" && c.verb != "stop" && c.verb != "record" {
			continue
		}
		s := r.byNum[c.num("handle")]
		letter := letters[s.kind]
		if letter == "" {
			if c.tid == user {
				t.Errorf("call %d: %s of %s on the user's thread", c.number, c.verb, s.kind)
			}
			continue
		}
		if c.tid != user {
			t.Errorf("call %d: %s of %s on thread %s", c.number, c.verb, s.kind, c.thread)
		}
		switch c.verb {
		case "stop":
			letter = strings.ToLower(letter)
		case "record":
			letter = map[int]string{groupStarted: "s", groupEnding: "e"}[c.num("state")]
		}
		text.WriteString(letter)
	}
	if !groupGrammar.MatchString(text.String()) {
		t.Errorf("calls on the user's thread: %s", text.String())
	}
}

func checkProxyThreads(t *testing.T, r *record, shared bool) {
	t.Helper()
	for _, s := range r.spans {
		if s.kind != "ProxyOp" && s.kind != "ProxyStep" && s.kind != "KernelCh" {
			continue
		}
		want := "proxy-" + r.comm(s)
		if shared {
			want = "proxy-all"
		}
		for _, c := range append([]*call{s.call, s.stop}, s.states...) {
			if c.thread != want {
				t.Errorf("call %d of %s on thread %s, want %s", c.number, s.kind, c.thread, want)
			}
		}
	}
}

func checkParents(t *testing.T, r *record) {
	t.Helper()
	want := map[string]string{
		"CollApi": "GroupApi", "P2pApi": "GroupApi", "KernelLaunch": "GroupApi", "Coll": "CollApi", "P2p": "P2pApi",
		"ProxyStep": "ProxyOp", "ProxyOp": "Coll P2p", "KernelCh": "Coll P2p",
	}
	for _, s := range r.spans {
		kinds := want[s.kind]
		if kinds == "" {
			if s.parent != nil {
				t.Errorf("%s %d has a parent", s.kind, s.handle)
			}
			continue
		}
		if s.parent == nil || !strings.Contains(kinds, s.parent.kind) || s.parent.ctx != s.ctx {
			t.Errorf("%s %d: parent %v, want %s", s.kind, s.handle, s.parent, kinds)
			continue
		}
		if s.kind == "Coll" || s.kind == "P2p" {
			if g := r.byNum[s.num("group")]; g == nil || g.kind != "Group" {
				t.Errorf("%s %d: group %s is none", s.kind, s.handle, s.field["group"])
			}
			if s.field["func"] != s.parent.field["func"] {
				t.Errorf("%s %d: %s under %s", s.kind, s.handle, s.field["func"], s.parent.field["func"])
			}
		}
	}
}

// checkProxyOps: an operation is in progress once, its steps come in order, at most a window at a time, each through
// its states, and it ends when all of them have.
func checkProxyOps(t *testing.T, r *record) {
	t.Helper()
	for _, op := range r.of("ProxyOp", "") {
		if op.count(opInProgress) != 1 || len(op.states) != 1 {
			t.Errorf("ProxyOp %d: %d states", op.handle, len(op.states))
			continue
		}
		steps := op.num("steps")
		if len(op.children) != steps || steps < 1 {
			t.Errorf("ProxyOp %d: %d steps, announced %d", op.handle, len(op.children), steps)
		}
		grammar := recvGrammar
		if op.num("send") == 1 {
			grammar = sendGrammar
		}
		last := op.states[0].number
		for i, step := range op.children {
			if step.num("step") != i {
				t.Errorf("ProxyOp %d: step %d in place %d", op.handle, step.num("step"), i)
			}
			if step.number < op.states[0].number || step.stop.number > op.stop.number {
				t.Errorf("ProxyOp %d: step %d outside of its operation", op.handle, i)
			}
			if step.stop.number < last {
				t.Errorf("ProxyOp %d: step %d ends before the one ahead", op.handle, i)
			}
			last = step.stop.number
			if ahead := i - openTransfers(op); ahead >= 0 && step.number < op.children[ahead].stop.number {
				t.Errorf("ProxyOp %d: step %d begins while %d is open", op.handle, i, ahead)
			}
			if path := pathOf(step); !grammar.MatchString(path) {
				t.Errorf("ProxyOp %d: step %d went%s", op.handle, i, path)
			}
		}
	}
}

func pathOf(s *span) string {
	var b strings.Builder
	for _, state := range s.states {
		b.WriteString(" " + state.field["state"])
	}
	if !s.live() {
		b.WriteString(" stop")
	}
	return b.String()
}

// checkQueues: operations on one connection follow each other; they are announced when dequeued, before.
func checkQueues(t *testing.T, r *record) {
	t.Helper()
	last := map[string]*span{}
	for _, op := range r.of("ProxyOp", "") {
		// Collectives queue on their connection, send/recv on the buffers of the channel.
		key := fmt.Sprintf("%d %s %s %s %s", op.ctx, op.parent.kind, op.field["channel"], op.field["send"], op.field["peer"])
		if before := last[key]; before != nil && op.states[0].number < before.stop.number {
			t.Errorf("ProxyOp %d is in progress before %d has ended", op.handle, before.handle)
		}
		last[key] = op
	}
}

// checkKernels: the kernel is seen on each announced channel, once, with its times.
func checkKernels(t *testing.T, r *record) {
	t.Helper()
	for _, task := range append(r.of("Coll", ""), r.of("P2p", "")...) {
		seen := map[string]bool{}
		for _, k := range task.children {
			if k.kind != "KernelCh" {
				continue
			}
			if seen[k.field["channel"]] {
				t.Errorf("%s %d: two kernels on channel %s", task.kind, task.handle, k.field["channel"])
			}
			seen[k.field["channel"]] = true
			if len(k.states) != 1 || k.states[0].num("state") != kernelStop {
				t.Errorf("KernelCh %d: states %s", k.handle, pathOf(k))
			} else if k.num("timer") == 0 || k.states[0].num("arg") < k.num("timer") {
				t.Errorf("KernelCh %d: ends before it starts", k.handle)
			}
		}
		if len(seen) != task.num("channels") {
			t.Errorf("%s %d: kernels on %d channels, announced %d", task.kind, task.handle, len(seen), task.num("channels"))
		}
	}
}

// checkSequence: sequence numbers count per communicator and function.
func checkSequence(t *testing.T, r *record) {
	t.Helper()
	next := map[string]int{}
	for _, c := range r.of("Coll", "") {
		key := fmt.Sprint(c.ctx, c.field["func"])
		if c.num("seq") != next[key] {
			t.Errorf("%s on %s: sequence number %d, want %d", c.field["func"], r.comm(c), c.num("seq"), next[key])
		}
		next[key]++
	}
}

// checkEnd: every communicator is finalized after all of its events, and the plugin unloaded after the last.
func checkEnd(t *testing.T, r *record) {
	t.Helper()
	open := len(r.comms)
	for i, c := range r.calls {
		if c.verb == "finalize" {
			open--
		}
		if c.verb == "unload" && (open != 0 || i != len(r.calls)-1) {
			t.Errorf("unloaded with %d communicators open, at %d of %d", open, i, len(r.calls))
		}
	}
	if open != 0 || r.calls[len(r.calls)-1].verb != "unload" {
		t.Errorf("%d communicators not finalized, last call %s", open, r.calls[len(r.calls)-1].verb)
	}
}
