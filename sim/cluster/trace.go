// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"time"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Trace hands yield what the host's exporter answers to GET /api/v1/trace at the end of the run: process by process the
// finished operations of the last span, and what is in flight now. It stops at yield's first error and returns it.
func (r *Recording) Trace(h int, span time.Duration, yield func(*nodeapi.TraceLine) error) error {
	s := r.s
	if !r.Answers(h) {
		return fmt.Errorf("asking %s: no answer", s.hosts[h].name)
	}
	host := &s.hosts[h]
	head := &nodeapi.TraceHeader{Version: nodeapi.Version, Node: host.name, AtUnixNS: host.wallClock(s.horizon), NowNS: host.clock(s.horizon)}
	if err := yield(&nodeapi.TraceLine{Header: head}); err != nil {
		return err
	}
	trailer := &nodeapi.TraceTrailer{}
	for _, q := range host.ranks {
		rank := &s.ranks[q]
		p := s.process(rank, allFlows)
		now := &nodeapi.Sample{AtNS: head.NowNS, Rank: p.Rank, JobID: p.JobID, File: p.File, Ops: p.Ops, Flows: p.Flows, Status: p.Status}
		p.Ops, p.Flows, p.Completions = nil, nil, nil
		if err := yield(&nodeapi.TraceLine{Process: &p}); err != nil {
			return err
		}
		trailer.Lost += uint64(rank.history.dropped)
		if err := s.history(rank, span, p.Comms, func(c *trace.Completion) error {
			trailer.Records++
			return yield(&nodeapi.TraceLine{Completion: &nodeapi.ProcessCompletion{File: p.File, Completion: *c}})
		}); err != nil {
			return err
		}
		trailer.Records++
		if err := yield(&nodeapi.TraceLine{Sample: now}); err != nil {
			return err
		}
	}
	return yield(&nodeapi.TraceLine{Trailer: trailer})
}

// history calls f for the rank's finished operations of the last span, oldest first.
func (s *sim) history(r *rank, span time.Duration, comms []trace.Comm, f func(*trace.Completion) error) error {
	index := map[trace.CommID]uint32{}
	for i := range comms {
		index[comms[i].ID] = comms[i].Index
	}
	from := s.horizon - At(span)
	var c trace.Completion // One for all: f does not keep it.
	for i := range r.history.n {
		h := r.history.at(i)
		if h.at < from {
			continue
		}
		c = s.completion(r, h.o, h.m, index[h.o.comm.id], r.history.ticket(i))
		if err := f(&c); err != nil {
			return err
		}
	}
	return nil
}

// Finished calls f for the operations that a rank has finished after the given time, in order, as far as its history
// goes. What has once been told for a moment is not told again for a later one. The record is used again for the next.
func (r *Recording) Finished(rank int, since Time, f func(*trace.Completion)) {
	s := r.s
	q := &s.ranks[rank]
	first := q.history.n
	for first > 0 && q.history.at(first-1).at > since {
		first--
	}
	var index [numSlots]uint32
	joined := uint32(0)
	for sl := range numSlots {
		if index[sl] = joined; q.comms[sl].comm >= 0 {
			joined++
		}
	}
	var c trace.Completion
	for i := first; i < q.history.n; i++ {
		h := q.history.at(i)
		c = s.completion(q, h.o, h.m, index[h.o.comm.slot], q.history.ticket(i))
		f(&c)
	}
}
