// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recording reads what the recorder plugin wrote: the callbacks that a process got from NCCL, in their order.
package recording

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Verbs of a callback.
const (
	Init     = "init"
	Start    = "start"
	State    = "state"
	Again    = "again"
	Stop     = "stop"
	Finalize = "finalize"
	Unload   = "unload"
)

// Recording is one job: what it did, and what each of its processes saw.
type Recording struct {
	Case      string
	Settings  map[string]string // How the job was run: ranks, ops, fault and the like.
	Processes []*Process
}

// Calls is how many callbacks there are.
func (r *Recording) Calls() int {
	n := 0
	for _, p := range r.Processes {
		n += len(p.Calls)
	}
	return n
}

// Process is what one process saw.
type Process struct {
	Name    string        // As the recorder named the file: "rank.0".
	Opened  time.Time     // The wall clock at time 0 of the calls; zero in a stored recording.
	Offset  time.Duration // From the first process's time 0 to this one's.
	Calls   []*Call
	Spans   []*Span // In order of start.
	Comms   []*Comm // In order of init.
	Threads map[int]string

	spans map[int]*Span
	comms map[int]*Comm
}

// Comm is one init.
type Comm struct {
	Init     *Call
	Finalize *Call
}

// Call is one callback.
type Call struct {
	Index  int           // In Process.Calls.
	Time   time.Duration // Since the process's time 0.
	Thread int
	Verb   string
	Handle int    // Of start, state, again, stop.
	Name   string // The event of a start, the state of a state.
	Value  string // Of a state: as the recorder writes it, "-" without arguments.
	Count  int    // Of again.
	Fields map[string]string
	Span   *Span // Nil where nothing was started under the handle.
}

// Span is the life of one event.
type Span struct {
	*Call           // Its start.
	Comm    *Comm   // Nil where the context is unknown.
	Parent  *Span   // Nil without.
	Group   *Span   // The parentGroup of v5 on.
	States  []*Call // And repetitions.
	Stops   []*Call // More than one is a fault of the library.
	Process *Process
	// Children in order of start.
	Children []*Span
}

// Num is a field's number; a recording without it is broken.
func (c *Call) Num(key string) int {
	n, err := strconv.Atoi(c.Fields[key])
	if err != nil {
		panic(fmt.Sprintf("call %d (%s %s) has no number %s: %v", c.Index, c.Verb, c.Name, key, c.Fields))
	}
	return n
}

// Timer is the GPU's time of a KernelCh start or stop, since the first process's time 0; 0 where there is none.
func (c *Call) Timer() time.Duration {
	text := c.Fields["timer"]
	if c.Verb == State && c.Name == "KernelChStop" {
		text = c.Value
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n)
}

// Size is the transSize of a state, and whether it has one.
func (c *Call) Size() (int, bool) {
	text, _, _ := strings.Cut(c.Value, "/")
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// Live says whether the event was never stopped.
func (s *Span) Live() bool { return len(s.Stops) == 0 }

// End is the first stop, nil without.
func (s *Span) End() *Call {
	if s.Live() {
		return nil
	}
	return s.Stops[0]
}

// State is the first record of a state, nil without.
func (s *Span) State(name string) *Call {
	for _, c := range s.States {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Count is how often a state was recorded, repetitions included.
func (s *Span) Count(name string) int {
	n := 0
	for _, c := range s.States {
		if c.Name != name {
			continue
		}
		if c.Verb == Again {
			n += c.Count
		} else {
			n++
		}
	}
	return n
}

// Path is the sequence of the states without repetitions.
func (s *Span) Path() string {
	var path []string
	for _, c := range s.States {
		if len(path) == 0 || path[len(path)-1] != c.Name {
			path = append(path, c.Name)
		}
	}
	return strings.Join(path, " ")
}

// Of returns the children of a kind.
func (s *Span) Of(kind string) []*Span {
	var found []*Span
	for _, c := range s.Children {
		if c.Name == kind {
			found = append(found, c)
		}
	}
	return found
}

// Of returns the spans of a kind.
func (p *Process) Of(kinds ...string) []*Span {
	var found []*Span
	for _, s := range p.Spans {
		for _, k := range kinds {
			if s.Name == k {
				found = append(found, s)
			}
		}
	}
	return found
}

// Span returns the event of a handle, nil without.
func (p *Process) Span(handle int) *Span { return p.spans[handle] }

// ABI is the version that the first communicator negotiated.
func (p *Process) ABI() int {
	if len(p.Comms) == 0 {
		return 0
	}
	return p.Comms[0].Init.Num("abi")
}

func newProcess(name string) *Process {
	return &Process{Name: name, Threads: map[int]string{}, spans: map[int]*Span{}, comms: map[int]*Comm{}}
}

// add links a call to what came before.
func (p *Process) add(c *Call) {
	c.Index = len(p.Calls)
	p.Calls = append(p.Calls, c)
	switch c.Verb {
	case Init:
		comm := &Comm{Init: c}
		p.Comms = append(p.Comms, comm)
		p.comms[c.Num("ctx")] = comm
	case Finalize:
		if comm := p.comms[c.Num("ctx")]; comm != nil {
			comm.Finalize = c
		}
	case Start:
		s := &Span{Call: c, Process: p, Comm: p.comms[c.Num("ctx")], Parent: p.spans[c.Num("parent")]}
		if g := c.Fields["group"]; g != "" {
			s.Group = p.spans[c.Num("group")]
		}
		if s.Parent != nil {
			s.Parent.Children = append(s.Parent.Children, s)
		}
		c.Span = s
		p.Spans = append(p.Spans, s)
		p.spans[c.Handle] = s
	case State, Again, Stop:
		s := p.spans[c.Handle]
		c.Span = s
		if s == nil {
			return
		}
		if c.Verb == Stop {
			s.Stops = append(s.Stops, c)
			return
		}
		if c.Verb == Again && len(s.States) > 0 {
			c.Name, c.Value = s.States[len(s.States)-1].Name, s.States[len(s.States)-1].Value
		}
		s.States = append(s.States, c)
	}
}
