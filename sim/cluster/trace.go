// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"time"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Trace hands yield what the host's exporter answers to GET /api/v1/trace at the end of the run: finished operations of
// the last span, process by process. It stops at yield's first error and returns it.
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
		p := s.process(rank)
		p.Ops, p.Flows, p.Completions = nil, nil, nil
		if err := yield(&nodeapi.TraceLine{Process: &p}); err != nil {
			return err
		}
		trailer.Lost += uint64(rank.dropped) //nolint:gosec // A count.
		if err := s.history(rank, span, p.Comms, func(c *trace.Completion) error {
			trailer.Records++
			return yield(&nodeapi.TraceLine{Completion: &nodeapi.ProcessCompletion{File: p.File, Completion: *c}})
		}); err != nil {
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
	n := len(r.history)
	for i := range n {
		h := r.history[(r.oldest+i)%n]
		if h.at < from {
			continue
		}
		c := s.completion(r, h.o, h.m, index[h.o.comm.id], uint64(r.dropped)+uint64(i)+1) //nolint:gosec // Counts.
		if err := f(&c); err != nil {
			return err
		}
	}
	return nil
}
