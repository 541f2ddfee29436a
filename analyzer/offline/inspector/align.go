// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package inspector

import "strings"

// align gives records that have durations and no starts times. All members leave a collective together, and a rank goes
// through its operations in order: laid so, as early as they can be, whoever stays in an operation for less than the others
// came later, by that much at least. What all ranks do between operations does not show; it is spread evenly, so that the
// whole takes as long as the records were written in. Operations of which a member's record is lacking are left out, as a
// rank that lacks records would look late; where that leaves none, all stay as they are.
//
// records are in each rank's order, ranks one after another as rank tells.
func align(records []Record, rank func(*Record) int) []Record {
	a := alignment{at: map[instance][]int{}}
	var kept []Record
	whole := map[instance]int{}
	for i := range records {
		whole[key(&records[i])]++
	}
	for i := range records {
		if r := &records[i]; pairwise(r) || r.Size > 1 && whole[key(r)] == r.Size {
			kept = append(kept, *r)
		}
	}
	a.records = kept
	for i := range kept {
		if r := &kept[i]; !pairwise(r) {
			a.at[key(r)] = append(a.at[key(r)], i)
		}
		if n := len(a.queues); n == 0 || rank(&kept[a.queues[n-1][0]]) != rank(&kept[i]) {
			a.queues = append(a.queues, nil)
		}
		n := len(a.queues) - 1
		a.queues[n] = append(a.queues[n], i)
	}
	if len(a.at) == 0 {
		return records
	}
	took := a.lay(0)
	if written := a.written(); written > took {
		a.lay((written - took) / int64(len(a.at)))
	}
	return kept
}

// instance is a collective operation on all its members.
type instance struct {
	comm, function string
	seq            int64
}

func key(r *Record) instance { return instance{r.Comm, r.Func, r.Seq} }

// pairwise operations do not end together on all members.
func pairwise(r *Record) bool {
	return r.Peer >= 0 || strings.EqualFold(r.Func, "Send") || strings.EqualFold(r.Func, "Recv") || r.Rank < 0 || r.Seq < 0
}

type alignment struct {
	records []Record
	queues  [][]int            // Of each rank, in order: places in records.
	at      map[instance][]int // Places of an operation's members.
}

// origin is when the first operation can start: 0 would be an unknown time.
const origin = 1

// lay gives all records their times, with a pause before every collective's end, and says how long it all takes.
func (a *alignment) lay(pause int64) int64 {
	of := make([]int, len(a.records)) // Queue of each record.
	for q, queue := range a.queues {
		for _, i := range queue {
			of[i] = q
		}
	}
	placed := make([]bool, len(a.records))
	head := make([]int, len(a.queues))
	free := make([]int64, len(a.queues)) // When each rank's last operation has ended.
	for q := range free {
		free[q] = origin
	}
	first := func(q int) int { // The next record of a rank, -1 none.
		for head[q] < len(a.queues[q]) && placed[a.queues[q][head[q]]] {
			head[q]++
		}
		if head[q] == len(a.queues[q]) {
			return -1
		}
		return a.queues[q][head[q]]
	}
	place := func(members []int) {
		end := int64(0)
		for _, i := range members {
			end = max(end, free[of[i]]+int64(a.records[i].Took))
		}
		if len(members) > 1 {
			end += pause
		}
		for _, i := range members {
			a.records[i].Start, a.records[i].End = end-int64(a.records[i].Took), end
			placed[i], free[of[i]] = true, end
		}
	}
	for {
		moved, blocked := false, -1
		for q := range a.queues {
			for i := first(q); i >= 0; i = first(q) {
				members := []int{i}
				if r := &a.records[i]; !pairwise(r) {
					members = a.at[key(r)]
				}
				ready := true
				for _, m := range members {
					ready = ready && first(of[m]) == m
				}
				if !ready {
					if blocked < 0 || free[q] < free[of[blocked]] {
						blocked = i
					}
					break
				}
				place(members)
				moved = true
			}
		}
		switch {
		case moved:
		case blocked < 0:
			last := int64(0)
			for _, t := range free {
				last = max(last, t)
			}
			return last - origin
		default: // Ranks wrote their operations in different orders: whoever is furthest behind goes first.
			place(a.at[key(&a.records[blocked])])
		}
	}
}

// written is how long the longest log was written for.
func (a *alignment) written() int64 {
	longest := int64(0)
	for _, queue := range a.queues {
		lo, hi := a.records[queue[0]].DumpedAt, a.records[queue[0]].DumpedAt
		for _, i := range queue {
			lo, hi = min(lo, a.records[i].DumpedAt), max(hi, a.records[i].DumpedAt)
		}
		longest = max(longest, hi-lo)
	}
	return longest
}
