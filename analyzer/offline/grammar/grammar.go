// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package grammar holds the messages that programs around a training job print, as one table: which bytes give a message away,
// what it looks like, what it means and about whom. Launchers, log shippers and consoles put their own text around lines; a
// second table takes that off. One scan of a text gives events. A new message is a new row.
package grammar

import (
	"regexp"
	"strconv"
	"strings"
)

// Row is one message.
type Row struct {
	Kind Kind
	// Prints names the program and its versions, Source the public place where the message's form can be looked up.
	Prints, Source string
	// Anchors are the bytes of which each such message holds one: at least shortestAnchor of them, and rare in other lines.
	Anchors []string
	// Pattern is applied to the text around an anchor, and must overlap the anchor. Nil: the anchor says it all. Its named groups
	// are what the message tells; see Event.
	Pattern *regexp.Regexp
	// Flat: terminals break this message anywhere, so white space is folded before the pattern is applied.
	Flat bool
	// Says is the message in words, as a predicate of its subject, with ${group} for what a group matched. Only of kinds that
	// have a meaning by themselves.
	Says string
	// Test is a line, or several, that the row reads.
	Test string
}

// Event is a message in a text. Groups of patterns have one meaning in all rows:
//
//	rank, local      the global rank, and the rank on its host, that the message is about
//	ranks            several: "1-3", "0, 2"
//	task             a number that the launcher gives, of which more must be known before it is a rank
//	pid, host, gpu   the process, its host, its GPU's number on the host
//	bus              the GPU's PCI address
//	worker           a name that a program gives its process: "PP3"
//	by               the rank that says it of the others
//	peer             the other side of a connection
type Event struct {
	*Row
	// At is where the anchor stands in the text, Start where its line begins.
	At, Start int
	caps      []string
}

// Get gives what a group matched; empty for nothing.
func (e *Event) Get(name string) string {
	if e.Pattern == nil {
		return ""
	}
	if i := e.Pattern.SubexpIndex(name); i > 0 && i < len(e.caps) {
		return e.caps[i]
	}
	return ""
}

// Int gives a group as a number; -1 where it is none.
func (e *Event) Int(name string) int {
	n, err := strconv.Atoi(strings.TrimSpace(e.Get(name)))
	if err != nil {
		return -1
	}
	return n
}

// Words gives what the row says, with what its groups matched.
func (e *Event) Words() string {
	s := group.ReplaceAllStringFunc(e.Says, func(name string) string { return e.Get(name[2 : len(name)-1]) })
	return strings.TrimRight(strings.Join(strings.Fields(s), " "), ": ") // What a group did not match may be all that follows.
}

var group = regexp.MustCompile(`\$\{\w+\}`)
