// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package history keeps what has happened on the node recently: finished operations, lifecycle events and the
// real-time state log of operations in progress (Mycroft's M3), in a bounded amount of memory or in a file of bounded
// size that outlives the exporter. Records are stored as differences from each other, about 70 bytes an operation and next to
// nothing for what stands still.
package history

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	blockBytes = 64 << 10
	// blockSpan bounds the time a block covers, so that old records can be dropped in time.
	blockSpan = time.Minute
	// metaPeriod is how often a process's identity and communicators are copied.
	metaPeriod = time.Second
)

// Options configure a Store.
type Options struct {
	MaxBytes int           // Of encoded records in memory.
	Keep     time.Duration // Records older than this are dropped.
	// Dir is where the records are kept in a file that outlives the exporter; empty: they are kept in memory.
	Dir      string
	DirBytes int64  // Of that file.
	BootID   string // Of the running kernel: time stamps of another boot mean nothing.
	Logger   *slog.Logger
	// Stream is also given every line as it comes, under the store's lock; may be nil. Process and line are only valid
	// during the call.
	Stream func(*nodeapi.Process, *nodeapi.TraceLine)
}

// Store implements node.History. It is safe for concurrent use.
type Store struct {
	opts Options

	mu      sync.Mutex
	streams map[*node.Process]*stream
	past    []*stream // Of processes that the sampler has forgotten, oldest first.
	sealed  []sealedBlock
	bytes   int
	ring    *ring // Nil: none.
}

type sealedBlock struct {
	owner *stream
	block *block
}

// New makes a Store. With a directory it takes over what an earlier exporter has left there. Where it cannot use the history
// file that is there it says so and keeps history in memory: the present is worth more than the past.
func New(opts Options) (*Store, error) {
	s := &Store{opts: opts, streams: map[*node.Process]*stream{}}
	if opts.Dir == "" {
		return s, nil
	}
	var left []recovered
	var err error
	if s.ring, left, err = openRing(opts.Dir, opts.DirBytes, opts.BootID); err != nil {
		if errors.Is(err, fs.ErrNotExist) || opts.DirBytes < 2*pageBytes {
			return nil, err // It was configured wrongly.
		}
		opts.Logger.Error("Keeping history in memory", "dir", opts.Dir, "err", err)
		s.ring = nil
		return s, nil
	}
	if s.ring.short > 0 {
		opts.Logger.Warn("The history file is smaller than --history.dir-size: its file system has no room for more",
			"dir", opts.Dir, "bytes", s.ring.size, "wanted", s.ring.short)
	}
	for i := range left {
		s.adopt(&left[i])
	}
	if len(left) > 0 {
		opts.Logger.Info("Took over the history of an earlier exporter", "blocks", len(left), "processes", len(s.past))
	}
	return s, nil
}

// adopt takes over a block that an earlier exporter has left.
func (s *Store) adopt(r *recovered) {
	st := s.lost(&r.Process)
	if st == nil {
		st = newStream()
		s.past = append(s.past, st)
	}
	st.process, st.done, st.life = r.Process, progress{r.Done, true}, progress{r.Life, true}
	for i := range r.Process.Comms {
		c := &r.Process.Comms[i]
		st.comms[commSlot{c.Index, c.Generation}] = c.Key()
	}
	st.blocks = append(st.blocks, r.block)
	s.ring.blocks = append(s.ring.blocks, sealedBlock{st, r.block})
}

// lost finds the stream of a process among those that nobody writes to.
func (s *Store) lost(p *nodeapi.Process) *stream {
	for _, st := range s.past {
		a, b := &st.process.Identity, &p.Identity
		if st.process.File == p.File && a.PID == b.PID && a.StartTicks == b.StartTicks && a.CreatedNS == b.CreatedNS && a.BootID == b.BootID {
			return st
		}
	}
	return nil
}

// Close writes what is still in memory to the history file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring == nil {
		return nil
	}
	for _, st := range s.streams {
		s.seal(st)
	}
	if err := s.ring.close(); err != nil {
		return fmt.Errorf("closing the history file: %w", err)
	}
	return nil
}

// Bytes is how much memory the records take.
func (s *Store) Bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.bytes
	for _, st := range s.streams {
		n += cap(st.open.data)
	}
	return n
}

func (s *Store) stream(p *node.Process) *stream {
	st := s.streams[p]
	if st == nil {
		st = s.lost(&nodeapi.Process{File: p.File(), Snapshot: trace.Snapshot{Identity: p.Snap.Identity}})
		if st == nil {
			st = newStream()
		} else {
			s.past = slices.DeleteFunc(s.past, func(other *stream) bool { return other == st })
		}
		s.streams[p] = st
		st.describe(p)
	}
	return st
}

// Completions implements node.History.
func (s *Store) Completions(p *node.Process, done []trace.Completion, lost uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stream(p)
	done, lost = unread(&st.done, done, lost, func(c *trace.Completion) uint64 { return c.Ticket })
	if lost > 0 {
		at := st.open.maxNS
		if len(done) > 0 {
			at = timeOf(&done[0])
		}
		st.open.addLoss(at, lost)
	}
	for i := range done {
		if s.opts.Stream != nil {
			line := nodeapi.ProcessCompletion{File: st.process.File, Completion: done[i]}
			s.opts.Stream(&st.process, &nodeapi.TraceLine{Completion: &line})
		}
		st.open.addCompletion(&done[i])
		s.rotate(st, timeOf(&done[i]))
	}
}

// Lifecycle implements node.History.
func (s *Store) Lifecycle(p *node.Process, events []trace.LifecycleEvent, lost uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stream(p)
	events, lost = unread(&st.life, events, lost, func(e *trace.LifecycleEvent) uint64 { return e.Ticket })
	if lost > 0 {
		st.open.addLoss(st.open.maxNS, lost)
	}
	for i := range events {
		if s.opts.Stream != nil {
			line := nodeapi.ProcessLifecycleEvent{File: st.process.File, LifecycleEvent: events[i]}
			s.opts.Stream(&st.process, &nodeapi.TraceLine{Lifecycle: &line})
		}
		st.open.addLifecycle(&events[i])
		s.rotate(st, events[i].AtNS)
	}
	st.describe(p) // Communicators may have come or gone.
}

// Sampled implements node.History: it writes the real-time state log. An operation is logged from the second round on
// that sees it in flight; of a shorter one, its completion says everything.
func (s *Store) Sampled(p *node.Process, atNS uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stream(p)
	if trace.Since(atNS, st.metaNS) >= metaPeriod || st.metaNS == 0 {
		st.metaNS = atNS
		st.describe(p)
	}
	s.save(st, atNS)
	ops := st.due(&p.Snap)
	if len(ops) == 0 && len(st.ended) == 0 {
		return
	}
	if !st.allowed(atNS) {
		st.lookAtAll = true
		return
	}
	slices.Sort(st.ended)
	st.open.end(st.ended)
	flows := st.changedFlows(&p.Snap)
	ops = slices.DeleteFunc(ops, func(o *trace.Op) bool { return !st.opChanged(o) })
	if len(ops) == 0 && len(flows) == 0 && len(st.ended) == 0 {
		return
	}
	size := len(st.open.data)
	if s.opts.Stream != nil {
		s.opts.Stream(&st.process, &nodeapi.TraceLine{Sample: st.sample(atNS, &p.Snap.Status, ops, flows)})
	}
	st.open.addSample(atNS, &p.Snap.Status, ops, st.ended)
	st.ended = st.ended[:0]
	st.allowance -= len(st.open.data) - size
	st.loggedNS = atNS
	s.rotate(st, atNS)
}

// Forgotten implements node.History.
func (s *Store) Forgotten(p *node.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[p]
	if st == nil {
		return
	}
	delete(s.streams, p)
	st.describe(p)
	st.process.Status = p.Snap.Status
	s.seal(st)
	if len(st.blocks) > 0 {
		s.past = append(s.past, st)
	}
}

// rotate begins a new block when the open one is full or covers enough time, and makes room.
func (s *Store) rotate(st *stream, now uint64) {
	b := st.open
	if len(b.data) < blockBytes && (b.minNS > now || time.Duration(now-b.minNS) < blockSpan) { // Differences of one boot fit.
		return
	}
	s.seal(st)
	s.evict(now)
}

// savePeriod bounds what of the state log is lost when the exporter is killed. Finished operations are still in the
// process's own ring then.
const savePeriod = 10 * time.Second

// save moves a block into the file that has been written to for long enough.
func (s *Store) save(st *stream, now uint64) {
	if s.ring != nil && len(st.open.data) > 0 && trace.Since(now, st.open.minNS) >= savePeriod {
		s.seal(st)
		s.evict(now)
	}
}

// seal ends the stream's open block and begins another. The block goes to the file where there is one.
func (s *Store) seal(st *stream) {
	st.lookAtAll = true
	if len(st.open.data) == 0 {
		return
	}
	b := sealedBlock{st, st.open.sealed()}
	st.blocks = append(st.blocks, b.block)
	if s.ring == nil {
		s.sealed = append(s.sealed, b)
		s.bytes += len(b.block.data)
		return
	}
	dropped, err := s.ring.take(b, st.description())
	if err != nil {
		s.opts.Logger.Warn("Keeping history", "err", err)
		dropped = append(dropped, b)
	}
	for _, old := range dropped {
		s.drop(old)
	}
}

// evict drops the oldest blocks until the rest is small and young enough.
func (s *Store) evict(now uint64) {
	tooOld := func(b *block) bool { return s.opts.Keep > 0 && trace.Since(now, b.maxNS) > s.opts.Keep }
	for s.ring != nil && len(s.ring.blocks) > 0 && tooOld(s.ring.blocks[0].block) {
		s.drop(s.ring.blocks[0])
		s.ring.blocks = s.ring.blocks[1:]
	}
	for len(s.sealed) > 0 && (s.bytes > s.opts.MaxBytes || tooOld(s.sealed[0].block)) {
		oldest := s.sealed[0]
		s.sealed = s.sealed[1:]
		s.bytes -= len(oldest.block.data)
		s.drop(oldest)
	}
}

// drop forgets a block.
func (s *Store) drop(b sealedBlock) {
	b.block.gone, b.block.data = true, nil
	st := b.owner
	st.blocks = slices.DeleteFunc(st.blocks, func(other *block) bool { return other == b.block })
	if len(st.blocks) == 0 {
		s.past = slices.DeleteFunc(s.past, func(p *stream) bool { return p == st })
	}
}
