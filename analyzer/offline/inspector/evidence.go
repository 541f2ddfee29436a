// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
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
	b := builder{Job: gather.New(rca.SeesCompletion), ids: map[process]int{}, next: map[int]int64{}}
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
	records, again = distinct(records)
	b.Count(again, "records are there more than once and count once")
	global = b.number(records)
	slices.SortStableFunc(records, func(x, y Record) int {
		return cmp.Or(cmp.Compare(b.id(&x), b.id(&y)), cmp.Compare(x.Start, y.Start), cmp.Compare(x.DumpedAt, y.DumpedAt), cmp.Compare(x.Comm, y.Comm), cmp.Compare(x.Seq, y.Seq))
	})
	untimed = slices.ContainsFunc(records, func(r Record) bool { return r.Start == 0 })
	if !averages && !slices.ContainsFunc(records, func(r Record) bool { return r.Start != 0 }) {
		records = align(records, b.id)
	}
	for p, id := range b.ids {
		r := b.Rank(id)
		r.Host, r.PID, r.GPU = p.host, p.pid, p.gpu
	}
	for i := range records {
		b.Timeline = append(b.Timeline, b.segment(&records[i]))
	}
	for _, c := range b.Comms() {
		c.Size = len(c.Members)
		b.World = max(b.World, c.Size)
	}
	b.Rest("no Inspector log")
	if averages {
		b.Note("Prometheus text holds averages of a window and no ranks: GPUs were numbered by node and number")
	} else if untimed {
		b.Note("without NCCL_INSPECTOR_DUMP_VERBOSE=1 records have durations but no start: who stays in an operation for less than the others came later, and what all ranks do between operations is not seen")
	}
	b.Count(skipped, "records could not be read and were left out")
	b.Count(cut, "logs end in the middle of a record")
	b.Note("Inspector logs finished operations only, by default those of at least 8 KiB: a hang does not show in them")
	return b.Evidence(), b.Notes, global && !averages
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
	*gather.Job
	ids  map[process]int
	next map[int]int64 // End of a rank's last segment, for records without times.
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
	c := b.Comm(rca.CommID(r.Comm), cmp.Or(r.CommName, r.Comm), 0)
	if r.Rank >= 0 {
		if size := min(r.Size, maxSize); len(c.Members) < size {
			gather.Place(c, size-1, -1)
		}
		if r.Rank < len(c.Members) {
			c.Members[r.Rank] = id
		}
	} else if !slices.Contains(c.Members, id) {
		c.Members = append(c.Members, id)
	}
	s := gather.Segment(id, rca.SegmentOp, r.Func, r.Start, r.End)
	s.Comm, s.Seq, s.Bytes, s.SlowestChannel = c.ID, max(r.Seq, 0), r.Bytes, r.SlowestChannel
	if r.Start == 0 {
		s.Start = b.next[id]
		s.End = s.Start + int64(r.Took)
	}
	if r.Channels > 1 {
		s.SlowestTime, s.FastestTime = time.Duration(r.SlowestNS), time.Duration(r.FastNS)
	}
	b.next[id] = max(b.next[id], s.End)
	if r.Peer >= 0 && r.Peer < len(c.Members) && (strings.EqualFold(r.Func, "Send") || strings.EqualFold(r.Func, "Recv")) {
		s.Peer = c.Members[r.Peer]
	}
	return s
}
