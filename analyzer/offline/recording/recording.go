// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recording reads what Culprit itself leaves: trace files of the shim, also of crashed and killed processes, and
// recorded answers of the exporters' API (GET /api/v1/state as JSON, GET /api/v1/trace as JSON lines).
package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Errors of the readers.
var (
	ErrNotRecording = errors.New("not a recording of Culprit")
	ErrVersion      = errors.New("recorded by a newer version")
)

// Node is what was recorded of one node, or of one process on it.
type Node struct {
	File        string
	Host        string
	NowNS       uint64 // The node's monotonic clock at the time of the recording.
	Frozen      bool   // Nobody knows how long after the last change the recording was made.
	Processes   []nodeapi.Process
	Completions []nodeapi.ProcessCompletion
	Facts       []nodeapi.Fact
	Unread      []nodeapi.Unread
	Lost        uint64 // Records overwritten before they were recorded.
	CutOff      bool
}

// traceMagic starts a trace file (CULPRIT_TRACE_MAGIC).
const traceMagic = "culprit\x00"

// SniffTrace recognises a trace file.
func SniffTrace(data []byte) bool { return bytes.HasPrefix(data, []byte(traceMagic)) }

// SniffJSON recognises answers of the exporters' API.
func SniffJSON(data []byte) bool {
	head := data[:min(len(data), 1024)]
	return bytes.Contains(head, []byte(`"exporter"`)) && bytes.Contains(data, []byte(`"processes"`)) ||
		(bytes.HasPrefix(bytes.TrimSpace(head), []byte(`{"header":`)) && bytes.Contains(head, []byte(`"now_ns"`)))
}

// ReadTrace reads a trace file's content. name is the path it has, or had; where that file is the content itself it is
// mapped, else a temporary copy.
func ReadTrace(name string, data []byte) (*Node, error) {
	path := name
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(data)) || !strings.HasSuffix(name, trace.Suffix) {
		dir, err := os.MkdirTemp("", "culprit-analyze-")
		if err != nil {
			return nil, fmt.Errorf("unpacking trace file: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		path = filepath.Join(dir, "unpacked"+trace.Suffix)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return nil, fmt.Errorf("unpacking trace file: %w", err)
		}
	}
	f, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var whole trace.Snapshot
	if err := f.Snapshot(&whole); err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	ranks := []*trace.File{f}
	if devices := f.Devices(); len(devices) > 0 {
		ranks = ranks[:0]
		for _, d := range devices {
			rank := f.Rank(d)
			defer func() { _ = rank.Close() }()
			ranks = append(ranks, rank)
		}
	}
	n := &Node{File: name, Host: whole.Identity.Hostname, Frozen: true, NowNS: newest(&whole)}
	for _, r := range ranks {
		if err := n.add(r, filepath.Base(name)); err != nil {
			return nil, err
		}
	}
	var kernel *nodeapi.Kernel
	if now, k, ok := local(&whole.Identity); ok {
		n.NowNS, n.Frozen, kernel = now, false, k
	}
	if now, ok := copiedAt(name, &whole); ok {
		n.NowNS, n.Frozen, kernel = now, false, nil
	}
	for i := range n.Processes {
		p := &n.Processes[i]
		p.Kernel, p.Lagging = kernel, trace.Lags(nil, p.QPs, n.NowNS)
	}
	return n, nil
}

// add reads one rank of a trace file.
func (n *Node) add(f *trace.File, name string) error {
	var p nodeapi.Process
	if err := f.Snapshot(&p.Snapshot); err != nil {
		return fmt.Errorf("reading state: %w", err)
	}
	p.Snapshot = p.Clone()
	p.Pair()
	id := &p.Identity
	p.File, p.Host, p.Rank, p.JobID = name, id.Hostname, id.Rank, jobID(id)
	if d := f.Device(); d >= 0 {
		p.File += "#" + strconv.Itoa(int(d))
	}
	if id.GPUIndex >= 0 {
		p.GPU = strconv.Itoa(int(id.GPUIndex))
	}
	done, span, err := f.Completions(0, nil)
	if err != nil {
		return fmt.Errorf("reading completions: %w", err)
	}
	n.Lost = span.Lost // Of the ring that all ranks of a process share.
	for _, c := range done {
		n.Completions = append(n.Completions, nodeapi.ProcessCompletion{File: p.File, Completion: c})
		n.NowNS = max(n.NowNS, c.LeftNS)
	}
	events, _, err := f.Lifecycle(0, nil)
	if err != nil {
		return fmt.Errorf("reading lifecycle events: %w", err)
	}
	var calls trace.Calls
	calls.Absorb(events, p.Comms)
	p.CallsSeen, p.Calls = calls.Seen, calls.List()
	n.Processes = append(n.Processes, p)
	return nil
}

func jobID(id *trace.Identity) string {
	for _, s := range []string{id.JobID, id.SlurmJobID} {
		if s != "" {
			return s
		}
	}
	return "unknown"
}

// newest is the newest time stamp in a snapshot: a lower bound of when it was last written.
func newest(s *trace.Snapshot) uint64 {
	t := max(s.Status.HeartbeatNS, s.Status.ClosedNS, s.Status.GroupOpenSinceNS)
	for i := range s.Comms {
		t = max(t, s.Comms[i].LastCalledNS, s.Comms[i].LastProgressNS, s.Comms[i].LastCompletedNS)
	}
	for i := range s.Ops {
		t = max(t, s.Ops[i].CalledNS, s.Ops[i].LastProgressNS)
	}
	for i := range s.Flows {
		t = max(t, s.Flows[i].LastProgressNS)
	}
	return t
}

// ReadJSON reads recorded answers of either kind, several one after another too.
func ReadJSON(name string, data []byte) ([]*Node, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte(`{"header":`)) {
		n, err := ReadTraceLines(name, data)
		if err != nil {
			return nil, err
		}
		return []*Node{n}, nil
	}
	var out []*Node
	dec := json.NewDecoder(bytes.NewReader(data))
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return out, fmt.Errorf("decoding answer %d: %w", len(out)+1, err)
		}
		n, err := ReadState(name, raw)
		if err != nil {
			return out, err
		}
		out = append(out, n)
	}
	return out, nil
}

// ReadState reads one answer of GET /api/v1/state.
func ReadState(name string, data []byte) (*Node, error) {
	var s nodeapi.State
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("decoding state: %w", err)
	}
	if s.Version > nodeapi.Version {
		return nil, fmt.Errorf("%w: %d", ErrVersion, s.Version)
	}
	if s.Version == 0 || s.Processes == nil && s.Node == "" {
		return nil, ErrNotRecording
	}
	n := &Node{File: name, Host: s.Node, NowNS: s.NowNS, Processes: s.Processes, Facts: s.Facts, Unread: s.Unread}
	for i := range s.Processes {
		p := &s.Processes[i]
		for _, c := range p.Completions {
			n.Completions = append(n.Completions, nodeapi.ProcessCompletion{File: p.File, Completion: c})
		}
	}
	return n, nil
}

// ReadTraceLines reads one answer of GET /api/v1/trace. What was read before a cut counts.
func ReadTraceLines(name string, data []byte) (*Node, error) {
	n := &Node{File: name, CutOff: true}
	at := map[string]int{}
	newest := map[string]uint64{}
	r := bufio.NewReader(bytes.NewReader(data))
	for lines := 0; ; lines++ {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) == 0 {
			if errors.Is(err, io.EOF) {
				break
			}
			continue
		}
		var l nodeapi.TraceLine
		if jsonErr := json.Unmarshal(line, &l); jsonErr != nil {
			if lines == 0 {
				return nil, fmt.Errorf("%w: %w", ErrNotRecording, jsonErr)
			}
			break
		}
		switch {
		case l.Header != nil:
			if l.Header.Version > nodeapi.Version {
				return nil, fmt.Errorf("%w: %d", ErrVersion, l.Header.Version)
			}
			n.Host, n.NowNS = l.Header.Node, l.Header.NowNS
		case l.Process != nil:
			at[l.Process.File] = len(n.Processes)
			n.Processes = append(n.Processes, *l.Process)
		case l.Completion != nil:
			n.Completions = append(n.Completions, *l.Completion)
		case l.Sample != nil:
			// The newest sample is the state.
			if i, ok := at[l.Sample.File]; ok && l.Sample.AtNS >= newest[l.Sample.File] {
				newest[l.Sample.File] = l.Sample.AtNS
				p := &n.Processes[i]
				p.Ops, p.Flows, p.Status = l.Sample.Ops, l.Sample.Flows, l.Sample.Status
			}
		case l.Trailer != nil:
			n.CutOff, n.Lost = l.Trailer.Truncated, l.Trailer.Lost
		}
	}
	if n.NowNS == 0 {
		return nil, ErrNotRecording
	}
	return n, nil
}
