// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder/frtest"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/offline/report"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// analyze reads paths and gives the diagnosis.
func analyze(t testing.TB, paths ...string) *diagnosis.Result {
	t.Helper()
	l := load.Loader{MaxFile: 1 << 30, Progress: load.NewProgress(io.Discard, false), Stdin: strings.NewReader("")}
	got, err := l.Load(context.Background(), paths)
	if err != nil {
		t.Fatal(err)
	}
	return diagnosis.Diagnose(got, diagnosis.Options{})
}

func wantVerdict(t testing.TB, r *diagnosis.Result, class rca.Class, cause rca.Cause, ranks ...int) {
	t.Helper()
	v := r.Verdict
	if v.Class != class || v.Cause != cause || !slices.Equal(diagnosis.Accused(v), ranks) {
		var text bytes.Buffer
		if err := report.Text(&text, r, report.Style{Explain: true}); err != nil {
			t.Error(err)
		}
		t.Errorf("%s/%s %v, want %s/%s %v\n%s", v.Class, v.Cause, diagnosis.Accused(v), class, cause, ranks, &text)
	}
}

// moe is a 16-rank job of two pipeline stages whose ranks 9 and 14 stop on the host before the same all-to-all.
func moe() *frtest.Job {
	j := frtest.Training(frtest.Layout{TP: 4, DP: 2, PP: 2, Steps: 6, Creation: 30})
	j.StopHost = map[int]int{9: j.CallIndex(9, "all_to_all", 6), 14: j.CallIndex(14, "all_to_all", 6)}
	return j
}

func write(t testing.TB, j *frtest.Job) string {
	t.Helper()
	dir := t.TempDir()
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func dumpFile(dir string, rank int) string {
	return filepath.Join(dir, fmt.Sprintf("nccl_trace_rank_%d", rank))
}

func TestFlightRecorderHostSide(t *testing.T) {
	r := analyze(t, write(t, moe()))
	wantVerdict(t, r, rca.NotEntered, rca.CauseNotCalled, 9, 14)
	if r.Verdict.Confidence < 0.7 {
		t.Errorf("confidence %g", r.Verdict.Confidence)
	}
	if exitCode(r.Verdict.Class) != ExitFound {
		t.Errorf("exit code %d", exitCode(r.Verdict.Class))
	}
}

// Each degradation keeps the verdict, or weakens it to fewer culprits or none; it never accuses an innocent.
func TestFlightRecorderDegraded(t *testing.T) {
	remove := func(ranks ...int) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, r := range ranks {
				if err := os.Remove(dumpFile(dir, r)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cut := func(rank int, share float64) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			name := dumpFile(dir, rank)
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(name, int64(share*float64(info.Size()))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name    string
		degrade func(t *testing.T, dir string)
		want    [][]int // Any of these.
		suspect int     // Named as a suspect, -1 none.
	}{
		{"a culprit's dump deleted", remove(9), [][]int{{14}, {9, 14}}, 9},
		{"both culprits' dumps deleted", remove(9, 14), [][]int{nil, {9, 14}}, -1},
		{"an innocent's dump deleted", remove(12), [][]int{{9, 14}}, -1},
		{"a whole other stage's dumps deleted", remove(0, 1, 2, 3, 4, 5, 6, 7), [][]int{{9, 14}}, -1},
		{"a culprit's dump cut at the start", cut(9, 0.2), [][]int{{14}, {9, 14}}, 9},
		{"a culprit's dump cut in the middle", cut(9, 0.7), [][]int{{14}, {9, 14}}, -1},
		{"an innocent's dump cut", cut(12, 0.8), [][]int{{9, 14}}, -1},
		{"a victim's dump cut", cut(3, 0.5), [][]int{{9, 14}}, -1},
		{"a dump empty", cut(5, 0), [][]int{{9, 14}}, -1},
		{"names without ranks", func(t *testing.T, dir string) {
			for i := range 16 {
				if err := os.Rename(dumpFile(dir, i), filepath.Join(dir, fmt.Sprintf("dump-%c", 'a'+(i*7)%16))); err != nil {
					t.Fatal(err)
				}
			}
		}, [][]int{{9, 14}}, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := write(t, moe())
			tc.degrade(t, dir)
			r := analyze(t, dir)
			got := diagnosis.Accused(r.Verdict)
			if r.Verdict.Class == rca.Unknown {
				got = nil
			}
			if !slices.ContainsFunc(tc.want, func(w []int) bool { return slices.Equal(w, got) }) {
				t.Errorf("%s: accuses %v, want any of %v", r.Verdict.Summary, got, tc.want)
			}
			if tc.suspect >= 0 && !slices.Contains(got, tc.suspect) &&
				!slices.ContainsFunc(report.Suspects(r), func(s string) bool { return strings.HasPrefix(s, fmt.Sprintf("rank %d ", tc.suspect)) }) {
				t.Errorf("rank %d is no suspect: %v", tc.suspect, report.Suspects(r))
			}
		})
	}
}

func TestFlightRecorderDeviceSide(t *testing.T) {
	j := frtest.Training(frtest.Layout{TP: 2, DP: 2, PP: 2, Steps: 6, Creation: 1})
	j.StopGPU = map[int]int{5: j.CallIndex(5, "all_to_all", 4)}
	j.Timing = true
	wantVerdict(t, analyze(t, write(t, j)), rca.NotEntered, rca.CauseKernelNotRunning, 5)
}

// Two GPUs take part in an operation and do not come to its end: their peers have finished it and wait in later ones.
func TestFlightRecorderGPUHangs(t *testing.T) {
	for _, ring := range []int{0, 50} {
		j := frtest.Training(frtest.Layout{TP: 4, DP: 2, PP: 2, Steps: 6, Creation: 30})
		j.Ring = ring
		j.HangGPU = map[int]int{9: j.CallIndex(9, "_all_gather_base", 4), 14: j.CallIndex(14, "_all_gather_base", 4)}
		r := analyze(t, write(t, j))
		wantVerdict(t, r, rca.Fault, rca.CauseGPU, 9, 14)
		if !strings.Contains(r.Verdict.Summary, "does not finish") || !strings.Contains(r.Verdict.Summary, "have finished") {
			t.Error(r.Verdict.Summary)
		}
	}
}

// allReduce is a job of one group that does nothing but all-reduce.
func allReduce(world, steps int) *frtest.Job {
	g := frtest.Group{Name: "0", Desc: "default_pg"}
	for r := range world {
		g.Ranks = append(g.Ranks, r)
	}
	return &frtest.Job{World: world, Groups: []frtest.Group{g}, Program: func(int) []frtest.Call {
		var calls []frtest.Call
		for range steps {
			calls = append(calls, frtest.Call{Kind: "all_reduce", Input: []int64{1024}, Output: []int64{1024}, Type: "Float"}, frtest.Call{Kind: "sync"})
		}
		return calls
	}}
}

func TestFlightRecorderMismatch(t *testing.T) {
	for name, change := range map[string]func(c *frtest.Call){
		"another size":      func(c *frtest.Call) { c.Input, c.Output = []int64{512}, []int64{512} },
		"another operation": func(c *frtest.Call) { c.Kind = "broadcast" },
	} {
		for _, ring := range []int{0, 100} {
			t.Run(fmt.Sprintf("%s, ring %d", name, ring), func(t *testing.T) {
				j := allReduce(8, 10)
				j.Ring = ring
				j.Alike = func(rank, index int, c *frtest.Call) {
					if rank == 6 && index == 10 {
						change(c)
					}
				}
				wantVerdict(t, analyze(t, write(t, j)), rca.Inconsistent, rca.CauseOtherOp, 6)
			})
		}
	}
}

func TestFlightRecorderNothingLaunched(t *testing.T) {
	j := allReduce(8, 10)
	j.StopHost = map[int]int{3: 0}
	wantVerdict(t, analyze(t, write(t, j)), rca.NotEntered, rca.CauseNotCalled, 3)
}

// Two ranks enter two groups in opposite orders.
func TestFlightRecorderOppositeOrder(t *testing.T) {
	j := allReduce(4, 3)
	j.Groups = append(j.Groups, frtest.Group{Name: "1", Desc: "left", Ranks: []int{0, 1}}, frtest.Group{Name: "2", Desc: "right", Ranks: []int{0, 1}})
	base := j.Program
	j.Program = func(rank int) []frtest.Call {
		calls := base(rank)
		first, second := 1, 2
		if rank == 1 {
			first, second = 2, 1
		}
		if rank < 2 {
			for _, g := range []int{first, second} {
				calls = append(calls, frtest.Call{Group: g, Kind: "all_reduce", Input: []int64{8}, Output: []int64{8}}, frtest.Call{Kind: "sync"})
			}
		}
		return calls
	}
	r := analyze(t, write(t, j))
	if r.Verdict.Cause != rca.CauseDeadlock || !slices.Equal(diagnosis.Accused(r.Verdict), []int{0, 1}) {
		wantVerdict(t, r, rca.Inconsistent, rca.CauseDeadlock, 0, 1)
	}
}

// A send without its receive.
func TestFlightRecorderUnmatchedSend(t *testing.T) {
	j := frtest.Training(frtest.Layout{TP: 1, DP: 2, PP: 2, Steps: 5, Creation: 1})
	j.StopHost = map[int]int{3: j.CallIndex(3, "recv", 3)}
	wantVerdict(t, analyze(t, write(t, j)), rca.NotEntered, rca.CauseNotCalled, 3)
}

func TestFlightRecorderHealthy(t *testing.T) {
	j := allReduce(8, 10)
	j.Ring = 100
	r := analyze(t, write(t, j))
	wantVerdict(t, r, rca.Healthy, rca.CauseUnknown)
	if exitCode(r.Verdict.Class) != ExitHealthy {
		t.Errorf("exit code %d", exitCode(r.Verdict.Class))
	}
}

// Two groups of one name on different ranks are two groups: the counts of one say nothing of the other.
func TestFlightRecorderSameName(t *testing.T) {
	j := allReduce(4, 4)
	j.Ring = 100
	j.Groups = append(j.Groups, frtest.Group{Name: "tp", Desc: "tp", Ranks: []int{0, 1}}, frtest.Group{Name: "tp", Desc: "tp", Ranks: []int{2, 3}})
	base := j.Program
	j.Program = func(rank int) []frtest.Call {
		calls := base(rank)
		for range 1 + 5*(rank/2) { // The second group does more.
			calls = append(calls, frtest.Call{Group: 1 + rank/2, Kind: "all_reduce", Input: []int64{8}, Output: []int64{8}})
		}
		return calls
	}
	wantVerdict(t, analyze(t, write(t, j)), rca.Healthy, rca.CauseUnknown)
}

// The JSON form of the same dumps gives the same verdict.
func TestFlightRecorderJSON(t *testing.T) {
	j := moe()
	dir := t.TempDir()
	for _, s := range j.Run() {
		b, err := json.Marshal(plain(j.Dump(s)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("dump_%d.json", s.Rank)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wantVerdict(t, analyze(t, dir), rca.NotEntered, rca.CauseNotCalled, 9, 14)
}

// plain turns a dump into what PyTorch's JSON writer writes: counters as text, no empty list of entries.
func plain(v any) any {
	switch v := v.(type) {
	case frtest.Dict:
		out := map[string]any{}
		for i := 0; i < len(v); i += 2 {
			key := v[i].(string)
			value := plain(v[i+1])
			if l, ok := value.([]any); ok && key == "entries" && len(l) == 0 {
				continue
			}
			if n, ok := value.(int64); ok && strings.HasPrefix(key, "last_") {
				value = fmt.Sprint(n)
			}
			out[key] = value
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	default:
		return v
	}
}

// All dumps are cut off before what is pending, as a full disk does: their counters still tell who is behind, and where
// they do not nothing is said to be well.
func TestFlightRecorderAllCutOff(t *testing.T) {
	j := frtest.Training(frtest.Layout{TP: 4, DP: 1, PP: 1, Steps: 8, Creation: 1})
	j.StopHost = map[int]int{2: j.CallIndex(2, "all_to_all", 9)}
	j.Ring = 20
	for _, share := range []float64{0.9, 0.6, 0.3} {
		dir := write(t, j)
		for rank := range 4 {
			info, err := os.Stat(dumpFile(dir, rank))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(dumpFile(dir, rank), int64(share*float64(info.Size()))); err != nil {
				t.Fatal(err)
			}
		}
		r := analyze(t, dir)
		if got := diagnosis.Accused(r.Verdict); r.Verdict.Class == rca.Healthy || len(got) > 0 && !slices.Equal(got, []int{2}) {
			t.Errorf("cut to %g: %s %v: %s", share, r.Verdict.Class, got, r.Verdict.Summary)
		}
		if share == 0.6 && !strings.HasPrefix(r.Verdict.Summary, "Rank 2 has not called") {
			t.Errorf("cut to %g: %s", share, r.Verdict.Summary)
		}
	}
}

// Of a job that nobody of those seen hangs in, ranks are missing: that is no proof that all is well.
func TestFlightRecorderWitnessMissing(t *testing.T) {
	j := frtest.Training(frtest.Layout{TP: 2, DP: 1, PP: 1, Steps: 4, Creation: 1})
	j.StopHost = map[int]int{1: j.CallIndex(1, "all_to_all", 3)}
	dir := write(t, j)
	if err := os.Remove(dumpFile(dir, 0)); err != nil { // The only one that waits.
		t.Fatal(err)
	}
	wantVerdict(t, analyze(t, dir), rca.Unknown, rca.CauseUnknown)
}
