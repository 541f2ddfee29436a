// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules states which rules of order and content hold in recorded callbacks, and how often.
package rules

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/lab/ncclrecord/recording"
)

// Tally counts in how many cases a rule held.
type Tally struct {
	Held, Of int
}

// Add counts one case.
func (t *Tally) Add(held bool) {
	t.Of++
	if held {
		t.Held++
	}
}

func (t *Tally) String() string {
	switch {
	case t.Of == 0:
		return "–"
	case t.Held == t.Of:
		return fmt.Sprintf("yes (%d)", t.Of)
	case t.Held == 0:
		return fmt.Sprintf("no (%d)", t.Of)
	default:
		return fmt.Sprintf("%d of %d", t.Held, t.Of)
	}
}

// Rule is a sentence about callbacks that can be counted.
type Rule struct {
	Name     string
	Sentence string
	Check    func(t *Tally, r *recording.Recording)
}

// Group is rules about one thing.
type Group struct {
	Title string
	Rules []Rule
}

// Groups are all rules.
var Groups = []Group{
	{"Communicators", communicators},
	{"Calls and launches", calls},
	{"Broadcast", broadcasts},
	{"Proxy operations and steps", proxies},
	{"Sizes", sizes},
	{"Kernel events", kernels},
	{"Ends", ends},
}

// Apply counts a rule over recordings.
func (r Rule) Apply(recordings []*recording.Recording) *Tally {
	t := &Tally{}
	for _, rec := range recordings {
		r.Check(t, rec)
	}
	return t
}

// The smaller words of which the rules are made.

func healthy(r *recording.Recording) bool { return r.Settings["fault"] == "none" }

// each calls visit for every event of the kinds.
func each(r *recording.Recording, visit func(p *recording.Process, s *recording.Span), kinds ...string) {
	for _, p := range r.Processes {
		for _, s := range p.Of(kinds...) {
			visit(p, s)
		}
	}
}

// inHealthy is a rule about every event of the kinds in jobs without a fault.
func inHealthy(holds func(s *recording.Span) bool, kinds ...string) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		if healthy(r) {
			each(r, func(_ *recording.Process, s *recording.Span) { t.Add(holds(s)) }, kinds...)
		}
	}
}

// always is a rule about every event of the kinds.
func always(holds func(s *recording.Span) bool, kinds ...string) func(*Tally, *recording.Recording) {
	return func(t *Tally, r *recording.Recording) {
		each(r, func(_ *recording.Process, s *recording.Span) { t.Add(holds(s)) }, kinds...)
	}
}

func userThread(p *recording.Process) int {
	if len(p.Comms) == 0 {
		return 0
	}
	return p.Comms[0].Init.Thread
}

func isSend(op *recording.Span) bool { return op.Num("send") == 1 }

// identity is what names a communicator across ranks, "" where it is not known.
func identity(s *recording.Span) string {
	if id := s.Fields["comm"]; id != "" && id != "0x0" {
		return id
	}
	if s.Comm == nil || s.Comm.Init.Fields["comm"] == "0x0" {
		return ""
	}
	return s.Comm.Init.Fields["comm"]
}

// commRank is the rank in the communicator, -1 where init does not tell.
func commRank(s *recording.Span) int {
	if s.Comm == nil {
		return -1
	}
	return s.Comm.Init.Num("rank")
}

// sizes of data types, by name.
var typeBytes = map[string]int{"ncclInt8": 1, "ncclFloat32": 4}

func bytesOf(coll *recording.Span) int { return coll.Num("count") * typeBytes[coll.Fields["datatype"]] }

// channels of the events.
func channels(events []*recording.Span) []int {
	var found []int
	for _, e := range events {
		if c := e.Num("channel"); !slices.Contains(found, c) {
			found = append(found, c)
		}
	}
	slices.Sort(found)
	return found
}
