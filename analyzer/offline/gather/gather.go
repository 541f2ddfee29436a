// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package gather makes evidence of what was read from files. Every reader ends in it: who is in the job, who is where in which
// communicator, who is missing, and what there is to say of the files.
package gather

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Job is one job as a source shows it.
type Job struct {
	World    int // Ranks that it has at least.
	Notes    []string
	Facts    []rca.Fact
	Timeline []rca.Segment
	ranks    map[int]*rca.Rank
	comms    map[rca.CommID]*rca.Comm
	missing  []rca.Missing
	caps     rca.Capability
}

// New gives a job of which nothing is known, from a source that can see so much of each rank.
func New(caps rca.Capability) *Job {
	return &Job{ranks: map[int]*rca.Rank{}, comms: map[rca.CommID]*rca.Comm{}, caps: caps}
}

// Rank gives a rank that the source shows.
func (j *Job) Rank(id int) *rca.Rank {
	r := j.ranks[id]
	if r == nil {
		r = &rca.Rank{ID: id, Caps: j.caps, ReadBytesPerSec: -1, WriteBytesPerSec: -1, CPUCores: -1, ProxyRunDelay: -1}
		j.ranks[id] = r
		j.World = max(j.World, id+1)
	}
	return r
}

// Shows reports whether the source shows a rank.
func (j *Job) Shows(id int) bool { return j.ranks[id] != nil }

// Seen is how many ranks the source shows.
func (j *Job) Seen() int { return len(j.ranks) }

// Shown gives the ranks that the source shows, in order.
func (j *Job) Shown() []int { return slices.Sorted(maps.Keys(j.ranks)) }

// Hide takes back that the source shows a rank.
func (j *Job) Hide(id int) { delete(j.ranks, id) }

// Comm gives a communicator, made with this name where it is new, of this size at least.
func (j *Job) Comm(id rca.CommID, name string, size int) *rca.Comm {
	c := j.comms[id]
	if c == nil {
		c = &rca.Comm{ID: id, Name: name}
		j.comms[id] = c
	}
	c.Size = max(c.Size, size)
	return c
}

// Adopt takes a communicator as it is, unless it is known.
func (j *Job) Adopt(c rca.Comm) *rca.Comm {
	if j.comms[c.ID] == nil {
		j.comms[c.ID] = &c
	}
	return j.comms[c.ID]
}

// Knows gives a communicator that was named before, else nil.
func (j *Job) Knows(id rca.CommID) *rca.Comm { return j.comms[id] }

// Comms gives all communicators in the order of their names.
func (j *Job) Comms() []*rca.Comm {
	out := make([]*rca.Comm, 0, len(j.comms))
	for _, id := range slices.Sorted(maps.Keys(j.comms)) {
		out = append(out, j.comms[id])
	}
	return out
}

// Place puts a rank at its place in a communicator.
func Place(c *rca.Comm, at, rank int) {
	if more := at + 1 - len(c.Members); more > 0 {
		c.Members = append(c.Members, slices.Repeat([]int{-1}, more)...)
	}
	c.Members[at] = rank
}

// All gives the numbers of n ranks.
func All(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Note says something of the files that no verdict needs.
func (j *Job) Note(format string, args ...any) {
	j.Notes = append(j.Notes, fmt.Sprintf(format, args...))
}

// Count says how many of something there are, if there are any.
func (j *Job) Count(n int, format string, args ...any) {
	if n > 0 {
		j.Note("%d "+format, append([]any{n}, args...)...)
	}
}

// Process says what a source tells of a rank's process; of -1: of a process whose rank is not known.
func (j *Job) Process(rank int, host, kind, format string, args ...any) {
	j.Facts = append(j.Facts, rca.Fact{Host: host, Rank: rank, Component: "process", Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// Lacks says that something is missing that is no rank: a file, a process.
func (j *Job) Lacks(what, name, format string, args ...any) {
	j.missing = append(j.missing, rca.Missing{What: what, Name: name, Why: fmt.Sprintf(format, args...)})
}

// Silent says that nothing is known of a rank, and why.
func (j *Job) Silent(rank int, format string, args ...any) {
	j.missing = append(j.missing, Unseen(rank, fmt.Sprintf(format, args...)))
}

// Unseen is a rank of which nothing is known.
func Unseen(rank int, why string) rca.Missing {
	return rca.Missing{What: "rank", Name: fmt.Sprint(rank), Ranks: []int{rank}, Why: why}
}

// Rest says why nothing is known of the other ranks that the source does not show.
func (j *Job) Rest(why string) {
	told := map[int]bool{}
	for _, m := range j.missing {
		for _, id := range m.Ranks {
			told[id] = true
		}
	}
	for id := range j.World {
		if j.ranks[id] == nil && !told[id] {
			j.Silent(id, "%s", why)
		}
	}
}

// Evidence gives all of it in order.
func (j *Job) Evidence() rca.Evidence {
	ev := rca.Evidence{WorldSize: j.World, Facts: j.Facts, Missing: j.missing, Timeline: j.Timeline}
	for _, id := range j.Shown() {
		ev.Ranks = append(ev.Ranks, *j.ranks[id])
	}
	for _, c := range j.Comms() {
		ev.Comms = append(ev.Comms, *c)
	}
	slices.SortStableFunc(ev.Timeline, func(x, y rca.Segment) int {
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Start, y.Start))
	})
	return ev
}

// Member is a rank's place in a communicator of which nothing else is known.
func Member(c rca.CommID, at int) rca.Membership {
	return rca.Membership{Comm: c, CommRank: at, Called: -1, Started: -1, Completed: -1, SinceCalled: -1, SinceCompleted: -1}
}

// Op is an operation of which nothing is known but that it was enqueued.
func Op(function string) rca.Op {
	return rca.Op{
		Number: -1, Seq: -1, Func: function, Peer: -1, Root: -1, Count: -1, Bytes: -1, State: rca.OpEnqueued, Age: -1, Stuck: -1,
		KernelStarted: -1, KernelStopped: -1,
	}
}

// Segment is a piece of a rank's work of which nothing but its time is known.
func Segment(rank int, kind rca.SegmentKind, function string, start, end int64) rca.Segment {
	return rca.Segment{
		Rank: rank, Kind: kind, Func: function, Start: start, End: end, Iteration: -1, Number: -1, Seq: -1, Peer: -1, Bytes: -1,
		Stage: -1, DataRank: -1, Layer: -1, Microbatch: -1, SlowestChannel: -1, SlowestPeer: -1,
	}
}

// Median puts values in order, and gives the one in the middle.
func Median(v []int64) int64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// Spread is the median distance from the median. It changes the values.
func Spread(v []int64) int64 {
	m := Median(v)
	for i := range v {
		v[i] = max(v[i]-m, m-v[i])
	}
	return Median(v)
}
