// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// way is what one end of a flow does.
type way uint8

const (
	runs    way = iota // Its kernel runs and does what it can.
	waits              // Called; its kernel has not begun.
	frozen             // Its kernel may have begun, and does nothing any more.
	outside            // It has not called the operation.
	gone               // It has left the operation: it gave and took all.
)

// ways lists what a part may be doing in this world.
func (s *States) ways(p int32) (out []way) {
	part := &s.w.job.Parts[p]
	if part.Seen == observe.Left {
		return []way{gone}
	}
	unseen := part.Op == nil && part.Seen == observe.Unknown
	if part.Op == nil && s.Calls[p] != Yes {
		out = append(out, outside)
	}
	if s.w.has(part.Node, GPU, Starting) && (part.Op != nil || unseen) {
		return append(out, frozen)
	}
	if s.w.has(part.Node, Unseen) {
		out = append(out, frozen)
	}
	if part.Seen == observe.Queued {
		return []way{waits} // That is a term of its own, whether the world predicts it or not.
	}
	if (part.Op != nil || unseen) && s.Runs[p] != Yes {
		out = append(out, waits)
	}
	if s.Runs[p] != No {
		out = append(out, runs)
	}
	return out
}

// expected is the letters that a flow shows: those that a world predicts, and those that it allows.
type expected struct{ likely, possible []observe.Letter }

func (e *expected) grade(l observe.Letter) float64 {
	switch {
	case slices.Contains(e.likely, l):
		return likely
	case slices.Contains(e.possible, l):
		return possible
	}
	return wrong
}

type letters = []observe.Letter

// sends gives what a sender shows, by what it and its receiver do.
func sends(from, to way, d death, in *observe.Operation) expected {
	first := letters{observe.Mute, observe.Unposted} // What a sender shows before its first step.
	if in.Ring {
		first = letters{observe.Unposted} // In a ring it has one to give.
	}
	switch {
	case from == waits || from == outside:
		return expected{letters{observe.Mute, observe.Unposted}, nil}
	case from == frozen:
		return expected{letters{observe.Mute, observe.Unsent, observe.Unposted}, letters{observe.Full}}
	case d == wire:
		return expected{letters{observe.Undelivered}, letters{observe.Full, observe.Unsent, observe.Mute, observe.Unposted}}
	case d == sender:
		return expected{letters{observe.Full, observe.Mute, observe.Unposted}, letters{observe.Undelivered, observe.Unsent}}
	case d == receiver:
		return expected{letters{observe.Full, observe.Undelivered}, letters{observe.Unsent, observe.Mute, observe.Unposted}}
	case to == outside:
		return expected{letters{observe.Full}, letters{observe.Undelivered, observe.Unsent, observe.Mute, observe.Unposted}}
	case in.P2P && (to == waits || to == frozen):
		return expected{letters{observe.Full, observe.Unsent}, letters{observe.Unposted}}
	case in.P2P: // It would go; but one kernel serves all peers of a group, and one of them may not answer.
		return expected{nil, letters{observe.Unposted, observe.Mute}}
	case to == waits || to == frozen:
		return expected{letters{observe.Full, observe.Unsent}, first}
	case in.Ring:
		return expected{letters{observe.Unsent}, letters{observe.Full, observe.Unposted}}
	}
	return expected{letters{observe.Unsent, observe.Mute}, letters{observe.Full, observe.Unposted}}
}

// receives gives what a receiver shows, by what its sender and it do.
func receives(from, to way, d death, in *observe.Operation) expected {
	switch {
	case d == wire:
		return expected{letters{observe.Starved}, letters{observe.Unposted}}
	case d == receiver:
		return expected{letters{observe.Starved, observe.Unposted, observe.Unflushed}, letters{observe.Unconsumed}}
	case d == sender:
		return expected{letters{observe.Starved}, letters{observe.Unposted, observe.Unconsumed}}
	case from == waits || from == outside:
		return expected{letters{observe.Starved}, letters{observe.Unposted}}
	case from == frozen && (to == waits || to == frozen):
		return expected{letters{observe.Starved, observe.Unconsumed}, letters{observe.Unposted}}
	case from == frozen:
		return expected{letters{observe.Starved}, letters{observe.Unposted}}
	case to == waits || to == frozen:
		if in.P2P || in.Ring || from == gone {
			return expected{letters{observe.Unconsumed}, letters{observe.Unflushed, observe.Starved, observe.Unposted}}
		}
		return expected{letters{observe.Unconsumed, observe.Starved}, letters{observe.Unflushed, observe.Unposted}}
	case in.P2P || from == gone:
		return expected{nil, letters{observe.Unposted}}
	}
	return expected{letters{observe.Starved}, letters{observe.Unconsumed, observe.Unposted}}
}
