// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace"
)

const (
	// laneWindow is over how long rates of queue pairs are compared: Mycroft's window (section 6.1, 10 s).
	laneWindow = 10 * time.Second
	// lanePeriod is how often queue pairs are looked at for one that stands.
	lanePeriod = time.Second
	// unevenFor is how long queue pairs are shown after one of them lagged: the rules compare rates over a minute.
	unevenFor = 2 * time.Minute
)

// Lanes watches the queue pairs of a process for those that lag behind their sisters. The zero value is ready. It is valid while
// the sampler's lock is held, as Process is.
type Lanes struct {
	before []trace.QP // At the beginning of the window.
	began  uint64
	looked uint64
	slow   []trace.Lag // Of the last window.
	lags   []trace.Lag // These, and those that stand.
	uneven map[trace.Family]uint64
}

// look brings it up to date with a snapshot.
func (l *Lanes) look(s *trace.Snapshot, now uint64) {
	if len(s.QPs) == 0 || l.looked != 0 && trace.Since(now, l.looked) < lanePeriod {
		return
	}
	l.looked = now
	found := trace.Lags(l.before, s.QPs, now)
	if l.began == 0 || trace.Since(now, l.began) >= laneWindow {
		whole := l.began != 0 // Its life before the first window may hold more than one way of working.
		l.began, l.before, l.slow = now, slices.Clone(s.QPs), nil
		if whole {
			l.slow = slices.DeleteFunc(slices.Clone(found), func(g trace.Lag) bool { return g.Kind != trace.LagSlow })
		}
	}
	l.lags = append(slices.DeleteFunc(found, func(g trace.Lag) bool { return g.Kind == trace.LagSlow }), l.slow...)
	for f, at := range l.uneven {
		if trace.Since(now, at) >= unevenFor {
			delete(l.uneven, f)
		}
	}
	for i := range s.QPs {
		q := &s.QPs[i]
		if f, ok := q.Family(); ok && slices.ContainsFunc(l.lags, func(g trace.Lag) bool { return g.QPIndex == q.Index }) {
			if l.uneven == nil {
				l.uneven = map[trace.Family]uint64{}
			}
			l.uneven[f] = now
		}
	}
}

// Uneven reports whether the queue pair or one of its sisters lagged lately.
func (l *Lanes) Uneven(q *trace.QP, now uint64) bool {
	f, ok := q.Family()
	at, lagged := l.uneven[f]
	return ok && lagged && trace.Since(now, at) < unevenFor
}
