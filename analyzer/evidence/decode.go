// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// An exporter passes on what processes wrote, and processes may lie. A limit on bytes does not bound memory: "{}", or a null in a list,
// becomes a record of several hundred bytes. So the objects of an answer are counted before they are created.

// Limits on objects: of one process, of one host's device reports, of all answers that one analysis keeps, and of those that all
// analyses keep. An object takes 650 bytes at most. A rank with 16 communicators of 32 channels has about 2,000.
const (
	processObjects  = 1 << 16
	nodeObjects     = 1 << 14
	analysisObjects = 1 << 20
	// ServiceObjects is the limit to pass to NewAllowance.
	ServiceObjects = 1 << 21
)

// Allowance limits the objects that all analyses keep together. A nil Allowance has no limit.
type Allowance struct {
	most int64
	used atomic.Int64
}

// NewAllowance makes an allowance of this many objects.
func NewAllowance(objects int64) *Allowance { return &Allowance{most: objects} }

// take reserves n objects; false where fewer are left.
func (a *Allowance) take(n int64) bool {
	if a == nil {
		return true
	}
	if a.used.Add(n) > a.most {
		a.used.Add(-n)
		return false
	}
	return true
}

func (a *Allowance) give(n int64) {
	if a != nil {
		a.used.Add(-n)
	}
}

// purse takes the objects of one answer from the analysis's allowance and from the shared one.
type purse struct {
	s    *Session
	held int64
}

func (p *purse) take(n int64) bool {
	switch {
	case p.s.objects.Add(n) > analysisObjects:
	case p.s.g.Allowance.take(n):
		p.held += n
		return true
	}
	p.s.objects.Add(-n)
	return false
}

func (s *Session) give(n int64) {
	s.objects.Add(-n)
	s.g.Allowance.give(n)
}

// Close returns what the session holds of the allowance. The session must not be used afterwards.
func (s *Session) Close() { s.give(s.objects.Load()) }

// fewScalars is how many numbers or texts a list may have for nothing: records have lists of a few.
const fewScalars = 32

// objects counts what a valid JSON text has made. An element of a list makes a record of several hundred bytes also where it is null, or
// a list, or a number, which is found to be none only afterwards.
func objects(raw []byte) int64 {
	type level struct {
		list    bool
		scalars int
	}
	var n int64
	var open []level
	for i := 0; i < len(raw); i++ {
		inList := len(open) > 0 && open[len(open)-1].list
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
		case '}', ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		case '{', '[':
			if c == '{' || inList {
				n++
			}
			open = append(open, level{list: c == '['})
		default:
			i += scalarEnd(raw[i:])
			if !inList {
				continue
			}
			top := &open[len(open)-1]
			if top.scalars++; c == 'n' || top.scalars > fewScalars {
				n++
			}
		}
	}
	return n
}

// scalarEnd gives the place of the last byte of the text, number or name that begins a JSON text.
func scalarEnd(raw []byte) int {
	i := 1
	if raw[0] == '"' {
		for i < len(raw) && raw[i] != '"' {
			if raw[i] == '\\' {
				i++
			}
			i++
		}
		return i
	}
	for ; i < len(raw); i++ {
		switch raw[i] {
		case ',', ':', ']', '}', ' ', '\t', '\r', '\n':
			return i - 1
		}
	}
	return i - 1
}

// decodeState reads a State process by process. A process that is too large, or for which take refuses, is left out and reported
// as unread: it costs only its own data.
func decodeState(r io.Reader, take func(n int64) bool) (*nodeapi.State, error) {
	state := new(nodeapi.State)
	dec := json.NewDecoder(r)
	if err := delim(dec, '{'); err != nil {
		return nil, err
	}
	rest := map[string]json.RawMessage{}
	var left []nodeapi.Unread
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if name != "processes" {
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				return nil, err
			}
			rest[name] = raw
			continue
		}
		err = elements(dec, func(raw json.RawMessage) {
			p, why := decodeProcess(raw, take)
			if why != "" {
				left = append(left, nodeapi.Unread{File: p.File, Error: why})
				return
			}
			state.Processes = append(state.Processes, p)
		})
		if err != nil {
			return nil, err
		}
	}
	if err := delim(dec, '}'); err != nil {
		return nil, err
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	if n := objects(text); n > nodeObjects {
		return nil, fmt.Errorf("%d objects beside its processes, more than %d", n, nodeObjects)
	}
	processes := state.Processes
	if err := json.Unmarshal(text, state); err != nil {
		return nil, err
	}
	state.Processes, state.Unread = processes, append(state.Unread, left...)
	return state, nil
}

func decodeProcess(raw json.RawMessage, take func(n int64) bool) (p nodeapi.Process, why string) {
	n := objects(raw)
	switch {
	case n > processObjects:
		why = fmt.Sprintf("its state has %d objects, more than %d", n, processObjects)
	case !take(n):
		why = "the states of all processes together are too large"
	default:
		if err := json.Unmarshal(raw, &p); err != nil {
			return p, "reading its state: " + err.Error()
		}
		return p, ""
	}
	var name struct {
		File string `json:"file"`
	}
	_ = json.Unmarshal(raw, &name) // A process without a name is left out as well.
	return nodeapi.Process{File: name.File}, why
}

// elements yields the elements of an array, or of null, one by one.
func elements(dec *json.Decoder, yield func(json.RawMessage)) error {
	t, err := dec.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("%v where an array should be", t)
	}
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		yield(raw)
	}
	return delim(dec, ']')
}

func delim(dec *json.Decoder, want json.Delim) error {
	t, err := dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case t != want:
		return fmt.Errorf("%v where %v should be", t, want)
	}
	return nil
}

// traceLine holds the used parts of a nodeapi.TraceLine. The rest of a line is not decoded.
type traceLine struct {
	Header *struct {
		Version int `json:"version"`
	} `json:"header"`
	Process *struct {
		File  string `json:"file"`
		JobID string `json:"job_id"`
		Rank  int32  `json:"rank"`
	} `json:"process"`
	Completion *nodeapi.ProcessCompletion `json:"completion"`
	Trailer    *struct{}                  `json:"trailer"`
}

// used gives the line in the form that NodeAPI returns.
func (l *traceLine) used() *nodeapi.TraceLine {
	out := &nodeapi.TraceLine{Completion: l.Completion}
	if l.Header != nil {
		out.Header = &nodeapi.TraceHeader{Version: l.Header.Version}
	}
	if p := l.Process; p != nil {
		out.Process = &nodeapi.Process{File: p.File, JobID: p.JobID, Rank: p.Rank}
	}
	if l.Trailer != nil {
		out.Trailer = &nodeapi.TraceTrailer{}
	}
	return out
}
