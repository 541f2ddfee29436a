// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

func TestFindColumns(t *testing.T) {
	for _, tc := range []struct {
		header string
		given  map[string]string
		want   string // Role=column of the roles found, in order of roles; empty: no op table.
	}{
		{"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc", nil, "chunk=8 dp=0 duration=6 microbatch=9 op=4 rank=2 seq=7 stage=1 start=5 step=3"},
		{"Rank,Operation,Start Time (us),Dur (us)", nil, "duration=3 op=1 rank=0 start=2"},
		{"global_rank;coll;start_ns;end_ns;comm_hash;nbytes", nil, "bytes=5 comm=4 end=3 op=1 rank=0 start=2"},
		{"gpu,what,t0,t1", map[string]string{"rank": "gpu", "op": "what", "start": "t0", "end": "t1"}, "end=3 op=1 rank=0 start=2"},
		{"a,b,c", nil, ""},
		{"rank,value", nil, ""},
	} {
		data := []byte(tc.header + "\n")
		header, _, err := open(data)
		if err != nil {
			t.Fatal(err)
		}
		l, ok, err := find(header, tc.given)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range Roles() {
			if i, has := l.column[Role(r)]; has {
				got = append(got, fmt.Sprintf("%s=%d", r, i))
			}
		}
		if s := strings.Join(got, " "); ok != (tc.want != "") || (ok && s != tc.want) {
			t.Errorf("%s: %s (%v), want %s", tc.header, s, ok, tc.want)
		}
		if Sniff(data, tc.given) != ok {
			t.Errorf("%s: recognised %v", tc.header, !ok)
		}
	}
	if _, _, err := find([]string{"x"}, map[string]string{"colour": "x"}); err == nil {
		t.Error("an unknown role is taken")
	}
}

func TestUnits(t *testing.T) {
	for name, tc := range map[string]struct{ table string }{
		"seconds":                {"rank,op,start,duration\n0,a,0.5,0.25\n"},
		"named milliseconds":     {"rank,op,start_ms,duration_ms\n0,a,500,250\n"},
		"whole microseconds":     {"rank,op,start,duration\n0,a,500000,250000\n"},
		"start and end":          {"rank,op,start,end\n0,a,0.5,0.75\n"},
		"end and duration":       {"rank,op,end,duration\n0,a,0.75,0.25\n"},
		"nanoseconds since 1970": {"rank,op,start,duration\n0,a,1700000000500000000,250000000\n"},
		"us since 1970":          {"rank,op,start,duration\n0,a,1700000000500000,250000\n"},
		"mixed":                  {"rank,op,start_s,duration_us\n0,a,0.5,250000\n"},
	} {
		tab, err := Read(t.Context(), name, []byte(tc.table), nil, -1)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := tab.Rows[0]
		if r.End-r.Start != 250e6 || r.Start%int64(1e9) != 500e6 {
			t.Errorf("%s: from %d to %d", name, r.Start, r.End)
		}
	}
}

func TestReadSkipsBadRows(t *testing.T) {
	table := "rank\top\tstart\tduration\n0\ta\t0.1\t0.2\n1\t\t0.1\t0.2\nx\ta\t0.1\t0.2\n2\ta\tnan\t0.2\n3\ta\t0.1\n4\ta\t0.1\t-5\n5\tb\t0.3\t0.1\n"
	tab, err := Read(t.Context(), "t", []byte(table), nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	if len(tab.Rows) != 2 || tab.Skipped != 5 {
		t.Errorf("%d rows, %d skipped", len(tab.Rows), tab.Skipped)
	}
	for name, data := range map[string]string{
		"no rank":   "op,start,duration\na,1,2\n",
		"no rows":   "rank,op,start,duration\n",
		"no table":  "hello world\n",
		"no times":  "rank,op,start,duration\n0,a,,\n",
		"bad magic": "PAR1nothing",
	} {
		if _, err := Read(t.Context(), name, []byte(data), nil, -1); err == nil {
			t.Errorf("%s was read", name)
		} else if name != "bad magic" && !errors.Is(err, ErrNotTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if tab, err := Read(t.Context(), "ops_rank_3.csv", []byte("op,start,duration\na,1,2\n"), nil, 3); err != nil || tab.Rows[0].Rank != 3 {
		t.Errorf("the rank of the file's name: %+v, %v", tab, err)
	}
}

// pipeline writes the table of a job of pp stages and dp replicas whose clocks are offset, as a text table.
func pipeline(dp, pp, steps int, slow func(stage, replica, step int) float64, offset func(rank int) float64) string {
	var b strings.Builder
	b.WriteString("rank,stage,dp_rank,step,optype,start_ts,duration,seq_id\n")
	for step := range steps {
		ends := map[int]float64{} // Of the ranks' part of the pipeline.
		for d := range dp {
			for mb := range microbatches {
				arrived := 0.0
				for p := range pp {
					rank := p*dp + d
					row := func(op string, start, took float64) {
						fmt.Fprintf(&b, "%d,%d,%d,%d,%s,%.9f,%.9f,%d\n", rank, p, d, step, op, start+offset(rank), took, mb)
					}
					at := ends[rank]
					if p > 0 {
						end := max(at, arrived) + 0.002
						row("forward-recv", at, end-at)
						at = end
					}
					compute := 0.100 * slow(p, d, step)
					row("forward-compute", at, compute)
					at += compute
					if p < pp-1 {
						row("forward-send", at, 0.002)
						arrived = at
						at += 0.002
					}
					ends[rank] = at
				}
			}
		}
		last := map[int]float64{}
		for p := range pp { // The replicas of a stage leave together.
			end := 0.0
			for d := range dp {
				end = max(end, ends[p*dp+d]+0.02+0.003*float64((step*(p+1))%4))
			}
			for d := range dp {
				rank := p*dp + d
				fmt.Fprintf(&b, "%d,%d,%d,%d,grads-all-reduce,%.9f,%.9f,0\n", rank, p, d, step, ends[rank]+offset(rank), end-ends[rank])
				last[rank] = end
			}
		}
		// All ranks agree on the norm of the gradients before the next step.
		end := 0.002
		for _, at := range last {
			end = max(end, at+0.002)
		}
		for rank := range dp * pp {
			fmt.Fprintf(&b, "%d,%d,%d,%d,norm-all-reduce,%.9f,%.9f,0\n", rank, rank/dp, rank%dp, step, last[rank]+offset(rank), end-last[rank])
		}
	}
	return b.String()
}

const microbatches = 6

func even(int, int, int) float64 { return 1 }

func TestGroups(t *testing.T) {
	for name, offset := range map[string]func(int) float64{
		"one clock":  func(int) float64 { return 0 },
		"own clocks": func(rank int) float64 { return 0.005 * float64(rank%3-1) },
	} {
		t.Run(name, func(t *testing.T) {
			tab, err := Read(t.Context(), "t", []byte(pipeline(2, 3, 12, even, offset)), nil, -1)
			if err != nil {
				t.Fatal(err)
			}
			ev, notes := Evidence([]*Table{tab})
			if ev.WorldSize != 6 || len(ev.Ranks) != 6 {
				t.Fatalf("%d ranks of %d", len(ev.Ranks), ev.WorldSize)
			}
			groups := map[string]int{}
			for _, c := range ev.Comms {
				groups[fmt.Sprint(c.Members)]++
			}
			// Pipelines of the replicas, and data-parallel groups of the stages.
			for _, want := range []string{"[0 2 4]", "[1 3 5]", "[0 1]", "[2 3]", "[4 5]"} {
				if groups[want] != 1 {
					t.Errorf("no group %s in %v (%q)", want, groups, notes)
				}
			}
			for _, s := range ev.Timeline {
				if strings.HasSuffix(s.Func, "send") && s.Peer != s.Rank+2 || strings.HasSuffix(s.Func, "recv") && s.Peer != s.Rank-2 {
					t.Fatalf("%s of rank %d has peer %d", s.Func, s.Rank, s.Peer)
				}
				if (s.Kind == rca.SegmentCompute) != strings.Contains(s.Func, "compute") {
					t.Fatalf("%s has kind %d", s.Func, s.Kind)
				}
			}
		})
	}
}

// Steps whose times start again at zero are laid one after another; others stay as they are.
func TestUnroll(t *testing.T) {
	relative := "rank,step,op,start,duration\n0,1,a,0.0,0.9\n0,2,a,0.0,0.9\n0,3,a,0.1,0.9\n"
	tab, err := Read(t.Context(), "t", []byte(relative), nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	ev, _ := Evidence([]*Table{tab})
	for i := 1; i < len(ev.Timeline); i++ {
		if ev.Timeline[i].Start < ev.Timeline[i-1].End {
			t.Errorf("step %d starts at %d, before %d", ev.Timeline[i].Iteration, ev.Timeline[i].Start, ev.Timeline[i-1].End)
		}
	}
	absolute := "rank,step,op,start,duration\n0,1,a,10.0,0.9\n0,2,a,11.0,0.9\n"
	if tab, err = Read(t.Context(), "t", []byte(absolute), nil, -1); err != nil {
		t.Fatal(err)
	}
	if ev, _ = Evidence([]*Table{tab}); ev.Timeline[1].Start != 11e9 {
		t.Errorf("absolute times were moved to %d", ev.Timeline[1].Start)
	}
}

// One recording in two forms is one recording.
func TestTwoFormsOfOneTable(t *testing.T) {
	text := pipeline(2, 2, 5, even, func(int) float64 { return 0 })
	read := func(name, text string) *Table {
		tab, err := Read(t.Context(), name, []byte(text), nil, -1)
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	first, second := read("a.csv", text), read("b.tsv", strings.ReplaceAll(text, ",", "\t"))
	for i := range second.Rows {
		second.Rows[i].Start += int64(i%3 - 1) // Rounded otherwise.
	}
	want, _ := Evidence([]*Table{read("a.csv", text)})
	got, notes := Evidence([]*Table{first, second})
	if len(got.Timeline) != len(want.Timeline) {
		t.Errorf("%d segments, want %d", len(got.Timeline), len(want.Timeline))
	}
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, "b.tsv: ") && strings.Contains(n, "count once") }) {
		t.Errorf("notes %q", notes)
	}
}

func TestParquetIsTheSame(t *testing.T) {
	type row struct {
		Rank     int32   `parquet:"rank"`
		Stage    int64   `parquet:"stage"`
		DPRank   int64   `parquet:"dp_rank"`
		Step     int64   `parquet:"step"`
		OpType   string  `parquet:"optype,dict"`
		Start    float64 `parquet:"start_ts"`
		Duration float32 `parquet:"duration"`
		Seq      *int64  `parquet:"seq_id,optional"`
	}
	text := pipeline(2, 2, 5, even, func(int) float64 { return 0 })
	want, err := Read(t.Context(), "t", []byte(text), nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[row](&buf, parquet.Compression(&parquet.Snappy))
	for _, r := range want.Rows {
		seq := r.Seq
		if _, err := w.Write([]row{{int32(r.Rank), int64(r.Stage), int64(r.DP), int64(r.Step), r.Op, float64(r.Start) / 1e9, float32(r.End-r.Start) / 1e9, &seq}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !Sniff(buf.Bytes(), nil) {
		t.Error("not recognised")
	}
	got, err := Read(t.Context(), "p", buf.Bytes(), nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != len(want.Rows) {
		t.Fatalf("%d rows, want %d", len(got.Rows), len(want.Rows))
	}
	for i := range got.Rows {
		g, w := got.Rows[i], want.Rows[i]
		if d := g.Start - w.Start; d > 1000 || d < -1000 {
			t.Fatalf("row %d starts at %d, want %d", i, g.Start, w.Start)
		}
		g.Start, g.End, w.Start, w.End = 0, 0, 0, 0
		if g != w {
			t.Fatalf("row %d is %+v, want %+v", i, g, w)
		}
	}
	for n := range 200 {
		cut := buf.Bytes()[:buf.Len()*n/200]
		if _, err := Read(t.Context(), "cut", cut, nil, -1); err == nil {
			t.Fatalf("%d of %d bytes were read", len(cut), buf.Len())
		}
	}
}

// TestParquetFooterThatIsNotThere: a file of a few bytes that claims a footer of gigabytes costs no more than its bytes.
func TestParquetFooterThatIsNotThere(t *testing.T) {
	data := []byte("PAR1" + strings.Repeat("x", 100) + "\x01\x00\x00\xe4PAR1")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Read(t.Context(), "x", data, nil, -1)
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Error("no error")
	}
	if more := after.TotalAlloc - before.TotalAlloc; more > 1<<20 {
		t.Errorf("%d MiB for a file of %d bytes: %v", more>>20, len(data), err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(pipeline(2, 2, 2, even, func(int) float64 { return 0 })), -1)
	f.Add([]byte("op;start;end;peer\nsend;1;2;1\nallreduce;3;4;x\n"), 0)
	var buf bytes.Buffer
	type row struct {
		Rank int64   `parquet:"rank"`
		Op   string  `parquet:"op"`
		Time float64 `parquet:"duration"`
	}
	if err := parquet.Write(&buf, []row{{0, "a", 1}, {1, "b", 2}}); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes(), -1)
	f.Fuzz(func(tt *testing.T, data []byte, rank int) {
		t, err := Read(tt.Context(), "x", data, nil, min(rank, 100))
		if err != nil {
			return
		}
		if ev, _ := Evidence([]*Table{t}); rcatest.Small(&ev) {
			_ = engine.Analyze(ev, rca.Options{})
		}
	})
}

// Tables give the verdict that they were made for, whatever the clocks; without a tenth of the rows that or none.
func TestVerdicts(t *testing.T) {
	straggler := func(stage, replica, _ int) float64 { return twice(stage == 1 && replica == 1) }
	heavyStage := func(stage, _, _ int) float64 { return twice(stage == 2) }
	skewed := func(rank int) float64 { return 0.005 * float64(rank%3-1) }
	for _, tc := range []struct {
		name  string
		slow  func(stage, replica, step int) float64
		class rca.Class
		cause rca.Cause
		ranks []int
	}{
		{"even", even, rca.Healthy, rca.CauseUnknown, nil},
		{"one slow rank", straggler, rca.SlowCompute, rca.CauseGPU, []int{4}},
		{"an uneven stage", heavyStage, rca.Imbalance, rca.CauseStage, nil},
	} {
		for _, drop := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, rows dropped %v", tc.name, drop), func(t *testing.T) {
				lines := strings.SplitAfter(pipeline(3, 4, 24, tc.slow, skewed), "\n")
				if drop {
					n := 0
					lines = slices.DeleteFunc(lines, func(string) bool { n++; return n%10 == 7 })
				}
				tab, err := Read(t.Context(), "t", []byte(strings.Join(lines, "")), nil, -1)
				if err != nil {
					t.Fatal(err)
				}
				ev, _ := Evidence([]*Table{tab})
				v := engine.Analyze(ev, rca.Options{})
				var ranks []int
				for _, c := range v.Culprits {
					if c.Rank >= 0 {
						ranks = append(ranks, c.Rank)
					}
				}
				if drop && len(ranks) == 0 {
					return // A dropped row may be what showed it; nobody innocent is accused.
				}
				if v.Class != tc.class || v.Cause != tc.cause || !slices.Equal(ranks, tc.ranks) {
					t.Errorf("%s/%s %v, want %s/%s %v\n%s", v.Class, v.Cause, ranks, tc.class, tc.cause, tc.ranks, v.Summary)
				}
			})
		}
	}
}

// twice is how slow something is, where it is.
func twice(slow bool) float64 {
	if slow {
		return 2
	}
	return 1
}

// A table with one process of each tensor-parallel group lacks nobody; one with a hole lacks a rank.
func TestStride(t *testing.T) {
	for _, tc := range []struct {
		name    string
		rows    string
		world   int
		missing int
	}{
		{"every fourth", "0,0\n4,1\n8,2\n", 3, 0},
		{"every fourth but one", "0,0\n4,1\n12,3\n", 4, 1},
		{"a hole", "0,0\n1,1\n3,3\n", 4, 1},
	} {
		var b strings.Builder
		b.WriteString("rank,stage,op,start,duration\n")
		for line := range strings.Lines(tc.rows) {
			b.WriteString(strings.TrimSpace(line) + ",forward-compute,0.5,0.1\n")
		}
		tab, err := Read(t.Context(), "t", []byte(b.String()), nil, -1)
		if err != nil {
			t.Fatal(err)
		}
		ev, _ := Evidence([]*Table{tab})
		if ev.WorldSize != tc.world || len(ev.Missing) != tc.missing {
			t.Errorf("%s: %d ranks, missing %v", tc.name, ev.WorldSize, ev.Missing)
		}
	}
}

// FuzzParquet has any bytes read as Parquet. The process that reads them may end in every way, this one does not.
func FuzzParquet(f *testing.F) {
	type row struct {
		Rank int64   `parquet:"rank"`
		Op   string  `parquet:"op"`
		Time float64 `parquet:"duration"`
	}
	var buf bytes.Buffer
	if err := parquet.Write(&buf, []row{{0, "a", 1}, {1, "b", 2}}); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes(), uint16(0), byte(0))
	f.Add(buf.Bytes(), uint16(5), byte(0xff))
	f.Add([]byte("PAR1PAR1PAR1"), uint16(5), byte(0xff))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, put byte) {
		data = bytes.Clone(data)
		if len(data) > 0 {
			data[int(at)%len(data)] ^= put
		}
		if table, err := readParquet(t.Context(), "x", data, nil, -1); err == nil && len(table.Rows) == 0 {
			t.Error("a table without rows")
		}
	})
}

// TestParquetIsGivenUp: who no longer waits for a table does not wait for the process that reads it either.
func TestParquetIsGivenUp(t *testing.T) {
	type row struct {
		Rank int64   `parquet:"rank"`
		Op   string  `parquet:"op"`
		Time float64 `parquet:"duration"`
	}
	var buf bytes.Buffer
	if err := parquet.Write(&buf, []row{{0, "a", 1}, {1, "b", 2}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), "x", buf.Bytes(), nil, -1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, "x", buf.Bytes(), nil, -1); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
