// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// shape describes a trace to write.
type shape struct {
	rank, world  int
	steps, first int
	ops          int  // Per step.
	seq, group   bool // Whether operations carry sequence numbers and their group.
	late         float64
	bare         bool // A plain array of events without an object around.
}

// write gives a trace as PyTorch's profiler writes it.
func write(s shape) []byte {
	var events []string
	add := func(format string, args ...any) { events = append(events, fmt.Sprintf(format, args...)) }
	add(`{"ph":"M","name":"process_name","pid":0,"args":{"name":"python"}}`)
	for step := s.first; step < s.first+s.steps; step++ {
		at := 1e6 + float64(step)*1000
		add(`{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":1,"tid":2,"ts":%.3f,"dur":990.5}`, step, at)
		for i := range s.ops {
			t := at + 100 + float64(i)*300
			add(`{"ph":"X","cat":"kernel","name":"ampere_gemm","pid":0,"tid":7,"ts":%.3f,"dur":%.3f,"args":{"stream":7}}`, t, 50+s.late)
			add(`{"ph":"X","cat":"kernel","name":"elementwise","pid":0,"tid":7,"ts":%.3f,"dur":20,"args":{"stream":7}}`, t+55+s.late)
			args := `"stream":20,"Collective name":"allreduce","In msg nelems":1024,"dtype":"Float"`
			if s.group {
				args += fmt.Sprintf(`,"Process Group Name":"dp","Process Group Description":"data","Group size":%d,"Process Group Ranks":"%s"`, s.world, strings.ReplaceAll(fmt.Sprint(seqInts(s.world)), " ", ", "))
			}
			if s.seq {
				args += fmt.Sprintf(`,"Seq":%d`, step*s.ops+i)
			}
			add(`{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)","pid":0,"tid":20,"ts":%.3f,"dur":%.3f,"args":{%s}}`, t+80+s.late, 120-s.late, args)
		}
	}
	list := "[\n" + strings.Join(events, ",\n") + "\n]"
	if s.bare {
		return []byte(list)
	}
	return []byte(fmt.Sprintf(`{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":%d,"world_size":%d},"deviceProperties":[{"id":0}],"traceEvents":%s,"traceName":"x"}`, s.rank, s.world, list))
}

func seqInts(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func parse(t testing.TB, s shape, rank int) *Trace {
	t.Helper()
	data := write(s)
	if !Sniff(data) {
		t.Error("not recognised")
	}
	tr, err := Parse(fmt.Sprintf("trace_%d.json", s.rank), data, rank)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestParse(t *testing.T) {
	tr := parse(t, shape{rank: 3, world: 4, steps: 2, first: 5, ops: 2, seq: true, group: true}, -1)
	if tr.Rank != 3 || tr.World != 4 || len(tr.Ops) != 4 || len(tr.Steps) != 2 || len(tr.Busy) != 4 || tr.CutOff {
		t.Fatalf("%+v", tr)
	}
	op := tr.Ops[0]
	if op.Func != "allreduce" || op.Seq != 10 || op.Bytes != 4096 || op.Group != "dp" || !slices.Equal(op.Ranks, []int{0, 1, 2, 3}) ||
		op.Start != 1005180000 || op.End != 1005300000 {
		t.Errorf("%+v", op)
	}
	if b := tr.Busy[0]; b.Start != 1005100000 || b.End != 1005175000 {
		t.Errorf("computation %+v", b)
	}
	if bare := parse(t, shape{world: 2, steps: 1, ops: 1, bare: true}, 1); bare.Rank != 1 || len(bare.Ops) != 1 {
		t.Errorf("a bare list: %+v", bare)
	}
}

// Operations are matched by their numbers, by their place in the step, or not at all.
func TestAlignment(t *testing.T) {
	for _, tc := range []struct {
		name     string
		a, b     shape
		segments int // Of operations; 0: refused.
		refused  string
	}{
		{"by sequence number", shape{steps: 3, ops: 2, seq: true, group: true}, shape{steps: 2, first: 1, ops: 2, seq: true, group: true}, 10, ""},
		{"by place in the step", shape{steps: 3, ops: 2, group: true}, shape{steps: 2, first: 1, ops: 2, group: true}, 10, ""},
		{"different numbers in a step", shape{steps: 2, ops: 2, group: true}, shape{steps: 2, ops: 1, group: true}, 0, "not aligned"},
		{"no groups", shape{steps: 1, ops: 1}, shape{steps: 1, ops: 1}, 0, "name no group"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.a.world, tc.b.world, tc.b.rank = 2, 2, 1
			ev, notes := Evidence([]*Trace{parse(t, tc.a, -1), parse(t, tc.b, -1)})
			n := 0
			bySeq := map[int64][]int{}
			for _, s := range ev.Timeline {
				if s.Kind == rca.SegmentOp {
					n++
					bySeq[int64(s.Iteration)<<32|s.Seq] = append(bySeq[int64(s.Iteration)<<32|s.Seq], s.Rank)
				}
			}
			if n != tc.segments {
				t.Errorf("%d operations, want %d (%q)", n, tc.segments, notes)
			}
			both := 0
			for _, ranks := range bySeq {
				if len(ranks) == 2 {
					both++
				}
			}
			if tc.segments > 0 && both != 4 {
				t.Errorf("%d operations are matched, want 4", both)
			}
			if found := slices.ContainsFunc(notes, func(s string) bool { return strings.Contains(s, tc.refused) }); tc.refused != "" && !found {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

func TestRanks(t *testing.T) {
	a := parse(t, shape{rank: 0, world: 3, steps: 1, ops: 1, group: true}, -1)
	b := parse(t, shape{rank: 0, world: 3, steps: 1, ops: 1, group: true}, -1)
	c := parse(t, shape{world: 3, steps: 1, ops: 1, bare: true}, -1)
	ev, _ := Evidence([]*Trace{a, b, c})
	if len(ev.Ranks) != 1 || len(ev.Missing) != 4 {
		t.Errorf("%d ranks, missing %+v", len(ev.Ranks), ev.Missing)
	}
}

func TestForeign(t *testing.T) {
	for data, want := range map[string]error{
		`{"traceEvents":[]}`: ErrNotTrace,
		`{"traceEvents":[{"ph":"X","name":"gemm","cat":"kernel","ts":1,"dur":2}]}`: ErrNoKernels,
		`17`:                      ErrNotTrace,
		`{"traceEvents":{"a":1}}`: ErrNotTrace,
	} {
		if _, err := Parse("x", []byte(data), 0); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", data, err, want)
		}
	}
	whole := write(shape{world: 2, steps: 2, ops: 2, group: true})
	cut, err := Parse("x", whole[:len(whole)-200], 0)
	if err != nil || !cut.CutOff || len(cut.Ops) == 0 {
		t.Errorf("cut off: %+v, %v", cut, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(write(shape{world: 2, steps: 1, ops: 1, group: true, seq: true}))
	f.Add(write(shape{world: 2, steps: 1, ops: 2, bare: true}))
	f.Fuzz(func(_ *testing.T, data []byte) {
		t, err := Parse("x", data, 0)
		if err != nil {
			return
		}
		ev, _ := Evidence([]*Trace{t})
		if ev.WorldSize < 1<<12 {
			_ = engine.Analyze(ev, rca.Options{})
		}
	})
}
