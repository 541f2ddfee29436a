// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package optable reads tables of operations: one row per operation of one rank, as CSV, TSV or Parquet. Columns are
// found by their names or by a given map. Durations of communication include waiting, as is usual.
package optable

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Role is what a column means.
type Role string

// Roles of columns. A table needs Op and two of Start, Duration and End, or Op and Duration.
const (
	Rank       Role = "rank"
	Step       Role = "step"
	Op         Role = "op"
	Start      Role = "start"
	Duration   Role = "duration"
	End        Role = "end"
	Seq        Role = "seq"
	Comm       Role = "comm"
	Peer       Role = "peer" // Global rank of the other side of a send or receive.
	Bytes      Role = "bytes"
	Stage      Role = "stage"
	DP         Role = "dp"
	TP         Role = "tp"
	Microbatch Role = "microbatch"
	Chunk      Role = "chunk" // Model chunk of an interleaved pipeline.
	Kind       Role = "kind"  // compute or communication.
)

// Roles lists all roles, for help texts.
func Roles() []string {
	out := []string{}
	for _, r := range slices.Sorted(maps.Keys(spellings)) {
		out = append(out, string(r))
	}
	return out
}

// spellings are names that columns have in the wild, without their unit, most telling first.
var spellings = map[Role][]string{
	Rank:       {"rank", "global_rank", "worker_rank", "worker", "worker_id", "rank_id", "gid", "gpu_rank"},
	Step:       {"step", "iteration", "iter", "step_id", "iteration_id", "global_step", "train_step"},
	Op:         {"optype", "op_type", "op", "op_name", "operation", "collective", "coll", "func", "event_name", "event", "name", "pattern"},
	Start:      {"start_ts", "start_time", "start", "ts", "timestamp", "begin", "begin_ts", "start_timestamp", "launch_time"},
	Duration:   {"duration", "dur", "elapsed", "elapsed_time", "exec_time", "latency", "time"},
	End:        {"end_ts", "end_time", "end", "finish", "finish_time", "stop"},
	Seq:        {"seq_id", "seq", "seqnum", "seq_num", "sequence", "sequence_number", "coll_sn", "op_id", "collective_seq_id"},
	Comm:       {"comm_id", "comm", "comm_hash", "communicator", "group_name", "process_group", "pg", "group", "group_id", "pg_name"},
	Peer:       {"peer", "peer_rank", "remote_rank", "dst_rank", "dst"},
	Bytes:      {"bytes", "nbytes", "message_size", "msg_size", "size", "data_size", "comm_size"},
	Stage:      {"stage", "pp_rank", "pp", "pipeline_rank", "pp_stage", "pipeline_stage", "stage_id"},
	DP:         {"dp_rank", "dp", "data_rank", "data_parallel_rank"},
	TP:         {"tp_rank", "tp", "tensor_rank", "tensor_parallel_rank"},
	Microbatch: {"mb_id", "mb", "microbatch", "micro_batch", "microbatch_id"},
	Chunk:      {"mc", "chunk", "model_chunk", "vpp_rank", "virtual_stage"},
	Kind:       {"kind", "category", "cat", "op_kind", "type"},
}

// unit is nanoseconds per unit of a column; 0 unknown.
type unit float64

var unitSuffixes = []struct {
	suffix string
	ns     unit
}{
	{"_nanoseconds", 1},
	{"_microseconds", 1e3},
	{"_milliseconds", 1e6},
	{"_seconds", 1e9},
	{"_secs", 1e9},
	{"_sec", 1e9},
	{"_ns", 1},
	{"_us", 1e3},
	{"_usec", 1e3},
	{"_ms", 1e6},
	{"_msec", 1e6},
	{"_s", 1e9},
}

// layout says where in a row everything is.
type layout struct {
	column map[Role]int
	unit   map[Role]unit
}

func (l *layout) has(r Role) bool {
	_, ok := l.column[r]
	return ok
}

// find maps a header to roles. given overrides: role to column name. ok is false when it is no op table's header.
func find(header []string, given map[string]string) (l layout, ok bool, err error) {
	l = layout{column: map[Role]int{}, unit: map[Role]unit{}}
	type name struct {
		bare string
		ns   unit
	}
	names := make([]name, len(header))
	for i, h := range header {
		names[i].bare, names[i].ns = bare(h)
	}
	taken := map[int]bool{}
	for role, column := range given {
		r := Role(role)
		if _, known := spellings[r]; !known {
			return l, false, fmt.Errorf("unknown column role %q, there are: %s", role, strings.Join(Roles(), ", "))
		}
		i := slices.Index(header, column)
		if i < 0 {
			continue // Of another table.
		}
		l.column[r], l.unit[r] = i, names[i].ns
		taken[i] = true
	}
	for _, r := range slices.Sorted(maps.Keys(spellings)) {
		if l.has(r) {
			continue
		}
	search:
		for _, s := range spellings[r] {
			for i := range names {
				if names[i].bare == s && !taken[i] {
					l.column[r], l.unit[r] = i, names[i].ns
					taken[i] = true
					break search
				}
			}
		}
	}
	times := 0
	for _, r := range []Role{Start, Duration, End} {
		if l.has(r) {
			times++
		}
	}
	return l, l.has(Op) && (times >= 2 || l.has(Duration)) && (l.has(Rank) || times >= 2), nil
}

// bare lowers a column's name and takes its unit off: "Start Time (us)" is start_time in microseconds.
func bare(h string) (string, unit) {
	h = strings.ToLower(strings.TrimSpace(strings.Trim(h, "\ufeff\"")))
	h = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '-', '.', '(', '[':
			return '_'
		case ')', ']':
			return -1
		}
		return r
	}, h)
	for strings.Contains(h, "__") {
		h = strings.ReplaceAll(h, "__", "_")
	}
	for _, u := range unitSuffixes {
		if b, ok := strings.CutSuffix(h, u.suffix); ok && b != "" {
			return b, u.ns
		}
	}
	return h, 0
}
