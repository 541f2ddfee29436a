// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

// lab simulates a case as far as it is asked to.
type lab struct {
	ctx    context.Context //nolint:containedctx // Of the one run that it serves.
	config cluster.Config
	sim    *cluster.Simulation
	rec    *cluster.Recording
	answer *cluster.Answer
	spent  time.Duration
	rest   func() // Called now and then, where others can go first; may be nil.
}

// newLab has simulated nothing yet. rest may be nil.
func newLab(ctx context.Context, config cluster.Config, rest func()) *lab {
	per := config.Hardware.GPUsPerHost
	if hosts := (config.Job.World() + per - 1) / per; hosts > searchPast {
		// Nobody looks further back in so large a job, and what is kept of it is most of a simulation's memory.
		config.History = historyOps / backHosts / per
	}
	config.Until += confirmAfter // Room for the last second look.
	return &lab{ctx: ctx, config: config, rest: rest}
}

// again begins the same simulation anew; what it has taken so far is counted on.
func (l *lab) again() *lab {
	return &lab{ctx: l.ctx, config: l.config, rest: l.rest, spent: l.spent}
}

// restEvery is how much of a job's time is simulated without a rest.
const restEvery = 5 * time.Second

// until goes on to a moment and leaves in rec what the nodes would serve then. It never goes back.
func (l *lab) until(at time.Duration) error {
	start := time.Now()
	if l.sim == nil {
		var err error
		if l.sim, err = cluster.New(l.config); err != nil {
			return fmt.Errorf("preparing the simulation: %w", err)
		}
	}
	for now := l.sim.Now(); now < at; {
		now = min(at, now+restEvery)
		if l.rest != nil {
			resting := time.Now()
			l.rest()
			start = start.Add(time.Since(resting))
		}
		if err := l.sim.Advance(l.ctx, now); err != nil {
			return fmt.Errorf("simulating until %v: %w", now, err)
		}
	}
	l.rec, l.answer = l.sim.Recording(), l.sim.Answer()
	l.spent += time.Since(start)
	return nil
}

// course is what the triggers see of a run.
type course struct {
	ends   []cluster.Time // Of iterations.
	stalls []cluster.Stall
	answer *cluster.Answer
}

func (l *lab) course() *course {
	return &course{ends: l.rec.Iterations(0), stalls: l.rec.Stalls(), answer: l.answer}
}

// memoryOf is the moment from which what Prometheus remembers of hosts that do not answer is taken: who is in which
// communicator is known once they are made.
const memoryOf = 100 * time.Millisecond

// gather asks all nodes now.
func (l *lab) gather() (*gathered, error) {
	g, err := gather(l.rec)
	if err != nil || len(g.ev.Missing) == 0 {
		return g, err
	}
	early := l.config
	early.Faults, early.Until = nil, memoryOf
	rec, _, err := cluster.Run(l.ctx, early)
	if err != nil {
		return nil, fmt.Errorf("simulating what Prometheus remembers: %w", err)
	}
	return g, g.remember(rec)
}
