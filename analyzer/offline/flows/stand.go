// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/pulse"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Thresholds of a standstill.
const (
	stillAfter  = 2 * time.Second // As the engine's HangAfter.
	stillShare  = 3               // Times the longest operation or pause before.
	whole       = 0.97            // Of the usual volume: what is less has not ended.
	sameStep    = 0.1             // Share by which two steps of the staircase may differ.
	fewestRanks = 4               // In a ring of which the one that sent least can be told.
)

// finding is what one stream shows.
type finding struct {
	s     *stream
	kind  pulse.Kind
	rank  int    // Who it is; -1: it cannot be told.
	to    int    // The other end, where the link to it is meant and not the rank; -1.
	text  string // A sentence.
	why   string // Of whom it names.
	facts []string
	share float64 // Of slow ones: of the time from one operation to the next that is lost.
}

func (f *finding) accuses() bool { return f.rank >= 0 }

// stand looks at a stream whose last traffic lies well before the recording's end. ok is false of one that does not stand.
func (t *table) stand(s *stream, m *matched) (f finding, ok bool) {
	f = finding{s: s, rank: -1, to: -1}
	if !m.ok {
		return f, false
	}
	last, usual := m.ops[len(m.ops)-1], s.usual(m)
	end := time.Duration(0)
	for i, r := 0, s.ranks; i < len(r); i++ {
		if o, begun := last[r[i]]; begun && (end == 0 || o.End > end) {
			end = o.End
		}
	}
	need := max(stillAfter, stillShare*longest(m))
	if t.end-end < need {
		return f, false
	}
	var unheard []int
	for _, r := range s.ranks {
		if t.ends[r]-end < need {
			unheard = append(unheard, r)
		}
	}
	if len(unheard) == len(s.ranks) {
		return f, false // The flows may have ended with their processes.
	}
	at := m.stopped(usual)
	samples, known := s.samplesOf(at), len(usual) == len(s.ranks)
	if known && len(at) == len(s.ranks) && !slices.ContainsFunc(s.ranks, func(r int) bool { return !ended(at[r], usual[r]) }) {
		return f, false
	}
	silent := words.Span(t.end - end)
	_, f.kind = pulse.Locate(samples, 0)
	switch {
	case len(unheard) > 0:
		f.text = fmt.Sprintf(words.FlowsRecordEnds, words.Opener(words.RankNumbers(unheard)), s.name(), silent)
	case !known:
		f.text = fmt.Sprintf(words.FlowsVolumeUnknown, silent, s.name())
	case f.kind == pulse.StopCompute:
		s.notBegun(&f, at, usual, silent)
	default:
		s.least(&f, at, silent)
	}
	for _, x := range samples {
		if !x.Started {
			f.facts = append(f.facts, fmt.Sprintf(words.FlowsSentNothing, x.Rank, s.name()))
			continue
		}
		f.facts = append(f.facts, fmt.Sprintf(words.FlowsSent, x.Rank, words.Count(int(x.Volume)), s.name()))
	}
	return f, true
}

// longest is the longest time that passed in and between operations before.
func longest(m *matched) time.Duration {
	most := time.Duration(0)
	before := map[int]time.Duration{}
	for _, at := range m.ops[:len(m.ops)-1] {
		for r, o := range at {
			most = max(most, o.End-o.Start)
			if end, ok := before[r]; ok {
				most = max(most, o.Start-end)
			}
			before[r] = o.End
		}
	}
	for r, o := range m.ops[len(m.ops)-1] {
		if end, ok := before[r]; ok {
			most = max(most, o.Start-end)
		}
	}
	return most
}

// usual is what each rank sends in an operation: what it sent in those before, and at least what the operation takes.
func (s *stream) usual(m *matched) map[int]int64 {
	out := map[int]int64{}
	for _, r := range s.ranks {
		var v []int64
		for _, at := range m.finished() {
			if o, ok := at[r]; ok {
				v = append(v, o.Volume)
			}
		}
		slices.Sort(v)
		switch {
		case len(v) > 0 && float64(v[0]) >= (1-2*likeVolume)*float64(v[len(v)-1]):
			out[r] = max(int64(whole*float64(v[len(v)/2])), pick(s.stated, s.expected, 0))
		case s.stated:
			out[r] = s.expected
		}
	}
	return out
}

func pick[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}

// ended says that an operation has moved what it usually moves.
func ended(o pulse.Operation, usual int64) bool { return o.Complete(usual) }

// stopped gives the operation that does not end: the last, or the one before it where some have not ended that, while others
// have sent the beginning of the next already.
func (m *matched) stopped(usual map[int]int64) map[int]pulse.Operation {
	n := len(m.ops) - 1
	if n < 1 {
		return m.ops[n]
	}
	within := false
	for r, o := range m.ops[n-1] {
		_, further := m.ops[n][r]
		within = within || !further && !ended(o, usual[r])
	}
	if !within {
		return m.ops[n]
	}
	at := map[int]pulse.Operation{}
	for r, o := range m.ops[n-1] {
		o.Volume += m.ops[n][r].Volume
		at[r] = o
	}
	return at
}

// samplesOf gives what Pulse's analyzer gets of an operation that does not end.
func (s *stream) samplesOf(at map[int]pulse.Operation) []pulse.Sample {
	var samples []pulse.Sample
	for _, r := range s.ranks {
		o, begun := at[r]
		samples = append(samples, pulse.Sample{Rank: r, Started: begun, Start: o.Start, Duration: o.End - o.Start, Active: o.Active, Volume: o.Volume})
	}
	return samples
}

// notBegun names who has sent nothing in an operation that others have begun.
func (s *stream) notBegun(f *finding, at map[int]pulse.Operation, usual map[int]int64, silent string) {
	var behind []int
	for _, r := range s.ranks {
		if o, begun := at[r]; !begun {
			behind = append(behind, r)
		} else if ended(o, usual[r]) {
			// No collective ends for anybody while somebody has not begun it: these are operations of another kind.
			f.text = fmt.Sprintf(words.FlowsSomeFinished, silent, s.name())
			return
		}
	}
	f.rank = s.shape.holder(behind, func(r int) bool { _, begun := at[r]; return begun })
	if f.rank < 0 {
		f.text = fmt.Sprintf(words.FlowsSeveralNotBegun, words.Opener(words.RankNumbers(behind)), s.name())
		return
	}
	f.text = fmt.Sprintf(words.FlowsNotBegun, f.rank, s.name(), words.Plural(len(at), "other rank"), silent)
	f.why = words.MethodNotBegun
}

// least says where it stopped in an operation that does not end and that all have begun.
//
// In a ring whoever stops sends no more, and each rank after it passes on what it has got and its own first chunk: one
// chunk more than the one before it. So the volumes climb around the ring in even steps from the one that sent least. It
// is not always at fault: it sends least as well where nothing reaches it any more, since what the rank before it has sent
// counts there and is not delivered. The fault is at the one that sent least or on the way to it.
//
// Without even steps the least is chance: a job that is ended in the middle of an operation leaves uneven volumes, too. So
// two ranks that stop together, as with a NIC that fails both ways, may not be told.
func (s *stream) least(f *finding, at map[int]pulse.Operation, silent string) {
	f.text = fmt.Sprintf(words.FlowsNobodyLeast, silent, s.name())
	if s.shape.next == nil || len(s.ranks) < fewestRanks || len(at) < len(s.ranks) {
		return
	}
	low := slices.MinFunc(s.ranks, func(a, b int) int {
		return cmp.Or(cmp.Compare(at[a].Volume, at[b].Volume), cmp.Compare(a, b))
	})
	order := s.shape.order(low)
	before := order[len(order)-1]
	var steps [2]float64
	for i := range steps {
		steps[i] = float64(at[order[i+1]].Volume - at[order[i]].Volume)
	}
	if slices.ContainsFunc(order[1:], func(r int) bool { return at[r].Volume == at[low].Volume }) {
		return
	}
	alike := func(a, b float64) bool { return a > 0 && b > 0 && max(a, b)-min(a, b) <= sameStep*max(a, b) }
	if !alike(steps[0], steps[1]) {
		return
	}
	f.rank, f.to = before, low
	f.text = fmt.Sprintf(words.FlowsSentLeast, low, s.name(), before, silent)
	f.why = words.FlowsEitherEnd
}

// class of what is found. Bytes show no cause.
func (f *finding) class() rca.Class {
	switch f.kind {
	case pulse.StopCompute:
		return rca.NotEntered
	case pulse.StopNetwork:
		return rca.Fault
	case pulse.SlowCompute:
		return rca.SlowCompute
	case pulse.SlowNetwork:
		return rca.SlowComm
	case pulse.Normal, pulse.SlowInside:
	}
	return rca.Unknown
}
