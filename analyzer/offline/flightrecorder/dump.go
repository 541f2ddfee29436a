// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package flightrecorder reads the dumps of PyTorch's Flight Recorder (M12), pickled or JSON, PyTorch 2.4 and newer,
// and turns those of a job into evidence. A dump is what one rank remembered of its process groups: what it enqueued
// last, what completed last, and the operations in a ring buffer; often only those that were pending.
package flightrecorder

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/cutoff"
	"github.com/culprit-project/culprit/analyzer/offline/pickle"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Dump is one rank's dump.
type Dump struct {
	File           string
	Version        string // Of the dump's format, "2.9".
	LibraryVersion string // NCCL's, "2.27.3".
	Groups         []Group
	Status         map[int64]Status // By the rank's local group number (Entry.GroupID).
	Entries        []Entry          // In order of recording.
	HasStatus      bool             // The format has counters at all.
	HasEntries     bool             // The dump has a list of operations, if an empty one.
	Truncated      bool             // The file ended too early: entries may be lacking.
	Refused        []string         // Code that the pickle asked for and that was not run.
	Host           string           // Only custom writers add it.
	RankClaim      int              // A rank written in the dump (custom writers), -1 none.
	NewestNS       int64            // Newest time stamp of any operation, Unix time.
	Timing         bool             // Starts were recorded: an operation without one has not begun.
	Assumed        bool             // Some completions are assumed (Entry.Assumed).
	Recorded       int              // Operations in the dump; Entries leaves older completed ones out.
	Unnumbered     bool             // Operations have no number in their group: they cannot be compared.
	batched        map[string]bool  // Groups by name whose sends and receives were launched in batches.
}

// Group is a process group as the rank knows it.
type Group struct {
	Name  string
	Desc  string
	Ranks []int // Global ranks in order; empty unknown. Shared between dumps: not to be changed.
	// ID tells groups apart. A name alone does not: different ranks use one name for different groups, so the members
	// count.
	ID rca.CommID
}

// Status holds a group's counters. They count collectives, or send/recv where the group does those: whatever the rank
// enqueued last. -1: none yet, or never seen.
type Status struct {
	Enqueued  int64
	Started   int64
	Completed int64
}

// EntryState is how far an operation had come.
type EntryState string

// Entry states. Without timing enabled PyTorch never reports Started.
const (
	Scheduled EntryState = "scheduled"
	Started   EntryState = "started"
	Completed EntryState = "completed"
)

// Entry is one operation.
type Entry struct {
	GroupID       int64
	Group, Desc   string
	RecordID      int64
	CollectiveSeq int64 // -1 unknown.
	P2PSeq        int64
	OpID          int64
	Name          string // "all_reduce", "send"; without the backend's prefix.
	Backend       string // "nccl"; empty unknown.
	Barrier       bool
	Src, Dst      int // Send/recv: ranks in the group; -1.
	P2P           bool
	Input, Output Shape
	State         EntryState
	CreatedNS     int64 // Unix time; 0 unknown.
	StartedNS     int64
	CompletedNS   int64
	DurationNS    int64 // Of the kernel, 0 unknown.
	TimeoutMS     int64
	Retired       bool
	InBatch       bool     // Its state is that of the batch that it was launched in.
	Host          bool     // Of a backend that works on the CPU.
	Assumed       bool     // The backend reports no states: completed as far as the recorder knows, or failed.
	Stack         []string // Innermost last.
}

// Shape is the sum of an operation's tensors on one side.
type Shape struct {
	Elements int64 // -1 unknown.
	Tensors  int
	Even     bool // All tensors are of one size.
	Datatype string
}

// Pending says whether the operation had not completed.
func (e *Entry) Pending() bool { return e.State != Completed }

// Errors of Decode.
var (
	// ErrNotDump: well-formed, but something else than a Flight Recorder dump.
	ErrNotDump = errors.New("not a flight recorder dump")
	// ErrCode: a pickle that holds calls instead of a dump. Nothing was run.
	ErrCode = errors.New("pickle asks to run code, refused")
)

const (
	maxEntries = 1 << 20
	maxStack   = 24
	maxRanks   = 1 << 20
)

// Decode reads a dump from a pickle or from JSON. A truncated one gives what was complete before the end, marked.
func Decode(file string, data []byte, shared *Shared) (*Dump, error) {
	var root any
	d := &Dump{File: file, RankClaim: -1, Status: map[int64]Status{}}
	if isJSON(data) {
		v, err := decodeJSON(data)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			d.Truncated = true
			v, err = decodeJSON(cutoff.JSON(data))
		}
		if err != nil {
			return nil, fmt.Errorf("decoding JSON: %w", err)
		}
		root = v
	} else {
		res, err := pickle.Decode(data)
		d.Refused = res.Refused
		switch {
		case errors.Is(err, pickle.ErrTruncated):
			d.Truncated = true
		case err != nil:
			return nil, err
		}
		root = res.Value
		if object(root) == nil && len(d.Refused) > 0 {
			return nil, fmt.Errorf("%w: %s", ErrCode, strings.Join(d.Refused, ", "))
		}
		if object(root) == nil && d.Truncated {
			return nil, err
		}
	}
	if err := d.fill(root, shared); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Dump) fill(root any, shared *Shared) error {
	top := object(root)
	if top == nil {
		return ErrNotDump
	}
	entries, hasEntries := list(top.get("entries"))
	config, status := object(top.get("pg_config")), object(top.get("pg_status"))
	d.Version = text(top.get("version"))
	// PyTorch's JSON leaves an empty list of entries out.
	if !hasEntries && (d.Version == "" || (config == nil && status == nil)) {
		return ErrNotDump
	}
	if len(entries) > maxEntries {
		return fmt.Errorf("%d entries are more than any ring buffer has", len(entries))
	}
	d.HasEntries = hasEntries || !d.Truncated
	d.HasStatus = status != nil
	d.LibraryVersion = firstText(top.get("nccl_version"), top.get("comm_lib_version"), top.get("xccl_version"))
	d.Host = firstText(top.get("hostname"), top.get("host_name"), top.get("host"))
	if r, ok := integer(top.get("rank")); ok && r >= 0 && r < maxRanks {
		d.RankClaim = int(r)
	}
	d.groups(config, shared)
	d.counters(status)
	d.Entries = make([]Entry, 0, len(entries))
	for _, raw := range entries {
		if e, ok := entry(object(raw)); ok {
			d.Entries = append(d.Entries, e)
		} else {
			d.Truncated = true
		}
	}
	d.perGroup()
	d.settleBatches()
	d.trim()
	return nil
}

// trim keeps what the evidence needs: everything pending, and of every group the last few that completed. A full ring
// buffer of every rank of a large job would not fit in memory.
func (d *Dump) trim() {
	d.Recorded = len(d.Entries)
	kept := map[string]int{}
	keep := make([]bool, len(d.Entries))
	n := 0
	for i := range slices.Backward(d.Entries) {
		e := &d.Entries[i]
		d.NewestNS = max(d.NewestNS, e.CreatedNS, e.StartedNS, e.CompletedNS)
		d.Assumed = d.Assumed || e.Assumed
		d.Timing = d.Timing || e.StartedNS > 0 || e.State == Started
		if !e.Pending() {
			kept[e.Group]++
		}
		if keep[i] = e.Pending() || kept[e.Group] <= recentKept; keep[i] {
			n++
		}
	}
	entries := make([]Entry, 0, n)
	for i := range d.Entries {
		if keep[i] {
			entries = append(entries, d.Entries[i])
		}
	}
	d.Entries = entries
}

func (d *Dump) groups(config fields, shared *Shared) {
	if config == nil {
		return
	}
	config.each(func(key string, v any) {
		if key == "" {
			return // Some versions write gloo's groups without names, one over the other.
		}
		g := Group{Name: key, ID: rca.CommID(key)}
		if o := object(v); o != nil {
			g.Desc = text(o.get("desc"))
			m := shared.ranks(o.get("ranks"))
			g.Ranks = m.ranks
			if len(m.ranks) > 0 {
				g.ID = rca.CommID(fmt.Sprintf("%s/%d/%08x", g.Name, len(m.ranks), m.hash))
			}
		}
		d.Groups = append(d.Groups, g)
	})
}

func (d *Dump) counters(status fields) {
	if status == nil {
		return
	}
	status.each(func(key string, v any) {
		id, ok := integer(key)
		o := object(v)
		if !ok || o == nil {
			return
		}
		d.Status[id] = Status{
			Enqueued:  number(o.get("last_enqueued_collective"), -1),
			Started:   number(o.get("last_started_collective"), -1),
			Completed: number(o.get("last_completed_collective"), -1),
		}
	})
}
