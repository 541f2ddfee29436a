// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Query narrows what is read. Empty lists match everything. Times are CLOCK_MONOTONIC nanoseconds, both ends included.
type Query struct {
	JobIDs        []string
	Ranks         []int32
	Comms         []trace.CommID
	FromNS, ToNS  uint64
	NoCompletions bool
	NoLifecycle   bool
	NoSamples     bool
	MaxRecords    int64 // 0: no limit.
}

// Lines reads the history that matches, process by process, each in the order of time, and hands every line to yield
// until that says false. The trailer is returned, not yielded.
func (s *Store) Lines(q Query, yield func(*nodeapi.TraceLine) bool) (nodeapi.TraceTrailer, error) {
	r := reader{store: s, q: q, yield: yield}
	for _, st := range s.matching(&q) {
		if err := r.process(st); err != nil {
			return r.trailer, fmt.Errorf("reading the history of %s: %w", st.process.File, err)
		}
		if r.stopped {
			break
		}
	}
	return r.trailer, nil
}

// view is a stream as it was when the query began.
type view struct {
	process nodeapi.Process
	comms   map[commSlot]trace.CommKey
	blocks  []extent
}

// within tells whether the block may have records of the time asked for.
func (b *block) within(q *Query) bool { return b.maxNS >= q.FromNS && b.minNS <= q.ToNS }

// extent is a block with the bytes it had when the query began; none when they lie in the file.
type extent struct {
	data  []byte
	block *block
}

// load gives an extent's bytes; none when the block was dropped meanwhile.
func (s *Store) load(e extent) ([]byte, error) {
	if e.data != nil {
		return e.data, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.block.gone {
		return nil, nil
	}
	return s.ring.read(e.block)
}

func (s *Store) matching(q *Query) []view {
	s.mu.Lock()
	defer s.mu.Unlock()
	streams := slices.Clone(s.past)
	for _, st := range s.streams {
		streams = append(streams, st)
	}
	var views []view
	for _, st := range streams {
		p := &st.process
		if len(q.JobIDs) > 0 && !slices.Contains(q.JobIDs, p.JobID) || len(q.Ranks) > 0 && !slices.Contains(q.Ranks, p.Rank) {
			continue
		}
		v := view{process: *p, comms: maps.Clone(st.comms)}
		v.process.Comms, v.process.QPs = slices.Clone(p.Comms), slices.Clone(p.QPs)
		for _, b := range st.blocks {
			if b.within(q) {
				v.blocks = append(v.blocks, extent{b.data, b})
			}
		}
		if b := st.open; len(b.data) > 0 && b.within(q) {
			v.blocks = append(v.blocks, extent{slices.Clone(b.data), b}) // Its memory is used again.
		}
		if len(v.blocks) > 0 {
			views = append(views, v)
		}
	}
	slices.SortStableFunc(views, func(a, b view) int {
		return cmp.Or(cmp.Compare(a.process.Rank, b.process.Rank), cmp.Compare(a.process.File, b.process.File))
	})
	return views
}

// reader turns blocks into lines.
type reader struct {
	store   *Store
	q       Query
	yield   func(*nodeapi.TraceLine) bool
	trailer nodeapi.TraceTrailer
	stopped bool

	v         view
	announced bool
	sampled   bool // A sample with everything in it has been given.
}

func (r *reader) process(v view) error {
	r.v, r.announced = v, false
	for _, b := range v.blocks {
		data, err := r.store.load(b)
		if err != nil {
			return err
		}
		r.sampled = false // Each block starts afresh.
		err = decode(data, visitor{completion: r.completion, lifecycle: r.lifecycle, sample: r.sample, loss: r.loss})
		if err != nil {
			return err
		}
		if r.stopped {
			return nil
		}
	}
	return nil
}

func (r *reader) within(atNS uint64) bool {
	return !r.stopped && atNS >= r.q.FromNS && atNS <= r.q.ToNS
}

// emit passes a record on, after the process's own line.
func (r *reader) emit(line *nodeapi.TraceLine) {
	if r.stopped {
		return
	}
	if r.q.MaxRecords > 0 && r.trailer.Records >= r.q.MaxRecords {
		r.trailer.Truncated, r.stopped = true, true
		return
	}
	if !r.announced {
		r.announced = true
		p := r.v.process
		if !r.yield(&nodeapi.TraceLine{Process: &p}) {
			r.stopped = true
			return
		}
	}
	r.trailer.Records++
	if !r.yield(line) {
		r.stopped = true
	}
}

func (r *reader) wanted(id trace.CommID) bool {
	return len(r.q.Comms) == 0 || slices.Contains(r.q.Comms, id)
}

func (r *reader) completion(c *trace.Completion) {
	if !r.q.NoCompletions && r.within(timeOf(c)) && r.wanted(c.CommID) {
		r.emit(&nodeapi.TraceLine{Completion: &nodeapi.ProcessCompletion{File: r.v.process.File, Completion: *c}})
	}
}

func (r *reader) lifecycle(e *trace.LifecycleEvent) {
	if !r.q.NoLifecycle && r.within(e.AtNS) && (e.CommID == 0 || r.wanted(e.CommID)) {
		r.emit(&nodeapi.TraceLine{Lifecycle: &nodeapi.ProcessLifecycleEvent{File: r.v.process.File, LifecycleEvent: *e}})
	}
}

func (r *reader) loss(atNS, count uint64) {
	if r.within(atNS) {
		r.trailer.Lost += count
	}
}

func (r *reader) sample(s sample) {
	if r.q.NoSamples || !r.within(s.atNS) {
		return
	}
	if !r.sampled {
		// What changed before the span that was asked for still holds.
		r.sampled = true
		s.ops = slices.Sorted(maps.Keys(s.base.ops))
		s.flows = s.base.flows.slots()
	}
	p := &r.v.process
	line := &nodeapi.Sample{AtNS: s.atNS, Rank: p.Rank, JobID: p.JobID, File: p.File, Status: s.status, Ended: s.ended}
	for _, index := range s.ops {
		state := s.base.ops[index]
		o := trace.Op{Index: index, Datatype: state.datatype}
		(&words{list: state.list, reading: true}).op(&o)
		if r.wantedSlot(o.CommIndex, o.CommGeneration) {
			line.Ops = append(line.Ops, o)
		}
	}
	for _, index := range s.flows {
		f := trace.Flow{Index: index}
		(&words{list: s.base.flows.get(index), reading: true}).flow(&f)
		if r.wantedSlot(f.CommIndex, f.CommGeneration) {
			line.Flows = append(line.Flows, f)
		}
	}
	if len(r.q.Comms) == 0 || len(line.Ops) > 0 || len(line.Flows) > 0 {
		r.emit(&nodeapi.TraceLine{Sample: line})
	}
}

func (r *reader) wantedSlot(index, generation uint32) bool {
	if len(r.q.Comms) == 0 {
		return true
	}
	key, ok := r.v.comms[commSlot{index, generation}]
	return ok && r.wanted(key.ID)
}
