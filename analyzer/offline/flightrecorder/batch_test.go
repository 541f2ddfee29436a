// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// exchange is what a rank of a ring of three that exchanges with its neighbours in batches, step by step, has recorded:
// sends and receives keep the state in which they were launched, the end of each batch has the state of all. Batches
// before first are not in the ring buffer any more; of those before ended only the end is lacking.
func exchange(rank, first, ended, launched, completed int) string {
	next, prev := (rank+1)%3, (rank+2)%3
	var entries []map[string]any
	add := func(step int, name, state string) {
		entries = append(entries, map[string]any{
			"record_id": len(entries), "pg_id": 0, "process_group": []string{"0", "default_pg"}, "collective_seq_id": 7, "p2p_seq_id": step,
			"op_id": len(entries), "profiling_name": "nccl:" + name, "time_created_ns": 1_700_000_000_000_000_000 + step, "is_p2p": true,
			"state": state, "retired": state == "completed", "input_sizes": [][]int{{64}}, "input_dtypes": []string{"Float"},
		})
	}
	for step := first; step <= launched; step++ {
		add(step, fmt.Sprintf("send %d->%d", rank, next), "scheduled")
		add(step, fmt.Sprintf("recv %d<-%d", rank, prev), "scheduled")
		state := "scheduled"
		if step <= completed {
			state = "completed"
		}
		if step >= ended {
			add(step, "coalesced", state)
		}
	}
	doc, err := json.Marshal(map[string]any{
		"version": "2.10", "entries": entries, "pg_config": map[string]any{"0": map[string]string{"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
		"pg_status": map[string]any{"0": map[string]int{"last_enqueued_collective": launched, "last_started_collective": -1, "last_completed_collective": completed}},
	})
	if err != nil {
		panic(err)
	}
	return string(doc)
}

func TestBatches(t *testing.T) {
	for _, tc := range []struct {
		name         string
		first, ended int
		launched     [3]int
		completed    int
		want         []int // Accused.
	}{
		{"all is done", 1, 1, [3]int{5, 5, 5}, 5, nil},
		{"one rank does not launch the last", 1, 1, [3]int{5, 4, 5}, 4, []int{1}},
		{"the ring buffer has lost beginnings", 3, 3, [3]int{5, 5, 4}, 4, []int{2}},
		{"the ring buffer has lost ends", 2, 4, [3]int{5, 5, 4}, 4, []int{2}},
		{"pending ones only", 2, 5, [3]int{5, 4, 5}, 4, []int{1}},
		{"pending ones only, and none is", 1, 9, [3]int{5, 5, 5}, 5, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var dumps []flightrecorder.Assigned
			for rank, launched := range tc.launched {
				d, err := flightrecorder.Decode(fmt.Sprint("rank_", rank), []byte(exchange(rank, tc.first, tc.ended, launched, tc.completed)), &flightrecorder.Shared{})
				if err != nil {
					t.Fatal(err)
				}
				dumps = append(dumps, flightrecorder.Assigned{Dump: d, Rank: rank})
			}
			v := engine.Analyze(flightrecorder.Evidence(dumps), rca.Options{HangAfter: 1, FirstOps: -2})
			var got []int
			for _, c := range v.Culprits {
				got = append(got, c.Rank)
			}
			if want := tc.want; !slices.Equal(got, want) || (want == nil) != (v.Class == rca.Healthy) {
				t.Errorf("%s %v, want %v: %s", v.Class, got, want, v.Summary)
			}
		})
	}
}

// Sends that are launched by themselves are followed by themselves, whatever number completed last: those to different
// peers complete in any order.
func TestSingleSendsKeepTheirState(t *testing.T) {
	d, err := flightrecorder.Decode("rank_0", []byte(`{"version":"2.10","pg_status":{"0":{"last_enqueued_collective":3,"last_completed_collective":3}},"pg_config":{"0":{"name":"0","desc":"pp","ranks":"[0, 1, 2]"}},"entries":[
		{"record_id":1,"pg_id":0,"process_group":["0","pp"],"collective_seq_id":0,"p2p_seq_id":2,"op_id":1,"profiling_name":"nccl:send 0->1","is_p2p":true,"state":"scheduled","retired":false},
		{"record_id":2,"pg_id":0,"process_group":["0","pp"],"collective_seq_id":0,"p2p_seq_id":3,"op_id":2,"profiling_name":"nccl:send 0->2","is_p2p":true,"state":"completed","retired":true}]}`), &flightrecorder.Shared{})
	if err != nil {
		t.Fatal(err)
	}
	ev := flightrecorder.Evidence([]flightrecorder.Assigned{{Dump: d, Rank: 0}})
	if m := ev.Ranks[0].Memberships[0]; len(m.InFlight) != 1 || m.InFlight[0].Peer != 1 {
		t.Errorf("%+v", m)
	}
}
