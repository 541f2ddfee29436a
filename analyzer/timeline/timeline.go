// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline writes what evidence holds of time as a trace that Chrome and Perfetto open.
package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Event is one of the Chrome trace event format; times are microseconds.
type Event struct {
	Name     string         `json:"name"`
	Phase    string         `json:"ph"`
	PID      int            `json:"pid"` // The rank.
	TID      int            `json:"tid"` // The communicator.
	Start    float64        `json:"ts"`
	Duration float64        `json:"dur,omitempty"`
	Category string         `json:"cat,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// Write writes a trace: one process a rank, one thread a communicator. Operations in flight end at the moment of the evidence.
func Write(out io.Writer, ev *rca.Evidence, v *rca.Verdict) error {
	w := bufio.NewWriterSize(out, 1<<20)
	if err := encode(w, ev, v); err != nil {
		return err
	}
	return w.Flush()
}

func encode(w *bufio.Writer, ev *rca.Evidence, v *rca.Verdict) error {
	enc := json.NewEncoder(w)
	separator := `{"displayTimeUnit":"ms","traceEvents":[` + "\n"
	var failed error
	emit := func(e Event) {
		if failed == nil {
			_, failed = w.WriteString(separator)
		}
		if failed == nil {
			failed = enc.Encode(e)
		}
		separator = ","
	}
	threads := commThreads(ev.Comms)
	for i := range ev.Ranks {
		rank := &ev.Ranks[i]
		name := fmt.Sprintf("rank %d %s", rank.ID, rank.Host)
		if slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool { return c.Rank == rank.ID }) {
			name += " (culprit)"
		}
		emit(Event{Name: "process_name", Phase: "M", PID: rank.ID, Args: map[string]any{"name": name}})
		for _, m := range rank.Memberships {
			emit(Event{Name: "thread_name", Phase: "M", PID: rank.ID, TID: threads[m.Comm].id, Args: map[string]any{"name": threads[m.Comm].name}})
			for _, op := range m.InFlight {
				if op.Age >= 0 {
					emit(pending(rank.ID, threads[m.Comm].id, op))
				}
			}
		}
	}
	origin := int64(0)
	for i, s := range ev.Timeline {
		if i == 0 || s.Start < origin {
			origin = s.Start
		}
	}
	for i := range ev.Timeline {
		emit(finished(&ev.Timeline[i], threads, origin))
	}
	if failed == nil && separator != "," {
		_, failed = w.WriteString(separator)
	}
	if failed == nil {
		_, failed = w.WriteString("]}\n")
	}
	return failed
}

type commThread struct {
	id   int
	name string
}

// computeThread shows what is no communication.
const computeThread = 0

func commThreads(comms []rca.Comm) map[rca.CommID]commThread {
	out := map[rca.CommID]commThread{}
	for i, c := range comms {
		out[c.ID] = commThread{i + 1, c.Name}
	}
	return out
}

// pending puts an operation in flight left of the moment of the evidence, which is 0.
func pending(rank, thread int, op rca.Op) Event {
	us := float64(op.Age.Nanoseconds()) / 1e3
	return Event{
		Name: opName(&op) + " (pending)", Phase: "X", PID: rank, TID: thread, Start: -us, Duration: us, Category: "pending",
		Args: map[string]any{"number": op.Number, "bytes": op.Bytes, "datatype": op.Datatype},
	}
}

func finished(s *rca.Segment, threads map[rca.CommID]commThread, origin int64) Event {
	thread, category := threads[s.Comm].id, "communication"
	if s.Kind == rca.SegmentCompute {
		thread, category = computeThread, "compute"
	}
	return Event{
		Name: s.Func, Phase: "X", PID: s.Rank, TID: thread, Category: category,
		Start: float64(s.Start-origin) / 1e3, Duration: float64(s.End-s.Start) / 1e3,
		Args: map[string]any{"iteration": s.Iteration, "number": s.Number, "bytes": s.Bytes, "peer": s.Peer},
	}
}

func opName(op *rca.Op) string {
	s := cmp.Or(op.Func, "operation")
	if op.Seq >= 0 && op.Peer < 0 {
		s += fmt.Sprintf(" %d", op.Seq)
	}
	if op.Peer >= 0 {
		s += fmt.Sprintf(" with %d", op.Peer)
	}
	return s
}
