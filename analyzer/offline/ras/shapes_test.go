// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
		{"RCCL, which explains its members first", strings.Replace(whole, "{", `{"field_notes": {"collective_counts": "`+strings.Repeat("what is counted ", 400)+`"},`, 1), rca.NotEntered, []int{5}},
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

// A capture holds reports one after another, with whatever was printed between them.
func TestStreams(t *testing.T) {
	first := string(read(t, "2.32-behind.json"))
	second := strings.Replace(first, "22:43:01", "22:43:31", 1)
	compact := func(s string) string {
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(s)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for name, stream := range map[string]string{
		"one after another":   first + second,
		"one a line":          compact(first) + "\n" + compact(second) + "\n",
		"a list":              "[" + first + "," + second + "]",
		"dates between":       "Sun Nov 22 22:43:01 UTC 2026\n" + first + "Sun Nov 22 22:43:31 UTC 2026\n" + second,
		"rules between":       "=== 1 ===\n" + first + "\n=== 2 ===\n" + second,
		"with the protocol":   "SERVER PROTOCOL 2\nOK\n" + first + "SERVER PROTOCOL 2\nOK\n" + second,
		"the second cut off":  first + second[:len(second)*9/10],
		"events between them": first + peerEvent("PEER_CONNECTING", "TRACE") + second,
	} {
		t.Run(name, func(t *testing.T) {
			if !SniffJSON([]byte(stream)) {
				t.Fatal("not recognised")
			}
			reports, err := ParseJSON("x", []byte(stream))
			if (err != nil) != strings.Contains(name, "cut off") {
				t.Fatal(err)
			}
			ev, _, _ := Evidence(reports)
			v := engine.Analyze(ev, rca.Options{HangAfter: 1})
			if v.Class != rca.NotEntered || len(v.Culprits) != 1 || v.Culprits[0].Rank != 2 {
				t.Errorf("%s %v: %s", v.Class, v.Culprits, v.Summary)
			}
		})
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func peerEvent(name, group string) string {
	return fmt.Sprintf(`{"timestamp":"2026-11-22 22:43:10","group":%q,"event":%q,"peer":{"host":"n4","pid":77,"cuda_devs":[0],"nvml_devs":[3]},"details":"x"}`, group, name) + "\n"
}

// The monitoring mode tells of connections too; only what it says of processes counts.
func TestPeerEvents(t *testing.T) {
	for name, want := range map[string]string{
		"PEER_DEAD": "dead", "PEER_TIMEOUT_DEAD": "dead", "PEER_UNRESPONSIVE": "unresponsive", "PEER_KEEPALIVE_TIMEOUT": "unresponsive",
		"PEER_SEND_STUCK": "unresponsive", "PEER_RECOVERED": "recovered", "PEER_NEW": "", "PEER_CONNECTED": "", "PEER_RETRY": "", "PEER_DISCONNECTED": "",
	} {
		inJSON, err := ParseJSON("x", []byte("RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...\n=====\n"+peerEvent(name, "LIFECYCLE")))
		if err != nil {
			t.Fatal(err)
		}
		inText, err := ParseText("x", fmt.Appendf(nil, "[2026-11-22 22:43:10] %s: Process 77 on node n4 managing GPU 0 (NVML 3) keep-alive\n", name))
		if err != nil {
			t.Fatal(err)
		}
		for form, r := range map[string]*Report{"JSON": inJSON[0], "text": inText} {
			var got []Event
			if want != "" {
				got = []Event{{Process{"n4", 77, "3"}, want}}
			}
			if !slices.Equal(r.Events, got) {
				t.Errorf("%s in %s: %+v, want %+v", name, form, r.Events, got)
			}
		}
	}
}

// Where CUDA numbers GPUs otherwise than the host does, both numbers are there.
func TestHiddenGPUs(t *testing.T) {
	r, err := ParseText("x", []byte(mismatch+"  15 ranks have launched up to operation 6650\n  Rank 11 has launched up to operation 6640 -- GPU 0 (NVML 3) managed by process 483072 on node n1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Comms[0].Ranks[11].Place; got != (Process{"n1", 483072, "3"}) {
		t.Errorf("%+v", got)
	}
}

func TestTableOfSeveralErrors(t *testing.T) {
	const table = `Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         8        16        16   RUNNING  INCOMPLETE,ERROR,MISMATCH
#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 7
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different status
  13 ranks have status RUNNING
  3 ranks have status UNKNOWN
  The unknown ranks: 3,7,9
`
	r, err := ParseText("x", []byte(table))
	if err != nil {
		t.Fatal(err)
	}
	c := r.Comms[0]
	if c.Size != 16 || r.AllOK || !c.Ranks[7].Missing || c.Ranks[9].Status != "UNKNOWN" || c.Ranks[0].Status != "RUNNING" {
		t.Errorf("size %d, all well %v, rank 7 %+v, 9 %+v, 0 %+v", c.Size, r.AllOK, c.Ranks[7], c.Ranks[9], c.Ranks[0])
	}
}
