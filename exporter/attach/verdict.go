// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/culprit-project/culprit/exporter/uprobe"
	"github.com/culprit-project/culprit/trace"
)

// verdict is what a look at a job showed.
type verdict struct {
	ranks []uprobe.Rank
	moved bool     // A rank called operations meanwhile.
	named []int    // Of ranks: those that others wait for and that wait for nobody.
	why   []string // Of each named.
	note  string   // Where nobody is named: what is known.
}

// judge compares two looks at the same ranks. A process that is stopped is named. Else a rank that has called fewer operations of a
// communicator than another member holds that member up; one that holds others up and is held up by nobody is named. Inside a call that
// makes a communicator everybody waits for those that have not made it.
func judge(before, after []uprobe.Rank) *verdict {
	v := &verdict{ranks: after}
	called := map[int]uint64{}
	for i := range before {
		called[before[i].PID] = sum(before[i].Comms)
	}
	for i := range after {
		v.moved = v.moved || called[after[i].PID] != sum(after[i].Comms)
	}
	if v.moved {
		v.note = "The job moves: its ranks called operations while they were looked at."
		return v
	}
	v.stopped()
	if len(v.named) == 0 {
		v.behind()
	}
	if len(v.named) == 0 {
		v.initialising()
	}
	// Of two ranks one may be named, of more only the few: a fault below the calls leaves ranks where chance has them.
	if n := len(v.named); n > 1 && 2*n >= len(after) {
		v.named, v.why = nil, nil
	}
	switch {
	case len(v.named) > 0:
	case !slices.ContainsFunc(after, func(r uprobe.Rank) bool { return len(r.Comms) > 0 || r.Inside != "" }):
		v.note = "Not enough evidence: no communicator was found, and no thread was seen inside NCCL."
	case slices.ContainsFunc(after, func(r uprobe.Rank) bool { return !r.Layout }):
		v.note = "Not enough evidence: this NCCL library has no debug information, so operations called before are unknown."
	default:
		v.note = "All ranks on this node have called the same operations. The cause is on another node, or below the calls: a GPU, a link, a kernel."
	}
	return v
}

func sum(comms []trace.Comm) uint64 {
	var n uint64
	for i := range comms {
		n += comms[i].OpsCalled
	}
	return n
}

// stopped names the ranks whose processes cannot go on.
func (v *verdict) stopped() {
	for i := range v.ranks {
		if s := stateWords[v.ranks[i].State]; s != "" && v.ranks[i].State != 'D' {
			v.named, v.why = append(v.named, i), append(v.why, "its process is "+s)
		}
	}
}

// behind names the ranks that others wait for and that wait for nobody.
func (v *verdict) behind() {
	holds, waits := behind(v.ranks)
	for i := range v.ranks {
		if holds[i] != "" && !waits[i] {
			why := holds[i]
			if v.ranks[i].State == 'D' {
				why += "; its process is " + stateWords['D']
			}
			v.named, v.why = append(v.named, i), append(v.why, why)
		}
	}
}

// behind tells of each rank which others it holds up, in words, and whether it is held up itself.
func behind(ranks []uprobe.Rank) (holds map[int]string, waits map[int]bool) {
	holds, waits = map[int]string{}, map[int]bool{}
	type member struct {
		rank   int
		called uint64
	}
	members := map[trace.CommKey][]member{}
	for i := range ranks {
		for j := range ranks[i].Comms {
			c := &ranks[i].Comms[j]
			members[c.Key()] = append(members[c.Key()], member{i, c.OpsCalled})
		}
	}
	keys := slices.SortedFunc(maps.Keys(members), func(a, b trace.CommKey) int { // Largest first: what is said is of that.
		if a.NRanks != b.NRanks {
			return int(b.NRanks) - int(a.NRanks)
		}
		return strings.Compare(a.ID.String(), b.ID.String())
	})
	for _, key := range keys {
		list := members[key]
		most := slices.MaxFunc(list, func(a, b member) int { return cmp.Compare(a.called, b.called) }).called
		ahead := 0
		for _, m := range list {
			if m.called == most {
				ahead++
			}
		}
		for _, m := range list {
			least := slices.MinFunc(list, func(a, b member) int { return cmp.Compare(a.called, b.called) }).called
			waits[m.rank] = waits[m.rank] || m.called > least
			if m.called < most && holds[m.rank] == "" {
				holds[m.rank] = fmt.Sprintf("it has called %d operations on the communicator of %d ranks %s; %s called %d", m.called, key.NRanks, key.ID, others(ahead), most)
			}
		}
	}
	return holds, waits
}

func others(n int) string {
	if n == 1 {
		return "1 other has"
	}
	return strconv.Itoa(n) + " others have"
}

// initialising names the ranks that have not begun to make a communicator which others are making: those that are in no call that makes
// one, or have none at all in their memory.
func (v *verdict) initialising() {
	within, holders := 0, map[trace.CommKey]int{}
	for i := range v.ranks {
		if makes(v.ranks[i].Inside) {
			within++
		}
		for j := range v.ranks[i].Comms {
			holders[v.ranks[i].Comms[j].Key()]++
		}
	}
	incomplete := slices.DeleteFunc(slices.Collect(maps.Keys(holders)), func(k trace.CommKey) bool { return int(k.NRanks) <= holders[k] })
	for i := range v.ranks {
		r := &v.ranks[i]
		switch {
		case len(r.Comms) > 0 || makes(r.Inside):
		case within > 0:
			v.named, v.why = append(v.named, i), append(v.why, fmt.Sprintf("%d ranks are inside a call that makes a communicator, and no thread of this one is", within))
		case len(incomplete) == 1:
			k := incomplete[0]
			v.named, v.why = append(v.named, i), append(v.why, fmt.Sprintf("it has made no communicator; %d others are making one of %d ranks, %s", holders[k], k.NRanks, k.ID))
		}
	}
}

func makes(function string) bool {
	c := trace.Call{Name: function}
	return strings.HasPrefix(function, "ncclComm") && c.Makes()
}

// print writes the verdict for people.
func (v *verdict) print(out io.Writer, span time.Duration) {
	for i, at := range v.named {
		r := &v.ranks[at]
		fmt.Fprintf(out, "Rank %d (pid %d) holds the job up: %s.\n", r.Rank, r.PID, v.why[i])
	}
	if v.note != "" {
		fmt.Fprintln(out, v.note)
	}
	fmt.Fprintf(out, "Looked for %s at %d processes on this node. Operations called before were read from NCCL's memory; a call begun before is seen only "+
		"where its thread sleeps.\n\n", span, len(v.ranks))
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "rank\tpid\tstate\tinside\tcommunicator\tranks\toperations called")
	for i := range v.ranks {
		r := &v.ranks[i]
		inside := r.Inside
		if inside == "" {
			inside = "-"
		}
		state := string(rune(r.State))
		if len(r.Comms) == 0 {
			fmt.Fprintf(t, "%d\t%d\t%s\t%s\t-\t-\t-\n", r.Rank, r.PID, state, inside)
		}
		for j := range r.Comms {
			c := &r.Comms[j]
			fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%d\t%d\n", r.Rank, r.PID, state, inside, c.ID, c.NRanks, c.OpsCalled)
		}
	}
	_ = t.Flush() // Nothing can be done about an output that cannot be written.
}

// stateWords name the states of a process in /proc/PID/stat that explain a rank that does not come.
var stateWords = map[byte]string{
	'T': "stopped by a signal",
	't': "stopped by a debugger",
	'D': "in uninterruptible sleep, as in storage or a driver",
	'Z': "a zombie: it has exited",
}
