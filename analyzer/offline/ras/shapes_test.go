// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

const mismatch = `Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         8        16        16   RUNNING  MISMATCH

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
`

// status is a report in JSON of 16 ranks of which one is behind, its members in the order of their names.
func status(t *testing.T) string {
	t.Helper()
	ranks := make([]map[string]any, 16)
	for i := range ranks {
		n := 100
		if i == 5 {
			n = 93
		}
		ranks[i] = map[string]any{
			"rank": i, "host": fmt.Sprint("node", i/8), "pid": 5000 + i, "cuda_dev": i % 8, "unheard_of": []any{nil, "x"},
			"status":            map[string]any{"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false},
			"collective_counts": map[string]any{"AllReduce": n, "AllGather": 40, "AllToAll": 7},
		}
	}
	doc, err := json.MarshalIndent(map[string]any{
		"nccl_version": "2.29.3", "timestamp": "2026-11-21 10:00:00",
		"communicators": []any{map[string]any{"hash": "0xabc", "size": 16, "ranks": ranks, "missing_ranks": []any{}}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// Reports as people keep them: with other wordings, line ends and orders, cut off, cut out.
func TestShapes(t *testing.T) {
	counts := mismatch + "  15 ranks have launched up to operation 6650\n  1 rank has launched up to operation 6640\n"
	one := counts + "  Rank 11 -- GPU 3 managed by process 483072 on node n1\n"
	whole := status(t)
	for _, tc := range []struct {
		name, text string
		class      rca.Class
		ranks      []int
	}{
		{"one rank has", one, rca.NotEntered, []int{11}},
		{"line ends of Windows", strings.ReplaceAll(one, "\n", "\r\n"), rca.NotEntered, []int{11}},
		{"cut off before the rank", counts, rca.Unknown, nil},
		{"cut off before the counts", mismatch, rca.Unknown, nil},
		{"sorted members", whole, rca.NotEntered, []int{5}},
		{"cut off after the rank", whole[:len(whole)*3/4], rca.NotEntered, []int{5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var reports []*Report
			if strings.HasPrefix(tc.text, "{") {
				if !SniffJSON([]byte(tc.text)) {
					t.Fatal("not recognised")
				}
				var err error
				if reports, err = ParseJSON("x", []byte(tc.text)); (err != nil) != strings.HasPrefix(tc.name, "cut off") {
					t.Errorf("error %v", err)
				}
			} else {
				r, err := ParseText("x", []byte(tc.text))
				if err != nil {
					t.Fatal(err)
				}
				reports = []*Report{r}
			}
			ev, _, _ := Evidence(reports)
			v := engine.Analyze(ev, rca.Options{HangAfter: 1})
			var ranks []int
			for _, c := range v.Culprits {
				ranks = append(ranks, c.Rank)
			}
			if v.Class != tc.class || !slices.Equal(ranks, tc.ranks) {
				t.Errorf("%s %v, want %s %v: %s", v.Class, ranks, tc.class, tc.ranks, v.Summary)
			}
		})
	}
}
