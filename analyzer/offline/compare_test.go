// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/report"
)

// shape is a data-parallel job to record: every step computes and then reduces.
type shape struct {
	ranks    int
	compute  func(rank int) float64 // ms.
	transfer float64                // ms.
}

const comparedSteps = 12

// each calls f with every operation's rank, step and times, ms; computation has the name "compute".
func (s shape) each(f func(rank, step int, op string, start, took float64)) {
	at := 0.0
	for step := range comparedSteps {
		latest := 0.0
		for r := range s.ranks {
			latest = max(latest, s.compute(r))
		}
		end := at + latest + s.transfer
		for r := range s.ranks {
			clock := float64(3 * r) // No two clocks agree.
			f(r, step, "compute", at+clock, s.compute(r))
			f(r, step, "all-reduce", at+clock+s.compute(r), end-at-s.compute(r))
		}
		at = end
	}
}

// table gives the job's op table, with or without its computation.
func (s shape) table(t *testing.T, computed bool) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("rank,step,op,comm,start_ms,duration_ms\n")
	s.each(func(rank, step int, op string, start, took float64) {
		comm := "dp"
		if op == "compute" {
			if comm = ""; !computed {
				return
			}
		}
		fmt.Fprintf(&b, "%d,%d,%s,%s,%.6f,%.6f\n", rank, step, op, comm, start, took)
	})
	return put(t, t.TempDir(), "ops.csv", []byte(b.String()))
}

// traces gives the job's profiler traces.
func (s shape) traces(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	events := map[int][]string{}
	s.each(func(rank, step int, op string, start, took float64) {
		name, args := "ampere_gemm", `"stream":7`
		if op != "compute" {
			name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
			args = fmt.Sprintf(`"stream":20,"Collective name":"allreduce","Group size":%d,"Process Group Name":"0","Seq":%d`, s.ranks, step)
		} else {
			events[rank] = append(events[rank], fmt.Sprintf(`{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","ts":%.3f,"dur":%.3f}`, step, 1e3*start, 1e3*took))
		}
		events[rank] = append(events[rank], fmt.Sprintf(`{"ph":"X","cat":"kernel","name":%q,"ts":%.3f,"dur":%.3f,"args":{%s}}`, name, 1e3*start, 1e3*took, args))
	})
	for r, list := range events {
		put(t, dir, fmt.Sprintf("trace_rank%d.json", r), fmt.Appendf(nil, `{"schemaVersion":1,"distributedInfo":{"rank":%d,"world_size":%d},"traceEvents":[%s]}`, r, s.ranks, strings.Join(list, ",")))
	}
	return dir
}

func TestCompare(t *testing.T) {
	even := func(rank int) float64 { return 80 - float64(rank) }
	healthy := shape{4, even, 10}
	slowRank := shape{4, func(rank int) float64 {
		if rank == 2 {
			return 234
		}
		return even(rank)
	}, 10}
	slowNetwork := shape{4, even, 50}
	for name, write := range map[string]func(s shape) string{
		"op table":                     func(s shape) string { return s.table(t, true) },
		"op table without computation": func(s shape) string { return s.table(t, false) },
		"profiler traces":              func(s shape) string { return s.traces(t) },
	} {
		t.Run(name, func(t *testing.T) {
			base := write(healthy)
			for _, tc := range []struct {
				name       string
				sick       shape
				want       []string
				never      string
				kind       string // Of the largest difference but the step.
				rank       int
				from, upTo float64
			}{
				{"a slow rank", slowRank, []string{"rank 2: its own work", "the network is innocent", "waits for others"}, "moving the data", diagnosis.KindWork, 2, 2.9, 3.1},
				{"a slow network", slowNetwork, []string{"moving the data takes", "no rank's own work"}, "rank 2: its own work", diagnosis.KindTransfer, -1, 4.9, 5.1},
				{"nothing", healthy, []string{"the network is innocent", "no rank's own work"}, "1.00x", "", 0, 0, 0},
			} {
				t.Run(tc.name, func(t *testing.T) {
					sick := write(tc.sick)
					_, out, errs := run(t, "", sick, "--compare", base)
					for _, want := range tc.want {
						if !strings.Contains(out, want) {
							t.Errorf("no %q in\n%s%s", want, out, errs)
						}
					}
					if strings.Contains(out, tc.never) {
						t.Errorf("%q in\n%s", tc.never, out)
					}
					_, out, _ = run(t, "", sick, "--compare", base, "--json")
					var d report.Document
					if err := json.Unmarshal([]byte(out), &d); err != nil {
						t.Fatal(err)
					}
					i := slices.IndexFunc(d.Differences, func(d diagnosis.Difference) bool { return d.Kind != diagnosis.KindStep })
					switch {
					case tc.kind == "":
						if len(d.Differences) > 0 {
							t.Errorf("differences %+v", d.Differences)
						}
					case i < 0 || d.Differences[i].Kind != tc.kind || d.Differences[i].Rank != tc.rank || d.Differences[i].Ratio < tc.from || d.Differences[i].Ratio > tc.upTo:
						t.Errorf("differences %+v", d.Differences)
					case d.Differences[0].Kind != diagnosis.KindStep:
						t.Errorf("the step is not told: %+v", d.Differences)
					}
				})
			}
		})
	}
}

func TestCompareOtherJob(t *testing.T) {
	even := func(int) float64 { return 80 }
	_, out, _ := run(t, "", shape{4, even, 10}.table(t, true), "--compare", shape{8, even, 10}.table(t, true))
	if !strings.Contains(out, "the healthy job has 8 ranks, this one 4") {
		t.Errorf("%s", out)
	}
}
