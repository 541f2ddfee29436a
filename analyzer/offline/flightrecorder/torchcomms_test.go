// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

type call struct {
	comm, op string
	pending  bool
}

// torchComms is a dump of TorchComms: one row of numbers for all communicators of a process, and no counters. The first entries
// may be gone.
func torchComms(t *testing.T, rank int, comms map[string]string, calls []call, gone int) *Dump {
	t.Helper()
	config, entries := map[string]any{}, []any{}
	for name, ranks := range comms {
		config[name] = map[string]any{"name": name, "desc": "ncclx", "ranks": ranks}
	}
	for i, c := range calls {
		if i < gone {
			continue
		}
		state, done := "completed", any(2000+i)
		if c.pending {
			state, done = "scheduled", nil
		}
		entries = append(entries, map[string]any{
			"record_id": i, "pg_id": 0, "process_group": []string{c.comm, "ncclx"}, "collective_seq_id": i, "p2p_seq_id": 0, "op_id": i,
			"profiling_name": "ncclx:" + c.op, "time_created_ns": 1000 + i, "input_sizes": [][]int{{4}}, "input_dtypes": []string{"Float"},
			"output_sizes": [][]int{{4}}, "output_dtypes": []string{"Float"}, "state": state, "time_discovered_started_ns": nil,
			"time_discovered_completed_ns": done, "retired": !c.pending, "timeout_ms": 600000, "is_p2p": false,
		})
	}
	data, err := json.Marshal(map[string]any{"version": "2.10", "comm_lib_version": "2.27.3", "pg_config": config, "pg_status": map[string]any{}, "entries": entries})
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(fmt.Sprintf("comm_lib_trace_rank_%d", rank), data, &Shared{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Ranks 0 and 1 use a communicator of their own between those of all; rank 2 stays out of the last operation of all.
func TestTorchComms(t *testing.T) {
	for _, tc := range []struct {
		name  string
		gone  int
		ranks []int
	}{
		{"whole", 0, []int{2}},
		{"the oldest are gone", 1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var dumps []*Dump
			for rank := range 4 {
				comms := map[string]string{"world": "[0,1,2,3]"}
				calls := []call{{"world", "all_reduce", false}}
				if rank < 2 {
					comms["pair"] = "[0,1]"
					for range 3 {
						calls = append(calls, call{"pair", "all_gather_single", false})
					}
				} else {
					comms["other"] = "[2,3]"
					calls = append(calls, call{"other", "reduce_scatter_single", false})
				}
				calls = append(calls, call{"world", "all_reduce", false})
				if rank != 2 {
					calls = append(calls, call{"world", "all_reduce", true})
				}
				dumps = append(dumps, torchComms(t, rank, comms, calls, tc.gone))
			}
			if d := dumps[3]; d.Unnumbered != (tc.gone > 0) {
				t.Errorf("unnumbered: %v", d.Unnumbered)
			}
			assigned, rest := Assign(dumps)
			if len(rest) > 0 {
				t.Fatalf("left out: %v", rest)
			}
			v := engine.Analyze(Evidence(assigned), rca.Options{HangAfter: 1, FirstOps: -2})
			var ranks []int
			for _, c := range v.Culprits {
				if c.Rank >= 0 {
					ranks = append(ranks, c.Rank)
				}
			}
			if !slices.Equal(ranks, tc.ranks) && (tc.ranks != nil || len(ranks) > 0 && !slices.Equal(ranks, []int{2})) {
				t.Errorf("%s %v, want %v: %s", v.Class, ranks, tc.ranks, v.Summary)
			}
			if tc.ranks != nil && v.Class != rca.NotEntered {
				t.Errorf("%s: %s", v.Class, v.Summary)
			}
		})
	}
}

// The numbers of PyTorch's own recorder stay as they are.
func TestPerGroupLeavesPyTorch(t *testing.T) {
	d := Dump{Entries: []Entry{
		{Backend: "nccl", Desc: "default_pg", Group: "0", RecordID: 1, CollectiveSeq: 1},
		{Backend: "nccl", Desc: "default_pg", Group: "0", RecordID: 2, CollectiveSeq: 2},
	}}
	d.perGroup()
	if d.Entries[0].CollectiveSeq != 1 || d.Entries[1].CollectiveSeq != 2 {
		t.Errorf("%+v", d.Entries)
	}
}
