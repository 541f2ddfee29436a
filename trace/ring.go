// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"sync/atomic"
	"unsafe"

	"github.com/culprit-project/culprit/trace/internal/wire"
)

// unfinishedPatience is how many younger records a record that is still being written may have before it is given up:
// its writer was then preempted for long, or killed.
const unfinishedPatience = 64

// Span says how far a ring was read: Next is the ticket to read from the next time, Lost how many records were
// overwritten or never finished.
type Span struct {
	Next uint64
	Lost uint64
}

// Bound has a read of a ring take so many records at most, and leave the rest to the next one; 0: all.
func (f *File) Bound(records int) { f.most = uint64(max(0, records)) }

// Completions appends the finished operations after ticket since (0: from the oldest still there) to into. A record
// that is being written ends the read, unless many younger ones exist. A File of one rank gives those of the communicators
// that its last Snapshot has shown.
func (f *File) Completions(since uint64, into []Completion) ([]Completion, Span, error) {
	return f.completions(since, into, unfinishedPatience)
}

// LastCompletions is Completions for a writer that is known to be dead: nothing unfinished is waited for.
func (f *File) LastCompletions(since uint64, into []Completion) ([]Completion, Span, error) {
	return f.completions(since, into, 0)
}

// Lifecycle appends the lifecycle events after ticket since (0: from the oldest still there) to into.
func (f *File) Lifecycle(since uint64, into []LifecycleEvent) ([]LifecycleEvent, Span, error) {
	var span Span
	err := f.guarded(func() error {
		span = readRing(f.life, f.head(unsafe.Offsetof(wire.Header{}.LifecycleHead)), since, unfinishedPatience, f.most, func(w *wire.Lifecycle) {
			if w.CommIndex != wire.None && f.theirs(w.CommIndex) {
				return
			}
			into = append(into, LifecycleEvent{
				Ticket: w.Ticket, AtNS: w.AtNS, Kind: LifecycleKind(w.Kind), CommIndex: index(w.CommIndex),
				CommID: CommID(w.CommID), Arg0: w.Arg0, Text: text(w.Text[:]),
			})
		})
		return nil
	})
	return into, span, err
}

// Transfers appends the finished transfers after ticket since (0: from the oldest still there) to into. Files of jobs
// that did not ask for them have none.
func (f *File) Transfers(since uint64, into []Transfer) ([]Transfer, Span, error) {
	var span Span
	err := f.guarded(func() error {
		span = readRing(f.moved, f.head(unsafe.Offsetof(wire.Header{}.TransfersHead)), since, unfinishedPatience, 0, func(w *wire.Transfer) {
			into = append(into, Transfer(*w))
		})
		return nil
	})
	return into, span, err
}

func (f *File) completions(since uint64, into []Completion, patience uint64) ([]Completion, Span, error) {
	var span Span
	err := f.guarded(func() error {
		span = readRing(f.done, f.head(unsafe.Offsetof(wire.Header{}.CompletionsHead)), since, patience, f.most, func(w *wire.Completion) {
			if !f.theirs(w.CommIndex) {
				into = append(into, *(*Completion)(unsafe.Pointer(w)))
			}
		})
		return nil
	})
	return into, span, err
}

// head reads one of the header's ring heads.
func (f *File) head(offset uintptr) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(unsafe.Pointer(&f.data[0]), offset)))
}

// readRing calls visit for each whole record numbered [since, head), oldest first, but for no more than most; 0: for all. Tickets are
// numbers plus one.
func readRing[T wire.Completion | wire.Lifecycle | wire.Transfer](t table, head, since, patience, most uint64, visit func(*T)) Span {
	if t.count == 0 || head <= since {
		// A head that went backwards is another writer's, or a lie: go on from there.
		return Span{Next: head}
	}
	span := Span{Next: since}
	if count := uint64(t.count); head-since > count {
		span.Lost = head - since - count
		span.Next = head - count
	}
	var w T // Outside the loop: visit makes it escape, and each would be an allocation.
	end := head
	if most > 0 {
		end = span.Next + min(most, head-span.Next)
	}
	for ; span.Next < end; span.Next++ {
		switch readRecord(t, span.Next, &w) {
		case recordWhole:
			visit(&w)
		case recordUnfinished:
			if head-span.Next <= patience {
				return span
			}
			span.Lost++
		case recordOverwritten:
			span.Lost++
		}
	}
	return span
}

type recordState int

const (
	recordWhole recordState = iota
	recordUnfinished
	recordOverwritten
)

func readRecord[T wire.Completion | wire.Lifecycle | wire.Transfer](t table, number uint64, dst *T) recordState {
	slot := t.slot(uint32(number % uint64(t.count)))
	ticket := (*uint64)(slot)
	before := atomic.LoadUint64(ticket)
	if before == number+1 {
		copyWords(dst, slot, min(t.entry, unsafe.Sizeof(*dst)))
		if atomic.LoadUint64(ticket) == before {
			return recordWhole
		}
		return recordOverwritten
	}
	if before > number+1 {
		return recordOverwritten
	}
	return recordUnfinished
}

// A record in the file has the fields of a Completion at the same places: a test compares each.
const _ = -(unsafe.Sizeof(wire.Completion{}) ^ unsafe.Sizeof(Completion{}))
