// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// lost patience is what the monitor of a rank says.
func lostPatience(rank int, section string) string {
	return fmt.Sprintf("[2026-11-22 10:00:00,1] [WARNING] [RankMonServer%d@node-%d:%d] [Cycle 0] Section '%s' has been open for 181.20 seconds. Timeout is 180.00 seconds.\n", 900+rank, rank/4, rank, section)
}

func TestWatchers(t *testing.T) {
	alike := func(from, to int, section string) string {
		var b strings.Builder
		for r := from; r < to; r++ {
			b.WriteString(lostPatience(r, section))
		}
		return b.String()
	}
	for _, tc := range []struct {
		name, text string
		ranks      []int
		note       string
	}{
		{"one elsewhere", alike(0, 7, "step") + lostPatience(7, "checkpointing"), []int{7}, "the launcher saw last: rank 7 in section checkpointing"},
		{"one in no section", alike(0, 7, "step") + "2026-11-22 10:00:00,1 [WARNING] [node-1] [workload:7(3) infra:1(0)] rank_monitor_server.py:550 [Cycle 0] Was out of section for 99.00 seconds. Timeout is 90.00 seconds.\n", []int{7}, "rank 7 in no section"},
		{"all alike", alike(0, 8, "step"), nil, "ranks 0-7 in section step"},
		{"two halves", alike(0, 4, "step") + alike(4, 8, "eval"), nil, "in section eval"},
		{"one of two", alike(0, 1, "step") + lostPatience(1, "eval"), nil, "rank 1 in section eval"},
		{"an exception tells more", alike(0, 7, "step") + lostPatience(7, "checkpointing") + died(3, "ValueError: bad batch"), []int{3}, ""},
		{"stragglers", "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: {StragglerId(rank=5, node='n1'), StragglerId(rank=2, node='n0')}\n", nil, "Ranks 2, 5 are slower than the others, as NVRx measures (Some GPUs have worse relative performance)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Evidence([]*Log{parse(t, tc.text)}, nil, 0)
			ev, notes := r.Evidence, r.Notes
			v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2, Incident: true})
			if got := ranksOf(v); !slices.Equal(got, tc.ranks) || v.Class == rca.Healthy || v.Class == rca.Benign {
				t.Errorf("%s %v, want %v: %s", v.Class, got, tc.ranks, v.Summary)
			}
			if !strings.Contains(saidOf(r)+strings.Join(notes, "\n"), tc.note) {
				t.Errorf("%q is not in %q", tc.note, notes)
			}
		})
	}
}

// Of training events what was begun and did not end tells where a rank is. A file ends when it was copied, so that it is no sign
// of a standstill.
func TestEvents(t *testing.T) {
	text := func(rank int, open string) string {
		return fmt.Sprintf("[2026-11-22T10:00:00.074419] [%d] [22b7ca89] [AtorchTrainerV2] [#step] [BEGIN] {\"global_step\": 99}\n"+
			"[2026-11-22T10:00:01.074419] [%d] [22b7ca89] [AtorchTrainerV2] [#step] [END] {\"global_step\": 100}\n"+
			"[2026-11-22T10:00:01.174419] [%d] [33b7ca89] [AtorchTrainerV2] [%s] [BEGIN] {\"global_step\": 100}\n", 400+rank, 400+rank, 400+rank, open)
	}
	asJSON := "{\"pid\": 1, \"event_id\": \"a\", \"event_time\": \"2026-11-22T10:00:00\", \"target\": \"x\", \"name\": \"#step\", \"event_type\": \"BEGIN\", \"content\": {\"global_step\": 100}}\n"
	var logs []*Log
	for rank, data := range []string{text(0, "#step"), asJSON, text(2, "#save")} {
		if !SniffEvents([]byte(data)) {
			t.Fatalf("not recognised: %s", data)
		}
		l, err := ParseEvents(fmt.Sprintf("events/events_%d.log", rank), []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	r := Evidence(logs, nil, 0)
	ev, notes := r.Evidence, r.Notes
	v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2, Incident: true})
	if v.Class != rca.Unknown || len(v.Culprits) > 0 {
		t.Errorf("%s %v: %s", v.Class, v.Culprits, v.Summary)
	}
	for _, want := range []string{"the launcher saw last: ranks 0, 1 in #step at step 100", "the launcher saw last: rank 2 in #save at step 100"} {
		if !slices.Contains(notes, want) {
			t.Errorf("%q is not in %q", want, notes)
		}
	}
	if SniffEvents([]byte("[2026-11-22T10:00:00] hello\n")) {
		t.Error("a log is taken for events")
	}
}

func FuzzParseEvents(f *testing.F) {
	f.Add([]byte("[2026-11-22T10:00:00.074419] [426] [22b7ca89] [T] [#step] [BEGIN] {\"global_step\": 1}\n"))
	f.Add([]byte("{\"event_id\": \"a\", \"name\": \"#save\", \"event_type\": \"BEGIN\", \"content\": {}}\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		l, err := ParseEvents("events_3.log", data)
		if err != nil {
			return
		}
		ev := Evidence([]*Log{l}, nil, 0).Evidence
		_ = engine.Analyze(ev, rca.Options{HangAfter: 1, Incident: true})
	})
}
