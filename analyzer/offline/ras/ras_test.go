// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

func load(t testing.TB, name string) []*Report {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(name) == ".json" {
		if !SniffJSON(data) {
			t.Fatalf("%s is not recognised", name)
		}
		rs, err := ParseJSON(name, data)
		if err != nil {
			t.Fatal(err)
		}
		return rs
	}
	r, err := ParseText(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return []*Report{r}
}

// What each report is said to mean, by its own words and NCCL's manual.
func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		files []string
		class rca.Class
		cause rca.Cause
		ranks []int
	}{
		{[]string{"2.24-mismatch.txt"}, rca.NotEntered, rca.CauseNotCalled, []int{5, 17}},
		{[]string{"2.24-running.txt"}, rca.Unknown, rca.CauseUnknown, nil},
		{[]string{"2.24-incomplete.txt"}, rca.NotEntered, rca.CauseProcessGone, []int{21}},
		{[]string{"2.26-functions.txt"}, rca.Inconsistent, rca.CauseOtherOp, []int{3}},
		{[]string{"2.28-none.txt"}, rca.NotEntered, rca.CauseNotCalled, []int{4}},
		{[]string{"2.30-incomplete.txt"}, rca.NotEntered, rca.CauseProcessStopped, []int{3, 5}},
		{[]string{"2.24-finalize.txt"}, rca.Benign, rca.CauseJobEnd, nil},
		{[]string{"2.25-ok.txt"}, rca.Unknown, rca.CauseUnknown, nil},
		{[]string{"ahead.txt"}, rca.Unknown, rca.CauseUnknown, nil},
		{[]string{"monitor.txt"}, rca.Unknown, rca.CauseUnknown, nil},
		{[]string{"2.28.7-malformed.json"}, rca.NotEntered, rca.CauseProcessStopped, []int{2}},
		// Captured from NCCL with what its client protocol answers before the report.
		{[]string{"2.30-captured.json"}, rca.NotEntered, rca.CauseNotCalled, []int{2}},
		{[]string{"2.30-broadcast.txt"}, rca.NotEntered, rca.CauseNotCalled, []int{2}},
		// Recorded from NCCL while rank 2 stayed out of one operation.
		{[]string{"2.31-behind.txt"}, rca.Unknown, rca.CauseUnknown, nil},
		{[]string{"2.32-behind.txt"}, rca.Unknown, rca.CauseUnknown, nil},
		{[]string{"2.32-behind.json"}, rca.Unknown, rca.CauseUnknown, nil},
		{[]string{"2.29-first.json"}, rca.Unknown, rca.CauseUnknown, nil},
		{[]string{"2.29-second-stuck.json", "2.29-first.json"}, rca.NotEntered, rca.CauseNotCalled, []int{2}},
		{[]string{"2.29-first.json", "2.29-second-moving.json"}, rca.Healthy, rca.CauseUnknown, nil},
	} {
		t.Run(tc.files[0], func(t *testing.T) {
			var reports []*Report
			for _, f := range tc.files {
				reports = append(reports, load(t, f)...)
			}
			ev, notes, _ := Evidence(reports)
			v := engine.Analyze(ev, rca.Options{HangAfter: 1})
			var ranks []int
			for _, c := range v.Culprits {
				if c.Rank < 0 {
					continue // Suspects.
				}
				ranks = append(ranks, c.Rank)
			}
			slices.Sort(ranks)
			if v.Class != tc.class || v.Cause != tc.cause || !slices.Equal(ranks, tc.ranks) {
				t.Errorf("%s/%s %v, want %s/%s %v\n%s\nnotes %q\nfacts %+v", v.Class, v.Cause, ranks, tc.class, tc.cause, tc.ranks, v.Summary, notes, ev.Facts)
			}
		})
	}
}

// Ranks that the text does not list get the count of the group that is not listed.
func TestSettle(t *testing.T) {
	c := load(t, "2.24-mismatch.txt")[0].Comms[0]
	if c.Size != 32 || len(c.Ranks) != 32 {
		t.Fatalf("size %d, %d ranks", c.Size, len(c.Ranks))
	}
	if n := c.Ranks[0].Launched["collective"]; n != 812 {
		t.Errorf("rank 0 launched %d", n)
	}
	if r := c.Ranks[17]; r.Launched["collective"] != 806 || r.Place != (Process{"10.1.0.3", 6001, "1"}) {
		t.Errorf("rank 17 is %+v", r)
	}
}

func TestRanksOfSubgroups(t *testing.T) {
	reports, err := ParseJSON("x", []byte(`{"nccl_version":"2.29.1","communicators":[
		{"hash":"0x1","size":2,"ranks":[{"rank":0,"host":"a","pid":1,"cuda_dev":0},{"rank":1,"host":"a","pid":2,"cuda_dev":1}]},
		{"hash":"0x2","size":4,"ranks":[{"rank":0,"host":"b","pid":9,"cuda_dev":0},{"rank":1,"host":"a","pid":1,"cuda_dev":0},{"rank":2,"host":"a","pid":2,"cuda_dev":1},{"rank":3,"host":"b","pid":8,"cuda_dev":1}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	ev, _, global := Evidence(reports)
	if !global || ev.WorldSize != 4 || len(ev.Ranks) != 4 {
		t.Fatalf("global %v, world %d, %d ranks", global, ev.WorldSize, len(ev.Ranks))
	}
	// Process a/1 is rank 1 of the job, whatever its number in the smaller communicator.
	i := slices.IndexFunc(ev.Comms, func(c rca.Comm) bool { return c.Size == 2 })
	if !slices.Equal(ev.Comms[i].Members, []int{1, 2}) {
		t.Errorf("members of the smaller communicator are %v", ev.Comms[i].Members)
	}
}

func TestForeign(t *testing.T) {
	if _, err := ParseText("x", []byte("rank 3 has left the building\n")); !errors.Is(err, ErrNotReport) {
		t.Errorf("text: %v", err)
	}
	if _, err := ParseJSON("x", nil); !errors.Is(err, ErrNotReport) {
		t.Errorf("nothing: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil || len(names) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		var reports []*Report
		if r, err := ParseText("a", data); err == nil {
			reports = append(reports, r)
		}
		more, _ := ParseJSON("b", data)
		ranks := 0
		for _, r := range append(reports, more...) {
			for _, c := range r.Comms {
				ranks += c.Size
			}
		}
		if ranks > 1<<12 {
			return // Large claims are legitimate, but slow to fuzz.
		}
		if ev, _, _ := Evidence(append(reports, more...)); rcatest.Small(&ev) {
			_ = engine.Analyze(ev, rca.Options{HangAfter: 1})
		}
	})
}
