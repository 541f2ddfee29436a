// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// States of recordEventState.
const (
	sendGPUWait   = 8
	sendWait      = 9
	recvWait      = 10
	recvFlushWait = 11
	recvGPUWait   = 12
	opInProgress  = 19
	sendPeerWait  = 20
	kernelStop    = 22
	groupStarted  = 23
	groupEnding   = 24
)

// call is one callback as the recording plugin saw it.
type call struct {
	number int
	thread string // Name.
	tid    int
	verb   string // init, start, stop, record, finalize, unload.
	field  map[string]string
}

func (c *call) num(key string) int {
	n, err := strconv.Atoi(c.field[key])
	if err != nil {
		panic(fmt.Sprintf("call %d has no number %s: %v", c.number, key, c.field))
	}
	return n
}

// span is the life of one event: its start, states and end.
type span struct {
	*call
	handle   int
	ctx      int
	kind     string
	parent   *span
	states   []*call
	stop     *call
	children []*span
}

// live says whether the event has not been stopped.
func (s *span) live() bool { return s.stop == nil }

// reached says whether the state was recorded.
func (s *span) reached(state int) bool { return s.count(state) > 0 }

func (s *span) count(state int) int {
	n := 0
	for _, r := range s.states {
		if r.num("state") == state {
			n++
		}
	}
	return n
}

// record is all that one rank's plugin saw.
type record struct {
	calls []*call
	spans []*span // In order of start.
	byNum map[int]*span
	comms map[int]*call // init by ctx.
}

func (r *record) comm(s *span) string { return r.comms[s.ctx].field["name"] }

// of returns the spans of a kind on a communicator; "" any.
func (r *record) of(kind, comm string) []*span {
	var found []*span
	for _, s := range r.spans {
		if s.kind == kind && (comm == "" || r.comm(s) == comm) {
			found = append(found, s)
		}
	}
	return found
}

// readRecord reads the log of a rank; a last line without end is left out, the job may still be writing.
func readRecord(dir string, rank int) (*record, error) {
	text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("rank.%d.log", rank)))
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	r := &record{byNum: map[int]*span{}, comms: map[int]*call{}}
	for line := range strings.Lines(string(text)) {
		if err := r.add(strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("record of rank %d: %q: %w", rank, line, err)
		}
	}
	return r, nil
}

func (r *record) add(words []string) error {
	c := &call{field: map[string]string{}}
	for _, w := range words[1:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			return fmt.Errorf("%q is no key=value", w)
		}
		c.field[key] = value
	}
	number, err := strconv.Atoi(words[0])
	if err != nil {
		return err
	}
	name, tid, _ := strings.Cut(c.field["thread"], "/")
	c.number, c.thread, c.verb = number, name, c.field["verb"]
	if c.tid, err = strconv.Atoi(tid); err != nil {
		return err
	}
	r.calls = append(r.calls, c)
	switch c.verb {
	case "init":
		r.comms[c.num("ctx")] = c
	case "start":
		s := &span{call: c, handle: c.num("handle"), ctx: c.num("ctx"), kind: c.field["type"]}
		if p := c.num("parent"); p != 0 {
			if s.parent = r.byNum[p]; s.parent == nil {
				return fmt.Errorf("parent %d is unknown", p)
			}
			s.parent.children = append(s.parent.children, s)
		}
		r.spans = append(r.spans, s)
		r.byNum[s.handle] = s
	case "record", "stop":
		s := r.byNum[c.num("handle")]
		if s == nil {
			return fmt.Errorf("handle %d is unknown", c.num("handle"))
		}
		if s.stop != nil {
			return fmt.Errorf("handle %d was stopped", s.handle)
		}
		if c.verb == "stop" {
			s.stop = c
		} else {
			s.states = append(s.states, c)
		}
	}
	return nil
}

func mustRecord(t *testing.T, dir string, rank int) *record {
	t.Helper()
	r, err := readRecord(dir, rank)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
