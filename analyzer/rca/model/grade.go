// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/culprit-project/culprit/analyzer/rca/observe"

// way is what one end of a flow does.
type way uint8

const (
	runs    way = iota // Its kernel runs and does what it can.
	waits              // Called; its kernel has not begun.
	frozen             // Its kernel may have begun, and does nothing any more.
	outside            // It has not called the operation.
	gone               // It has left the operation: it gave and took all.
)

// ways is the set of what a part may be doing in this world.
func (w *World) ways(p int32) (set uint8) {
	part, is := &w.Parts[p], w.parts[p]
	if part.Seen == observe.Left {
		if w.has(part.Node, 1<<OtherCall) {
			return 1 << outside // What it ended was another operation.
		}
		return 1 << gone
	}
	unseen := part.Op == nil && part.Seen == observe.Unknown
	if part.Op == nil && is.calls != Yes {
		set |= 1 << outside
	}
	if w.has(part.Node, stopsGPU) && (part.Op != nil || unseen) {
		return set | 1<<frozen
	}
	if w.has(part.Node, 1<<Unseen) {
		set |= 1 << frozen
	}
	if part.Seen == observe.Queued {
		return 1 << waits // That is a term of its own, whether the world predicts it or not.
	}
	if (part.Op != nil || unseen) && is.runs != Yes {
		set |= 1 << waits
	}
	if is.runs != No {
		set |= 1 << runs
	}
	return set
}

// letters is a set of letters.
type letters uint16

// Letters of flows, as sets.
const (
	mute        letters = 1 << observe.Mute
	unsent      letters = 1 << observe.Unsent
	full        letters = 1 << observe.Full
	undelivered letters = 1 << observe.Undelivered
	starved     letters = 1 << observe.Starved
	unflushed   letters = 1 << observe.Unflushed
	unconsumed  letters = 1 << observe.Unconsumed
	unposted    letters = 1 << observe.Unposted
)

// expected is the letters that a flow shows: those that a world predicts, and those that it allows.
type expected struct{ likely, possible letters }

func (e expected) grade(l observe.Letter) float64 {
	switch {
	case e.likely&(1<<l) != 0:
		return likely
	case e.possible&(1<<l) != 0:
		return possible
	}
	return wrong
}

// sends gives what a sender shows, by what it and its receiver do.
func sends(from, to way, d death, in *observe.Operation) expected {
	first := mute | unposted // What a sender shows before its first step.
	if in.Ring {
		first = unposted // In a ring it has one to give.
	}
	switch {
	case from == waits || from == outside:
		return expected{mute | unposted, 0}
	case from == frozen:
		return expected{mute | unsent | unposted, full}
	case d == wire:
		return expected{undelivered, full | unsent | mute | unposted}
	case d == sender:
		return expected{full | mute | unposted, undelivered | unsent}
	case d == receiver:
		return expected{full | undelivered, unsent | mute | unposted}
	case to == outside:
		return expected{full, undelivered | unsent | mute | unposted}
	case in.P2P && (to == waits || to == frozen):
		return expected{full | unsent, unposted}
	case in.P2P: // It would go; but one kernel serves all peers of a group, and one of them may not answer.
		return expected{0, unposted | mute}
	case to == waits || to == frozen:
		return expected{full | unsent, first}
	case in.Ring:
		return expected{unsent, full | unposted}
	}
	return expected{unsent | mute, full | unposted}
}

// receives gives what a receiver shows, by what its sender and it do.
func receives(from, to way, d death, in *observe.Operation) expected {
	switch {
	case d == wire && (to == waits || to == frozen): // Data may have come before.
		return expected{starved, unposted | unconsumed}
	case d == wire:
		return expected{starved, unposted}
	case d == receiver:
		return expected{starved | unposted | unflushed, unconsumed}
	case d == sender:
		return expected{starved, unposted | unconsumed}
	case from == waits || from == outside:
		return expected{starved, unposted}
	case from == frozen && (to == waits || to == frozen):
		return expected{starved | unconsumed, unposted}
	case from == frozen:
		return expected{starved, unposted}
	case to == waits || to == frozen:
		if in.P2P || in.Ring || from == gone {
			return expected{unconsumed, unflushed | starved | unposted}
		}
		return expected{unconsumed | starved, unflushed | unposted}
	case in.P2P || from == gone:
		return expected{0, unposted}
	}
	return expected{starved, unconsumed | unposted}
}
