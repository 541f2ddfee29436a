// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
)

// written is a rank's dump whose last operation of that number was created at a time, with a timeout of ten minutes.
func written(t *testing.T, file, members string, record int64, at time.Time) *flightrecorder.Dump {
	t.Helper()
	d, err := flightrecorder.Decode(file, fmt.Appendf(nil, `{"version":"2.10","pg_config":{"0":{"name":"0","desc":"default_pg","ranks":%q}},
		"entries":[{"record_id":%d,"pg_id":0,"process_group":["0","default_pg"],"collective_seq_id":3,"p2p_seq_id":0,"op_id":3,"profiling_name":"nccl:all_reduce",
		"time_created_ns":%d,"timeout_ms":600000,"state":"scheduled","retired":false,"is_p2p":false}]}`, members, record, at.UnixNano()), &flightrecorder.Shared{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Directories keep dumps of jobs before, and of this job's hangs before.
func TestOneJob(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	four, eight := "[0, 1, 2, 3]", "[0, 1, 2, 3, 4, 5, 6, 7]"
	for _, tc := range []struct {
		name  string
		dumps []*flightrecorder.Dump
		want  []string // Files used.
		why   string   // Of those not used.
	}{
		{"a larger job before", []*flightrecorder.Dump{
			written(t, "rank_0", four, 9, now), written(t, "rank_1", four, 9, now), written(t, "rank_4", eight, 9, now.Add(-time.Hour)), written(t, "rank_5", eight, 9, now.Add(-time.Hour)),
		}, []string{"rank_0", "rank_1"}, "another job"},
		{"the same rank twice", []*flightrecorder.Dump{
			written(t, "old/rank_0", four, 99, now.Add(-5*time.Minute)), written(t, "new/rank_0", four, 9, now), written(t, "rank_1", four, 9, now),
		}, []string{"new/rank_0", "rank_1"}, "newer"},
		{"a hang before", []*flightrecorder.Dump{
			written(t, "rank_0", four, 9, now), written(t, "rank_1", four, 9, now.Add(-time.Second)), written(t, "rank_2", four, 99, now.Add(-5*time.Hour)),
		}, []string{"rank_0", "rank_1"}, "earlier hang"},
		{"who stopped first", []*flightrecorder.Dump{
			written(t, "rank_0", four, 9, now), written(t, "rank_1", four, 9, now), written(t, "rank_2", four, 9, now.Add(-9*time.Minute)),
		}, []string{"rank_0", "rank_1", "rank_2"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assigned, rest := flightrecorder.Assign(tc.dumps)
			var used []string
			for _, a := range assigned {
				used = append(used, a.File)
			}
			if !slices.Equal(used, tc.want) || len(rest)+len(used) != len(tc.dumps) {
				t.Errorf("used %v, want %v; rest %v", used, tc.want, rest)
			}
			for d, why := range rest {
				if !strings.Contains(why, tc.why) {
					t.Errorf("%s: %q does not say %q", d.File, why, tc.why)
				}
			}
		})
	}
}

// A dump in JSON that is cut off anywhere gives what was whole before.
func TestCutOffJSON(t *testing.T) {
	whole := exchange(0, 1, 1, 3, 3)
	before := 0
	for end := strings.Index(whole, `"op_id":1`); end < len(whole); end++ {
		d, err := flightrecorder.Decode("rank_0", []byte(whole[:end]), &flightrecorder.Shared{})
		if err != nil {
			t.Fatalf("cut at %d: %v", end, err)
		}
		if !d.Truncated || d.Recorded < before {
			t.Fatalf("cut at %d: truncated %v, %d entries, had %d", end, d.Truncated, d.Recorded, before)
		}
		before = d.Recorded
	}
	if before != 9 {
		t.Errorf("%d entries, want 9", before)
	}
}
