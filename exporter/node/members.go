// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"slices"
	"time"
)

// split follows each rank of a process that turns out to be several as a process of its own. The one that is followed becomes the
// rank of the first communicator, whose work it has seen so far; the others join at the end of the round.
func (s *Sampler) split(p *Process) error {
	devices := p.file.Devices()
	if p.sibling || len(devices) == p.members {
		return nil
	}
	if p.members == 0 {
		whole := p.file
		p.device = devices[0]
		if len(p.Snap.Comms) > 0 && slices.Contains(devices, p.Snap.Comms[0].Device) {
			p.device = p.Snap.Comms[0].Device
		}
		p.file = whole.Rank(p.device)
		if err := whole.Close(); err != nil {
			return err
		}
		if err := p.file.Snapshot(&p.Snap); err != nil {
			return err
		}
	}
	p.members = len(devices)
	for _, d := range devices {
		followed := func(q *Process) bool { return q.path == p.path && q.id == p.id && q.device == d }
		if d != p.device && !slices.ContainsFunc(s.processes, followed) && !slices.ContainsFunc(s.born, followed) {
			q := newProcess(p.path, p.id, p.file.Rank(d))
			q.dir, q.device, q.sibling, q.unlinked = p.dir, d, true, p.unlinked
			q.deadSince, q.aliveAt, q.foundDead = p.deadSince, p.aliveAt, p.foundDead
			q.Snap.Identity, q.Kernel = p.Snap.Identity, p.Kernel
			q.Kernel.Threads = nil
			s.born = append(s.born, q)
			s.log.Info("Following another rank of a process", "file", q.path, "gpu", d)
		}
	}
	return nil
}

// join takes in the ranks that the last round has found, and reads them.
func (s *Sampler) join(now time.Time) {
	if len(s.born) == 0 {
		return
	}
	for _, q := range s.born {
		if q.Dead() {
			s.readLast(q, now)
		} else {
			s.sampleSafely(q, now, true, true)
		}
	}
	s.processes = append(s.processes, s.born...)
	clear(s.born)
	s.born = s.born[:0]
	slices.SortStableFunc(s.processes, func(a, b *Process) int { return cmp.Compare(a.path, b.path) })
}

// readLast takes in what a process has left that died before it was found.
func (s *Sampler) readLast(p *Process, now time.Time) {
	if err := p.file.Snapshot(&p.Snap); err != nil {
		s.lose(p, now, err)
		return
	}
	s.absorb(p, now)
	s.bury(p, now)
}
