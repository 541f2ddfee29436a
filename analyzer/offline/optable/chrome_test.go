// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// chromeForm gives a table of pipeline as a timeline: processes are replicas, each rank has a block of two threads. Without
// waiting, communication begins when its last member has entered.
func chromeForm(t testing.TB, table string, waiting bool) []byte {
	t.Helper()
	tab, err := Read(t.Context(), "t", []byte(table), nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	const threads = 2
	entered := map[string]int64{}
	key := func(r *Row) string {
		group := fmt.Sprint("stage ", r.Stage)
		switch {
		case r.Op == "norm-all-reduce":
			group = "all"
		case r.Op == "forward-send":
			group = fmt.Sprint("to ", r.Stage+1, r.DP)
		case r.Op == "forward-recv":
			group = fmt.Sprint("to ", r.Stage, r.DP)
		}
		return fmt.Sprint(group, r.Step, r.Seq, strings.HasPrefix(r.Op, "forward"), r.Op == "norm-all-reduce")
	}
	for i := range tab.Rows {
		r := &tab.Rows[i]
		entered[key(r)] = max(entered[key(r)], r.Start)
	}
	var events []string
	for i := range tab.Rows {
		r := &tab.Rows[i]
		start, thread := r.Start, 0
		if kindOf(r) == rca.SegmentOp {
			thread = 1
			if !waiting {
				start = min(r.End, entered[key(r)])
			}
		}
		at := threads*r.Rank + thread
		events = append(events,
			fmt.Sprintf(`{"name":%q,"ph":"X","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{"step":%d,"seq_id":%d,"model_chunk":-1}}`, r.Op, r.DP, at, float64(start)/1e3, float64(r.End-start)/1e3, r.Step, r.Seq),
			fmt.Sprintf(`{"name":"process_name","ph":"M","pid":%d,"args":{"name":"DP rank [%d]"}}`, r.DP, r.DP),
			fmt.Sprintf(`{"name":"thread_name","ph":"M","pid":%d,"tid":%d,"args":{"name":"PP rank %d, TP rank 0, work"}}`, r.DP, at, r.Stage))
	}
	return []byte("[" + strings.Join(events, ",\n") + "]")
}

func TestChrome(t *testing.T) {
	noOffset := func(int) float64 { return 0 }
	for _, tc := range []struct {
		name  string
		slow  func(stage, replica, step int) float64
		class rca.Class
		cause rca.Cause
		ranks []int
	}{
		{"even", even, rca.Healthy, rca.CauseUnknown, nil},
		{"one slow rank", func(stage, replica, _ int) float64 { return twice(stage == 1 && replica == 1) }, rca.SlowCompute, rca.CauseGPU, []int{4}},
		{"an uneven stage", func(stage, _, _ int) float64 { return twice(stage == 2) }, rca.Imbalance, rca.CauseStage, nil},
	} {
		for _, waiting := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with waiting %v", tc.name, waiting), func(t *testing.T) {
				tab, err := ReadChrome("t", chromeForm(t, pipeline(3, 4, 24, tc.slow, noOffset), waiting), -1)
				if err != nil {
					t.Fatal(err)
				}
				ev, notes := Evidence([]*Table{tab})
				if ev.WorldSize != 12 || tab.Numbered || tab.CutOff || tab.Skipped > 0 {
					t.Errorf("%d ranks, numbered %v, cut off %v, skipped %d", ev.WorldSize, tab.Numbered, tab.CutOff, tab.Skipped)
				}
				v := engine.Analyze(ev, rca.Options{})
				var ranks []int
				for _, c := range v.Culprits {
					if c.Rank >= 0 {
						ranks = append(ranks, c.Rank)
					}
				}
				if v.Class != tc.class || v.Cause != tc.cause || !slices.Equal(ranks, tc.ranks) {
					t.Errorf("%s/%s %v, want %s/%s %v\n%s\n%q", v.Class, v.Cause, ranks, tc.class, tc.cause, tc.ranks, v.Summary, notes)
				}
			})
		}
	}
}

func TestChromeRanks(t *testing.T) {
	const event = `{"ph":"X","name":"all-reduce","pid":%s,"tid":%s,"ts":5,"dur":2,"args":%s}`
	for _, tc := range []struct {
		name, trace string
		ranks       []int
		numbered    bool
	}{
		{"in the arguments", fmt.Sprintf(event, "1", "1", `{"Global Rank":7}`), []int{7}, false},
		{"in the process's name", `{"ph":"M","name":"process_name","pid":"a","args":{"name":"Rank 3 (node 1)"}},` + fmt.Sprintf(event, `"a"`, "1", "{}"), []int{3}, false},
		{"by coordinates", `{"ph":"M","name":"thread_name","pid":1,"tid":9,"args":{"name":"stage 1"}},{"ph":"M","name":"thread_name","pid":1,"tid":4,"args":{"name":"stage 0"}},` +
			fmt.Sprintf(event, "1", "9", "{}") + "," + fmt.Sprintf(event, "1", "4", "{}"), []int{1, 0}, true},
		{"of the file", fmt.Sprintf(event, "1", "1", "{}"), []int{5}, false},
	} {
		for _, form := range []string{"[%s]", `{"displayTimeUnit":"ms","traceEvents":[%s]}`, "[%s"} {
			tab, err := ReadChrome("t", fmt.Appendf(nil, form, tc.trace), 5)
			if err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			var ranks []int
			for _, r := range tab.Rows {
				ranks = append(ranks, r.Rank)
			}
			if !slices.Equal(ranks, tc.ranks) || tab.Numbered != tc.numbered || tab.CutOff != (form == "[%s") {
				t.Errorf("%s %s: ranks %v, numbered %v, cut off %v", tc.name, form, ranks, tab.Numbered, tab.CutOff)
			}
		}
	}
	// A profile of one process without GPUs is no table of operations.
	for _, foreign := range []string{`[{"ph":"X","name":"aten::add","pid":1,"tid":1,"ts":5,"dur":2,"args":{}}]`, `{"a":1}`, `[`, ``} {
		if _, err := ReadChrome("t", []byte(foreign), -1); !errors.Is(err, ErrNotTable) {
			t.Errorf("%s: %v", foreign, err)
		}
	}
}

// Who leaves together may be several divisions at once: the one counts that has the members that the others waited for.
func TestGroupsThatWait(t *testing.T) {
	var b strings.Builder
	b.WriteString("rank,stage,dp_rank,step,optype,start_ts,duration,seq_id\n")
	for step := range 20 {
		for rank := range 8 {
			stage, replica := rank/4, rank%4
			// Both stages of a replica enter together, and every time another replica comes last.
			at := 1 + 0.1*float64((step+replica)%4)
			// Hosts hold both stages of a replica, and their clocks wander.
			jitter := 0.0004 * float64((step*7+replica*3)%5)
			row := func(op string, start, took float64) {
				fmt.Fprintf(&b, "%d,%d,%d,%d,%s,%.6f,%.6f,0\n", rank, stage, replica, step, op, start+jitter, took)
			}
			row("forward-compute", 0, at)
			row("grads-reduce-scatter", at, 1.32-at)
			row("params-all-gather", 1.33, 0.015)
		}
	}
	tab, err := Read(t.Context(), "t", []byte(b.String()), nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	_, notes := Evidence([]*Table{tab})
	for _, want := range []string{"grads-reduce-scatter: 2 groups by stage, inferred from who leaves together", "params-all-gather: 2 groups by stage, inferred from who leaves together"} {
		if !slices.Contains(notes, want) {
			t.Errorf("%q is not among %q", want, notes)
		}
	}
}

func FuzzReadChrome(f *testing.F) {
	f.Add(chromeForm(f, pipeline(2, 2, 2, even, func(int) float64 { return 0 }), false), -1)
	f.Add([]byte(`{"traceEvents":[{"ph":"X","name":"send","ts":1,"dur":1,"args":{"rank":1}}]}`), 0)
	f.Fuzz(func(_ *testing.T, data []byte, rank int) {
		t, err := ReadChrome("x", data, min(rank, 100))
		if err != nil {
			return
		}
		ev, _ := Evidence([]*Table{t})
		if ev.WorldSize < 1<<12 {
			_ = engine.Analyze(ev, rca.Options{})
		}
	})
}
