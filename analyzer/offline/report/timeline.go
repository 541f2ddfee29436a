// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
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

// Timeline writes what the evidence holds of time as a trace that Chrome and Perfetto open: one process a rank,
// one thread a communicator. Operations in flight end at the moment of the evidence. The file appears whole or not.
func Timeline(path string, r *diagnosis.Result) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".timeline-*")
	if err != nil {
		return fmt.Errorf("writing timeline: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	err = encodeTimeline(w, r)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing timeline %s: %w", path, err)
	}
	return nil
}

func encodeTimeline(w *bufio.Writer, r *diagnosis.Result) error {
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
	threads := commThreads(r.Evidence.Comms)
	guilty := map[int]bool{}
	for _, rank := range diagnosis.Accused(r.Verdict) {
		guilty[rank] = true
	}
	for i := range r.Evidence.Ranks {
		rank := &r.Evidence.Ranks[i]
		name := fmt.Sprintf("rank %d %s", rank.ID, rank.Host)
		if guilty[rank.ID] {
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
	for i, s := range r.Evidence.Timeline {
		if i == 0 || s.Start < origin {
			origin = s.Start
		}
	}
	for i := range r.Evidence.Timeline {
		emit(finished(&r.Evidence.Timeline[i], threads, origin))
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
