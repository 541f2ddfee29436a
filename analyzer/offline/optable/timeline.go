// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Evidence turns the tables of one job into a timeline. notes say what was inferred.
func Evidence(tables []*Table) (ev rca.Evidence, notes []string) {
	j := gather.New(rca.SeesCompletion)
	var rows []Row
	for i, t := range tables {
		fresh := t.Rows
		if i > 0 {
			if fresh = unknownRows(rows, t.Rows); len(fresh) < len(t.Rows) {
				j.Note("%s: %d of %d rows are in the other tables too and count once", t.File, len(t.Rows)-len(fresh), len(t.Rows))
			}
		}
		rows = append(rows, fresh...)
		if t.Skipped > 0 {
			j.Note("%s: %d rows lack a rank, an operation or times and were left out", t.File, t.Skipped)
		}
		if t.Numbered {
			j.Note("%s: it has no rank numbers; ranks are counted by stage, data-parallel and tensor-parallel rank", t.File)
		}
	}
	b := newJob(rows)
	if b.unroll() {
		j.Note("times are relative to the step: steps were laid one after another")
	}
	b.number()
	grouped := b.groups()
	if b.withoutWaiting() && b.addWaiting() {
		j.Note("communication is recorded without the waiting before it: what a rank idles before it is taken as that")
		b.comm, b.members = make([]rca.CommID, len(b.rows)), map[rca.CommID][]int{}
		grouped = b.groups()
	}
	j.Notes = append(j.Notes, grouped...)
	stride := b.stride()
	if stride > 1 {
		j.Note("only every rank divisible by %d is in the table, as if one of each tensor-parallel group were: the others are not taken as missing", stride)
	}
	for r := range b.place {
		j.Rank(r)
	}
	for id, members := range b.members {
		j.Comm(id, string(id), len(members)).Members = members
	}
	j.Timeline = b.segments()
	for r := 0; r < b.world; r += stride {
		if !j.Shows(r) {
			j.Silent(r, "no row in the op table")
		}
	}
	j.World = (b.world + stride - 1) / stride
	return j.Evidence(), j.Notes
}

// stride is the distance of the rank numbers that a table with coordinates holds: one process often stands for those
// that split its work by tensor.
func (b *job) stride() int {
	stride := 0
	for r, c := range b.place {
		if c.stage < 0 && c.dp < 0 {
			return 1
		}
		stride = gcd(stride, r)
	}
	return max(1, stride)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sameNS is by how much the times of one operation may differ between two writings of it: floats are rounded.
const sameNS = 1000

// unknownRows gives the rows that are not among those known: one recording is often there in several forms.
func unknownRows(known, rows []Row) []Row {
	type key struct {
		rank, step, microbatch, chunk, peer int
		seq                                 int64
		op, comm                            string
		at                                  int64
	}
	of := func(r *Row, at int64) key {
		return key{r.Rank, r.Step, r.Microbatch, r.Chunk, r.Peer, r.Seq, r.Op, r.Comm, at}
	}
	seen := make(map[key]bool, len(known))
	for i := range known {
		seen[of(&known[i], known[i].Start/sameNS)] = true
	}
	fresh := make([]Row, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		at := r.Start / sameNS
		if !seen[of(r, at)] && !seen[of(r, at-1)] && !seen[of(r, at+1)] {
			fresh = append(fresh, *r)
		}
	}
	return fresh
}

// coordinates are a rank's place in the job; -1 unknown.
type coordinates struct{ stage, dp, tp int }

// job is the table of one job with what was found out about it.
type job struct {
	rows    []Row
	kind    []rca.SegmentKind // By row.
	comm    []rca.CommID      // By row, of communication.
	peer    []int
	seq     []int64 // Occurrence of the operation on the rank in the step, where the table has none.
	place   map[int]coordinates
	at      map[coordinates]int
	members map[rca.CommID][]int
	stages  int
	world   int
}

func newJob(rows []Row) *job {
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Seq, b.Seq))
	})
	b := &job{
		rows: rows, kind: make([]rca.SegmentKind, len(rows)), comm: make([]rca.CommID, len(rows)), peer: make([]int, len(rows)),
		seq: make([]int64, len(rows)), place: map[int]coordinates{}, at: map[coordinates]int{}, members: map[rca.CommID][]int{},
	}
	for i := range rows {
		r := &rows[i]
		b.kind[i] = kindOf(r)
		b.peer[i] = r.Peer
		if _, ok := b.place[r.Rank]; !ok {
			c := coordinates{r.Stage, r.DP, r.TP}
			b.place[r.Rank] = c
			b.at[c] = r.Rank
		}
		b.stages = max(b.stages, r.Stage+1)
		b.world = max(b.world, r.Rank+1, r.Peer+1)
	}
	return b
}

// communicationWords make an operation's name one of communication.
var communicationWords = []string{"send", "recv", "receive", "reduce", "gather", "scatter", "broadcast", "bcast", "all-to-all", "all_to_all", "alltoall", "all2all", "barrier", "nccl"}

func kindOf(r *Row) rca.SegmentKind {
	switch k := strings.ToLower(r.Kind); {
	case strings.Contains(k, "comp"):
		return rca.SegmentCompute
	case strings.Contains(k, "comm"):
		return rca.SegmentOp
	}
	name := strings.ToLower(r.Op)
	for _, w := range communicationWords {
		if strings.Contains(name, w) {
			return rca.SegmentOp
		}
	}
	if r.Comm != "" {
		return rca.SegmentOp
	}
	return rca.SegmentCompute
}

// unroll lays steps one after another where their times all start near zero.
func (b *job) unroll() bool {
	type span struct{ first, last int64 }
	steps := map[int]span{}
	for i := range b.rows {
		r := &b.rows[i]
		s, ok := steps[r.Step]
		if !ok {
			s = span{r.Start, r.End}
		}
		steps[r.Step] = span{min(s.first, r.Start), max(s.last, r.End)}
	}
	order := slices.Sorted(maps.Keys(steps))
	relative := len(order) > 1
	for i := 1; i < len(order); i++ {
		// Overlap by more than half of a step cannot be two steps of one job.
		a, c := steps[order[i-1]], steps[order[i]]
		relative = relative && c.first < a.first+(a.last-a.first)/2
	}
	if !relative {
		return false
	}
	offset := map[int]int64{}
	at := int64(0)
	for _, s := range order {
		offset[s] = at - steps[s].first
		at += steps[s].last - steps[s].first
	}
	for i := range b.rows {
		b.rows[i].Start += offset[b.rows[i].Step]
		b.rows[i].End += offset[b.rows[i].Step]
	}
	return true
}

// number counts occurrences of each operation on a rank in a step, for tables without sequence numbers.
func (b *job) number() {
	type key struct {
		rank, step int
		op, comm   string
		peer       int
	}
	next := map[key]int64{}
	for i := range b.rows {
		r := &b.rows[i]
		b.seq[i] = r.Seq
		if r.Seq < 0 {
			k := key{r.Rank, r.Step, r.Op, r.Comm, r.Peer}
			b.seq[i] = next[k]
			next[k]++
		}
	}
}

func (b *job) segments() []rca.Segment {
	out := make([]rca.Segment, 0, len(b.rows))
	for i := range b.rows {
		r := &b.rows[i]
		s := gather.Segment(r.Rank, b.kind[i], r.Op, r.Start, r.End)
		s.Iteration, s.Comm, s.Seq, s.Peer, s.Bytes = r.Step, b.comm[i], b.seq[i], b.peer[i], r.Bytes
		s.Stage, s.DataRank, s.Layer, s.Microbatch = r.Stage, r.DP, r.Chunk, r.Microbatch
		out = append(out, s)
	}
	return out
}
