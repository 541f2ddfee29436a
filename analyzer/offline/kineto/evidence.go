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

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Evidence turns the traces of one job into a timeline. Operations that cannot be aligned between ranks are left out,
// and notes say so: comparing what is not the same operation would accuse at random.
func Evidence(traces []*Trace) (ev rca.Evidence, notes []string) {
	b := builder{comms: map[rca.CommID]*rca.Comm{}, ops: map[rca.CommID]map[int][]numbered{}, streams: map[int64]map[int][]numbered{}}
	ranks := map[int]*Trace{}
	for _, t := range traces {
		switch {
		case t.Rank < 0:
			ev.Missing = append(ev.Missing, rca.Missing{What: "file", Name: t.File, Why: "neither the trace nor its name says which rank it is of"})
			continue
		case ranks[t.Rank] != nil:
			ev.Missing = append(ev.Missing, rca.Missing{What: "file", Name: t.File, Why: fmt.Sprintf("a second trace of rank %d", t.Rank)})
			continue
		}
		ranks[t.Rank] = t
		b.world = max(b.world, t.Rank+1, t.World)
		if t.CutOff {
			notes = append(notes, t.File+" is cut off")
		}
	}
	for _, r := range slices.Sorted(maps.Keys(ranks)) {
		b.trace(ranks[r])
		ev.Ranks = append(ev.Ranks, rca.Rank{
			ID: r, Host: ranks[r].Host, Caps: rca.SeesCompletion | rca.SeesKernels,
			ReadBytesPerSec: -1, WriteBytesPerSec: -1, CPUCores: -1, ProxyRunDelay: -1,
		})
	}
	notes = append(notes, b.infer(b.world-len(ranks))...)
	notes = append(notes, b.align()...)
	notes = append(notes, b.dropUnaligned()...)
	ev.Timeline = b.timeline
	slices.SortStableFunc(ev.Timeline, func(x, y rca.Segment) int {
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Start, y.Start))
	})
	for _, id := range slices.Sorted(maps.Keys(b.comms)) {
		ev.Comms = append(ev.Comms, *b.comms[id])
	}
	ev.WorldSize = b.world
	for r := range b.world {
		if ranks[r] == nil {
			ev.Missing = append(ev.Missing, rca.Missing{What: "rank", Name: fmt.Sprint(r), Ranks: []int{r}, Why: "no trace"})
		}
	}
	return ev, notes
}

type builder struct {
	world    int
	comms    map[rca.CommID]*rca.Comm
	ops      map[rca.CommID]map[int][]numbered // By rank, in order.
	timeline []rca.Segment
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
		b.timeline = append(b.timeline, rca.Segment{
			Rank: t.Rank, Kind: rca.SegmentCompute, Iteration: t.step(s.Start), Number: -1, Seq: -1, Func: "kernels", Peer: -1, Bytes: -1,
			Start: s.Start, End: s.End, Stage: -1, DataRank: -1, Layer: -1, Microbatch: -1, SlowestChannel: -1, SlowestPeer: -1,
		})
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
		members = make([]int, t.World)
		for i := range members {
			members[i] = i
		}
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
	if b.comms[id] == nil {
		name := cmp.Or(op.GroupDesc, op.Group, "group")
		if op.GroupDesc != "" && op.Group != "" {
			name += fmt.Sprintf(" %q", op.Group)
		}
		b.comms[id] = &rca.Comm{ID: id, Name: name, Size: max(op.GroupSize, len(members)), Members: members}
		for _, m := range members {
			b.world = max(b.world, m+1)
		}
	}
	return id, true
}

// align numbers the operations of every group so that equal numbers are one operation on all ranks, and drops groups
// for which that cannot be.
func (b *builder) align() []string {
	var notes []string
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
			notes = append(notes, fmt.Sprintf("%s: its ranks show different numbers of operations and no sequence numbers: not aligned, left out", b.comms[id].Name))
		}
	}
	return notes
}

// dropUnaligned leaves out ranks that show no operation that others show too: nothing says that they do the same work.
func (b *builder) dropUnaligned() []string {
	aligned, shown := map[int]bool{}, map[int]bool{}
	for i := range b.timeline {
		s := &b.timeline[i]
		shown[s.Rank] = true
		aligned[s.Rank] = aligned[s.Rank] || s.Kind == rca.SegmentOp
	}
	b.timeline = slices.DeleteFunc(b.timeline, func(s rca.Segment) bool { return !aligned[s.Rank] })
	var out []int
	for _, r := range slices.Sorted(maps.Keys(shown)) {
		if !aligned[r] {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: no operation can be aligned with another rank's, so computation is not compared either", shortList(out))}
}

func (b *builder) emit(id rca.CommID, seq func(i int, n numbered, next map[int]int64) int64) {
	for _, r := range slices.Sorted(maps.Keys(b.ops[id])) {
		next := map[int]int64{}
		for i, n := range b.ops[id][r] {
			s := rca.Segment{
				Rank: r, Kind: rca.SegmentOp, Iteration: n.step, Comm: id, Number: -1, Seq: seq(i, n, next), Func: n.op.Func, Peer: -1,
				Bytes: n.op.Bytes, Start: n.op.Start, End: n.op.End, Entered: n.op.Start, Stage: -1, DataRank: -1, Layer: -1, Microbatch: -1,
				SlowestChannel: -1, SlowestPeer: -1,
			}
			b.timeline = append(b.timeline, s)
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
