// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// process is who wrote a record.
type process struct {
	host string
	pid  int
	gpu  string
}

// Evidence turns logs of one job into a timeline. global says whether rank numbers are the job's: they are those of the
// communicator that has all processes, where there is one.
func Evidence(logs []*Log) (ev rca.Evidence, notes []string, global bool) {
	b := builder{ids: map[process]int{}, members: map[string][]int{}, names: map[string]string{}, next: map[int]int64{}}
	var records []Record
	averages, untimed, cut, skipped := false, false, 0, 0
	for _, l := range logs {
		records = append(records, l.Records...)
		averages = averages || l.Averages
		skipped += l.Skipped
		if l.CutOff {
			cut++
		}
	}
	var again int
	if records, again = distinct(records); again > 0 {
		notes = append(notes, fmt.Sprintf("%d records are there more than once and count once", again))
	}
	global = b.number(records)
	slices.SortStableFunc(records, func(x, y Record) int {
		return cmp.Or(cmp.Compare(b.id(&x), b.id(&y)), cmp.Compare(x.Start, y.Start), cmp.Compare(x.DumpedAt, y.DumpedAt), cmp.Compare(x.Comm, y.Comm), cmp.Compare(x.Seq, y.Seq))
	})
	untimed = slices.ContainsFunc(records, func(r Record) bool { return r.Start == 0 })
	if !averages && !slices.ContainsFunc(records, func(r Record) bool { return r.Start != 0 }) {
		records = align(records, b.id)
	}
	for i := range records {
		ev.Timeline = append(ev.Timeline, b.segment(&records[i]))
	}
	b.finish(&ev)
	if averages {
		notes = append(notes, "Prometheus text holds averages of a window and no ranks: GPUs were numbered by node and number")
	} else if untimed {
		notes = append(notes, "without NCCL_INSPECTOR_DUMP_VERBOSE=1 records have durations but no start: who stays in an operation for less than the others came later, and what all ranks do between operations is not seen")
	}
	if skipped > 0 {
		notes = append(notes, fmt.Sprintf("%d records could not be read and were left out", skipped))
	}
	if cut > 0 {
		notes = append(notes, fmt.Sprintf("%d logs end in the middle of a record", cut))
	}
	notes = append(notes, "Inspector logs finished operations only, by default those of at least 8 KiB: a hang does not show in them")
	return ev, notes, global && !averages
}

// distinct drops repetitions of records that say which operation they are of.
func distinct(records []Record) (kept []Record, again int) {
	type key struct {
		comm, function string
		who            process
		seq, start     int64
		peer           int
		took           time.Duration
	}
	seen := make(map[key]bool, len(records))
	kept = records[:0]
	for i := range records {
		r := &records[i]
		k := key{r.Comm, r.Func, process{r.Host, r.PID, r.GPU}, r.Seq, r.Start, r.Peer, r.Took}
		if r.Seq >= 0 && seen[k] {
			again++
			continue
		}
		seen[k] = true
		kept = append(kept, *r)
	}
	return kept, again
}

type builder struct {
	ids     map[process]int
	members map[string][]int // Global rank by rank in the communicator.
	names   map[string]string
	next    map[int]int64 // End of a rank's last segment, for records without times.
}

func (b *builder) id(r *Record) int { return b.ids[process{r.Host, r.PID, r.GPU}] }

// number gives processes their ranks.
func (b *builder) number(records []Record) bool {
	all := map[process]bool{}
	placed := map[string]map[process]int{}
	size := map[string]int{}
	for i := range records {
		r := &records[i]
		p := process{r.Host, r.PID, r.GPU}
		all[p] = true
		if r.Rank < 0 {
			continue
		}
		if placed[r.Comm] == nil {
			placed[r.Comm] = map[process]int{}
		}
		placed[r.Comm][p] = r.Rank
		size[r.Comm] = r.Size
	}
	for _, comm := range slices.Sorted(maps.Keys(placed)) {
		if len(placed[comm]) == len(all) && size[comm] >= len(all) && size[comm] > 1 {
			b.ids = placed[comm]
			return true
		}
	}
	order := slices.SortedFunc(maps.Keys(all), func(a, c process) int {
		return cmp.Or(cmp.Compare(a.host, c.host), cmp.Compare(len(a.gpu), len(c.gpu)), cmp.Compare(a.gpu, c.gpu), cmp.Compare(a.pid, c.pid))
	})
	for i, p := range order {
		b.ids[p] = i
	}
	return false
}

func (b *builder) segment(r *Record) rca.Segment {
	id := b.id(r)
	b.names[r.Comm] = cmp.Or(r.CommName, r.Comm)
	if r.Rank >= 0 {
		for len(b.members[r.Comm]) < min(r.Size, maxSize) {
			b.members[r.Comm] = append(b.members[r.Comm], -1)
		}
		if r.Rank < len(b.members[r.Comm]) {
			b.members[r.Comm][r.Rank] = id
		}
	} else if !slices.Contains(b.members[r.Comm], id) {
		b.members[r.Comm] = append(b.members[r.Comm], id)
	}
	s := rca.Segment{
		Rank: id, Kind: rca.SegmentOp, Iteration: -1, Comm: rca.CommID(r.Comm), Number: -1, Seq: max(r.Seq, 0), Func: r.Func,
		Peer: -1, Bytes: r.Bytes, Start: r.Start, End: r.End, Stage: -1, DataRank: -1, Layer: -1, Microbatch: -1,
		SlowestChannel: r.SlowestChannel, SlowestPeer: -1,
	}
	if r.Start == 0 {
		s.Start = b.next[id]
		s.End = s.Start + int64(r.Took)
	}
	if r.Channels > 1 {
		s.SlowestTime, s.FastestTime = time.Duration(r.SlowestNS), time.Duration(r.FastNS)
	}
	b.next[id] = max(b.next[id], s.End)
	if r.Peer >= 0 && r.Peer < len(b.members[r.Comm]) && (strings.EqualFold(r.Func, "Send") || strings.EqualFold(r.Func, "Recv")) {
		s.Peer = b.members[r.Comm][r.Peer]
	}
	return s
}

func (b *builder) finish(ev *rca.Evidence) {
	world := 0
	for p, id := range b.ids {
		world = max(world, id+1)
		ev.Ranks = append(ev.Ranks, rca.Rank{
			ID: id, Host: p.host, PID: p.pid, GPU: p.gpu, Caps: rca.SeesCompletion,
			ReadBytesPerSec: -1, WriteBytesPerSec: -1, CPUCores: -1, ProxyRunDelay: -1,
		})
	}
	slices.SortFunc(ev.Ranks, func(a, c rca.Rank) int { return a.ID - c.ID })
	for _, comm := range slices.Sorted(maps.Keys(b.members)) {
		m := b.members[comm]
		world = max(world, len(m))
		ev.Comms = append(ev.Comms, rca.Comm{ID: rca.CommID(comm), Name: b.names[comm], Size: len(m), Members: m})
	}
	ev.WorldSize = world
	seen := make(map[int]bool, len(ev.Ranks))
	for i := range ev.Ranks {
		seen[ev.Ranks[i].ID] = true
	}
	for id := range world {
		if !seen[id] {
			ev.Missing = append(ev.Missing, rca.Missing{What: "rank", Name: fmt.Sprint(id), Ranks: []int{id}, Why: "no Inspector log"})
		}
	}
}
