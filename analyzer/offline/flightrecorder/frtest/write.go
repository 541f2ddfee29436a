// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package frtest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Dict is an ordered dict to pickle; keys and values alternate.
type Dict []any

// Pickle encodes None, bool, int, int64, float64, string, []any and Dict in protocol 2 with a memo for strings, as
// PyTorch does.
func Pickle(v any) []byte {
	w := &pickler{memo: map[string]uint32{}}
	w.b = append(w.b, 0x80, 2)
	w.value(v)
	return append(w.b, '.')
}

type pickler struct {
	b    []byte
	memo map[string]uint32
	next uint32
}

func (w *pickler) put() {
	if w.next < 256 {
		w.b = append(w.b, 'q', byte(w.next))
	} else {
		w.b = append(w.b, 'r')
		w.b = binary.LittleEndian.AppendUint32(w.b, w.next)
	}
	w.next++
}

func (w *pickler) value(v any) {
	switch v := v.(type) {
	case nil:
		w.b = append(w.b, 'N')
	case bool:
		w.b = append(w.b, map[bool]byte{true: 0x88, false: 0x89}[v])
	case int:
		w.value(int64(v))
	case int64:
		if v == int64(int32(v)) {
			w.b = append(w.b, 'J')
			w.b = binary.LittleEndian.AppendUint32(w.b, uint32(int32(v)))
			return
		}
		w.b = append(w.b, 0x8a, 8)
		w.b = binary.LittleEndian.AppendUint64(w.b, uint64(v)) // Two's complement is meant.
	case string:
		w.text(v)
	case []any:
		w.b = append(w.b, ']')
		w.put()
		w.b = append(w.b, '(')
		for _, it := range v {
			w.value(it)
		}
		w.b = append(w.b, 'e')
	case Dict:
		w.b = append(w.b, '}', '(')
		for _, it := range v {
			w.value(it)
		}
		w.b = append(w.b, 'u')
	case tuple:
		for _, it := range v {
			w.text(it)
		}
		w.b = append(w.b, 0x86)
		w.put()
	default:
		panic(fmt.Sprintf("frtest cannot pickle %T", v))
	}
}

type tuple [2]string

func (w *pickler) text(s string) {
	if at, ok := w.memo[s]; ok {
		if at < 256 {
			w.b = append(w.b, 'h', byte(at))
		} else {
			w.b = append(w.b, 'j')
			w.b = binary.LittleEndian.AppendUint32(w.b, at)
		}
		return
	}
	w.b = append(w.b, 'X')
	w.b = binary.LittleEndian.AppendUint32(w.b, uint32(len(s)))
	w.b = append(w.b, s...)
	w.memo[s] = w.next
	w.put()
}

const epoch = int64(1_700_000_000_000_000_000)

// Dump gives a rank's dump as a dict.
func (j *Job) Dump(s State) Dict {
	config, status := Dict{}, Dict{}
	local := map[int]int{}
	members := make([]int, 0, len(j.Groups))
	for gi, g := range j.Groups {
		if !slices.Contains(g.Ranks, s.Rank) {
			continue
		}
		local[gi] = len(local)
		members = append(members, gi)
	}
	// The recorder keeps groups in the order of their names.
	slices.SortFunc(members, func(a, b int) int { return strings.Compare(j.Groups[a].Name, j.Groups[b].Name) })
	for _, gi := range members {
		g := j.Groups[gi]
		text := strings.ReplaceAll(fmt.Sprint(g.Ranks), " ", ", ")
		config = append(config, g.Name, Dict{"name", g.Name, "desc", g.Desc, "ranks", text})
		if n := s.Count[gi]; n != nil {
			status = append(status, strconv.Itoa(local[gi]), Dict{
				"last_enqueued_collective", n.Enqueued, "last_started_collective", int64(-1),
				"last_completed_collective", n.Completed,
			})
		}
	}
	entries := []any{}
	first := 0
	for first < len(s.Ops) && s.Ops[first].Completed {
		first++
	}
	first = max(0, first-j.Ring)
	for i := range s.Ops[first:] {
		if op := &s.Ops[first+i]; !op.Completed || j.Ring > 0 {
			entries = append(entries, j.entry(s.Rank, local[op.Call.Group], op))
		}
	}
	return Dict{
		"version", "2.9", "pg_config", config, "nccl_version", "2.27.3", "pg_status", status, "entries", entries,
	}
}

func (j *Job) entry(rank, local int, op *Op) Dict {
	g := j.Groups[op.Call.Group]
	place := slices.Index(g.Ranks, rank)
	name, p2p := "nccl:"+op.Call.Kind, false
	collective, pair := op.Seq, int64(0)
	switch op.Call.Kind {
	case "send":
		name, p2p = fmt.Sprintf("nccl:send %d->%d", place, op.Call.Peer), true
	case "recv":
		name, p2p = fmt.Sprintf("nccl:recv %d<-%d", place, op.Call.Peer), true
	}
	if p2p {
		collective, pair = 0, op.Seq
	}
	state, started, completed := "scheduled", any(nil), any(nil)
	created := epoch + op.Record*1_000_000 + int64(rank)*1000
	if j.Clock != nil {
		created += j.Clock(rank)
	}
	if op.Started && j.Timing {
		state, started = "started", created+10_000
	}
	if op.Completed {
		state, completed = "completed", created+900_000
	}
	datatype := op.Call.Type
	if datatype == "" {
		datatype = "BFloat16"
	}
	return Dict{
		"record_id", op.Record, "pg_id", local, "process_group",
		tuple{g.Name, g.Desc},
		"collective_seq_id", collective,
		"p2p_seq_id", pair, "op_id", op.OpID, "profiling_name", name, "time_created_ns", created,
		"input_sizes",
		[]any{sizes(op.Call.Input)},
		"input_dtypes",
		[]any{datatype},
		"output_sizes",
		[]any{sizes(op.Call.Output)},
		"output_dtypes",
		[]any{datatype},
		"state", state, "time_discovered_started_ns", started, "time_discovered_completed_ns", completed,
		"retired", op.Completed, "timeout_ms", 600000, "is_p2p", p2p,
	}
}

func sizes(dims []int64) []any {
	out := make([]any, len(dims))
	for i, d := range dims {
		out[i] = d
	}
	return out
}

// Write writes all dumps below dir, named as PyTorch does by default.
func (j *Job) Write(dir string) error {
	for _, s := range j.Run() {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("nccl_trace_rank_%d", s.Rank)), Pickle(j.Dump(s)), 0o644); err != nil {
			return fmt.Errorf("writing dump: %w", err)
		}
	}
	return nil
}
