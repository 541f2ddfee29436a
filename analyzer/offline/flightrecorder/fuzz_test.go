// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder/frtest"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// No input makes reading, assigning or assembling panic, and the engine can take whatever comes out.
func FuzzDecode(f *testing.F) {
	j := frtest.Training(frtest.Layout{TP: 2, DP: 1, PP: 2, Steps: 2, Creation: 1})
	j.StopHost = map[int]int{3: 4}
	j.Ring = 4
	for _, s := range j.Run() {
		d := j.Dump(s)
		f.Add(frtest.Pickle(d))
		b, err := json.Marshal(map[string]any{"version": "2.9", "pg_config": map[string]any{"0": map[string]any{"ranks": "[0, 1]"}}, "entries": []any{
			map[string]any{"profiling_name": "nccl:send 0->1", "state": "started", "process_group": []any{"0", "x"}, "input_sizes": []any{[]any{2, 3}}},
		}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var shared flightrecorder.Shared
		var dumps []*flightrecorder.Dump
		for _, name := range []string{"dump_0", "x"} {
			d, err := flightrecorder.Decode(name, data, &shared)
			if err != nil {
				if d != nil {
					t.Error("a dump with an error")
				}
				continue
			}
			dumps = append(dumps, d)
		}
		assigned, rest := flightrecorder.Assign(dumps)
		if len(assigned)+len(rest) != len(dumps) {
			t.Errorf("%d dumps became %d and %d", len(dumps), len(assigned), len(rest))
		}
		if ev := flightrecorder.Evidence(assigned); rcatest.Small(&ev) {
			_ = engine.Analyze(ev, rca.Options{HangAfter: 1})
		}
	})
}

func TestDecodeForeign(t *testing.T) {
	for name, data := range map[string][]byte{
		"another pickle":  frtest.Pickle(frtest.Dict{"weights", []any{int64(1)}}),
		"a pickled list":  frtest.Pickle([]any{"version", "entries"}),
		"another JSON":    []byte(`{"version": "1", "data": []}`),
		"entries of what": []byte(`{"pg_config": {}}`),
	} {
		if _, err := flightrecorder.Decode(name, data, &flightrecorder.Shared{}); !errors.Is(err, flightrecorder.ErrNotDump) {
			t.Errorf("%s: %v", name, err)
		}
	}
	code := []byte("cos\nsystem\n(S'true'\ntR.")
	if _, err := flightrecorder.Decode("evil", code, &flightrecorder.Shared{}); !errors.Is(err, flightrecorder.ErrCode) {
		t.Errorf("code: %v", err)
	}
}

func TestRankInName(t *testing.T) {
	for name, want := range map[string]int{
		"/tmp/nccl_trace_rank_12":        12,
		"comm_lib_trace_rank_0":          0,
		"_dump_9":                        9,
		"nccl_trace_rank_3.pkl.gz":       3,
		"job77_rank_5_host3.bin":         5,
		"dump.json":                      -1,
		"host12_attempt2_rank7_20250101": 7,
		"trace-0004":                     4,
		"rank_00012.pickle":              12,
	} {
		if got := flightrecorder.RankInName(name); got != want {
			t.Errorf("%s gives %d, want %d", name, got, want)
		}
	}
}
