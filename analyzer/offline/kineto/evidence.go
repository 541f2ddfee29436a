// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sort"
	"strconv"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Evidence turns the traces of one job into a timeline. Operations that cannot be aligned between ranks are left out,
// and notes say so: comparing what is not the same operation would accuse at random.
func Evidence(traces []*Trace) (ev rca.Evidence, notes []string) {
	b := builder{
		Job: gather.New(rca.SeesCompletion | rca.SeesKernels),
		ops: map[rca.CommID]map[int][]numbered{}, streams: map[int64]map[int][]numbered{},
	}
	var read []*Trace
	for _, t := range traces {
		switch {
		case t.Rank < 0:
			b.Lacks("file", t.File, "neither the trace nor its name says which rank it is of")
			continue
		case b.Shows(t.Rank):
			b.Lacks("file", t.File, "a second trace of rank %d", t.Rank)
			continue
		}
		read = append(read, t)
		b.World = max(b.World, t.World)
		b.Rank(t.Rank).Host = t.Host
		if t.CutOff {
			b.Note("%s is cut off", t.File)
		}
	}
	slices.SortFunc(read, func(x, y *Trace) int { return cmp.Compare(x.Rank, y.Rank) })
	for _, t := range read {
		b.trace(t)
	}
	b.infer(b.World - len(read))
	b.align()
	b.dropUnaligned()
	b.Rest("no trace")
	return b.Evidence(), b.Notes
}

type builder struct {
	*gather.Job
	ops map[rca.CommID]map[int][]numbered // By rank, in order.
	// streams holds the operations that do not name their group, by the stream that they ran on.
	streams map[int64]map[int][]numbered
	unnamed int
}

// numbered is an operation with its step.
type numbered struct {
	op   *Op
	step int
}

func (b *builder) trace(t *Trace) {
	for i := range t.Ops {
		op := &t.Ops[i]
		id, ok := b.comm(t, op)
		if !ok {
			b.unnamed++
			if b.streams[op.Stream] == nil {
				b.streams[op.Stream] = map[int][]numbered{}
			}
			b.streams[op.Stream][t.Rank] = append(b.streams[op.Stream][t.Rank], numbered{op, t.step(op.Start)})
			continue
		}
		if b.ops[id] == nil {
			b.ops[id] = map[int][]numbered{}
		}
		b.ops[id][t.Rank] = append(b.ops[id][t.Rank], numbered{op, t.step(op.Start)})
	}
	for _, s := range t.Busy {
		work := gather.Segment(t.Rank, rca.SegmentCompute, "kernels", s.Start, s.End)
		work.Iteration = t.step(s.Start)
		b.Timeline = append(b.Timeline, work)
	}
}

// step gives the profiler step in which a time lies, -1 none.
func (t *Trace) step(at int64) int {
	i := sort.Search(len(t.Steps), func(i int) bool { return t.Steps[i].Start > at })
	if i == 0 {
		return -1
	}
	return t.Steps[i-1].Number // A kernel may run after the step that launched it has ended.
}

// comm identifies an operation's group: by name and members, or as the whole job where the size says so.
func (b *builder) comm(t *Trace, op *Op) (rca.CommID, bool) {
	members := op.Ranks
	if len(members) == 0 { // Long lists are cut off in the operation, not in what the profiler says of the job.
		members = t.groups[op.Group]
	}
	if op.GroupSize > 0 && len(members) != op.GroupSize {
		members = nil
	}
	if len(members) == 0 && op.GroupSize > 0 && op.GroupSize == t.World {
		members = gather.All(t.World)
	}
	if op.Group == "" && len(members) == 0 {
		return "", false
	}
	id := rca.CommID(fmt.Sprintf("%s/%v%s", op.Group, members, op.cut))
	if len(members) > 16 {
		h := fnv.New32a()
		for _, m := range members {
			_, _ = h.Write(append(strconv.AppendInt(nil, int64(m), 10), ','))
		}
		id = rca.CommID(fmt.Sprintf("%s/%d/%08x", op.Group, len(members), h.Sum32()))
	}
	if b.Knows(id) == nil {
		name := cmp.Or(op.GroupDesc, op.Group, "group")
		if op.GroupDesc != "" && op.Group != "" {
			name += fmt.Sprintf(" %q", op.Group)
		}
		b.Comm(id, name, max(op.GroupSize, len(members))).Members = members
		if len(members) > 0 {
			b.World = max(b.World, slices.Max(members)+1)
		}
	}
	return id, true
}

// align numbers the operations of every group so that equal numbers are one operation on all ranks, and drops groups
// for which that cannot be.
func (b *builder) align() {
	for _, id := range slices.Sorted(maps.Keys(b.ops)) {
		byRank := b.ops[id]
		switch {
		case sequenced(byRank):
			b.emit(id, func(_ int, n numbered, _ map[int]int64) int64 { return n.op.Seq })
		case sameSteps(byRank):
			b.emit(id, func(_ int, n numbered, next map[int]int64) int64 {
				next[n.step]++
				return next[n.step] - 1
			})
		case sameCounts(byRank):
			b.emit(id, func(i int, _ numbered, _ map[int]int64) int64 { return int64(i) })
		default:
			b.Note("%s: its ranks show different numbers of operations and no sequence numbers: not aligned, left out", b.Knows(id).Name)
		}
	}
}

// dropUnaligned leaves out ranks that show no operation that others show too: nothing says that they do the same work.
func (b *builder) dropUnaligned() {
	aligned, shown := map[int]bool{}, map[int]bool{}
	for i := range b.Timeline {
		s := &b.Timeline[i]
		shown[s.Rank] = true
		aligned[s.Rank] = aligned[s.Rank] || s.Kind == rca.SegmentOp
	}
	b.Timeline = slices.DeleteFunc(b.Timeline, func(s rca.Segment) bool { return !aligned[s.Rank] })
	var out []int
	for _, r := range slices.Sorted(maps.Keys(shown)) {
		if !aligned[r] {
			out = append(out, r)
		}
	}
	if len(out) > 0 {
		b.Note("%s: no operation can be aligned with another rank's, so computation is not compared either", shortList(out))
	}
}

func (b *builder) emit(id rca.CommID, seq func(i int, n numbered, next map[int]int64) int64) {
	for _, r := range slices.Sorted(maps.Keys(b.ops[id])) {
		next := map[int]int64{}
		for i, n := range b.ops[id][r] {
			s := gather.Segment(r, rca.SegmentOp, n.op.Func, n.op.Start, n.op.End)
			s.Iteration, s.Comm, s.Seq, s.Bytes, s.Entered = n.step, id, seq(i, n, next), n.op.Bytes, n.op.Start
			b.Timeline = append(b.Timeline, s)
		}
	}
}

func sequenced(byRank map[int][]numbered) bool {
	for _, ops := range byRank {
		seen := map[int64]bool{}
		for _, n := range ops {
			if n.op.Seq < 0 || seen[n.op.Seq] {
				return false
			}
			seen[n.op.Seq] = true
		}
	}
	return true
}

// sameSteps says whether all ranks show the same operations in the same order in every step that they share.
func sameSteps(byRank map[int][]numbered) bool {
	var want map[int][]string
	for _, r := range slices.Sorted(maps.Keys(byRank)) {
		got := map[int][]string{}
		for _, n := range byRank[r] {
			if n.step < 0 {
				return false
			}
			got[n.step] = append(got[n.step], n.op.Func)
		}
		if want == nil {
			want = got
			continue
		}
		for step, funcs := range got {
			// A step at the edge of one rank's window may be missing on another.
			if other, ok := want[step]; ok && !slices.Equal(funcs, other) {
				return false
			}
		}
	}
	return true
}

func sameCounts(byRank map[int][]numbered) bool {
	var want []string
	for _, r := range slices.Sorted(maps.Keys(byRank)) {
		got := make([]string, 0, len(byRank[r]))
		for _, n := range byRank[r] {
			got = append(got, n.op.Func)
		}
		if want != nil && !slices.Equal(got, want) {
			return false
		}
		want = got
	}
	return true
}
