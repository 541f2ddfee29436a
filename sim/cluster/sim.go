// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Config is one run. The same Config gives the same records, byte for byte.
type Config struct {
	Seed     uint64
	Hardware Hardware
	Job      Job
	Faults   []Fault
	// Until is the moment at which the nodes are asked: records and state are those of that time.
	Until time.Duration
	// History is the number of finished operations kept per rank; 0: 4096.
	History int
	// NoKernelEvents leaves out kernel start and stop events, as when the shim's event mask has them off.
	NoKernelEvents bool
	// SilentHosts are hosts whose exporter does not answer although they run.
	SilentHosts []int
	// Epoch is the Unix time of the job's start, seconds; 0: 2026-01-01.
	Epoch int64
}

const (
	defaultHistory = 4096
	defaultEpoch   = 1767225600
	clockSpread    = 40 * time.Millisecond // Wall clocks of hosts differ by up to so much.
	driftSpread    = 20e-6
)

type sim struct {
	cfg       Config
	hosts     []host
	hw        []rankHW
	nics      [][]nicHW
	paths     map[[2]int32]*profile
	programs  []stageProgram
	comms     []*comm
	ranks     []rank
	work      []int32
	queued    []bool
	waiting   []*op // Operations that not everybody has entered.
	compactAt int   // Length of waiting at which it is searched for those that everybody has.
	horizon   Time
	calib     map[calibKey]*calibration
	uneven    []unevenness
	err       error
}

// Run simulates the job until cfg.Until and returns what the nodes would serve, with the sealed answer beside it.
func Run(ctx context.Context, cfg Config) (*Recording, *Answer, error) {
	s, err := newSim(cfg)
	if err != nil {
		return nil, nil, err
	}
	answer, err := s.applyFaults()
	if err != nil {
		return nil, nil, err
	}
	if err := s.run(ctx); err != nil {
		return nil, nil, err
	}
	answer.settle(s)
	return &Recording{s: s}, answer, nil
}

func newSim(cfg Config) (*sim, error) {
	if err := cfg.Job.setDefaults(); err != nil {
		return nil, fmt.Errorf("checking the job: %w", err)
	}
	setDefault(&cfg.Hardware, H100())
	setDefault(&cfg.History, defaultHistory)
	setDefault(&cfg.Epoch, defaultEpoch)
	if cfg.Until <= 0 {
		return nil, errors.New("the run's end must lie after its start")
	}
	s := &sim{
		cfg: cfg, horizon: At(cfg.Until), paths: map[[2]int32]*profile{},
		calib: map[calibKey]*calibration{},
	}
	n := cfg.Job.World()
	s.hw, s.ranks, s.queued = make([]rankHW, n), make([]rank, n), make([]bool, n)
	per := cfg.Hardware.GPUsPerHost
	for h := range (n + per - 1) / per {
		i := int64(h)
		s.hosts = append(s.hosts, host{
			name:   hostName(h),
			offset: seconds(86400 * (1 + 60*uniform(cfg.Seed, forClock, i, 0, 0))),
			drift:  driftSpread * (2*uniform(cfg.Seed, forClock, i, 1, 0) - 1),
			wall:   cfg.Epoch*1e9 + int64(float64(clockSpread)*(2*uniform(cfg.Seed, forClock, i, 2, 0)-1)),
			lostAt: Never,
		})
		s.nics = append(s.nics, make([]nicHW, cfg.Hardware.NICsPerHost))
	}
	for r := range n {
		hw := &s.hw[r]
		hw.host, hw.local = int32(r/per), int32(r%per) //nolint:gosec // Ranks fit.
		hw.nic = hw.local * int32(cfg.Hardware.NICsPerHost) / int32(per)
		hw.oddFrom = Never
		s.hosts[hw.host].ranks = append(s.hosts[hw.host].ranks, int32(r)) //nolint:gosec // Ranks fit.
	}
	for stage := range cfg.Job.PP {
		s.programs = append(s.programs, cfg.Job.program(&s.cfg.Hardware, stage))
	}
	for r := range s.ranks {
		s.ranks[r].init(s, int32(r)) //nolint:gosec // Ranks fit.
	}
	s.makeComms()
	return s, nil
}

// run lets every rank go as far as the horizon allows. Ranks run in dependency order, not in order of time: a rank waits
// only for what it needs, so the times are those of a simulation in order of time.
func (s *sim) run(ctx context.Context) error {
	for r := range s.ranks {
		s.wake(int32(r)) //nolint:gosec // Ranks fit.
	}
	for n := 0; ; {
		for len(s.work) > 0 {
			batch := s.work
			s.work = nil
			for _, r := range batch {
				s.queued[r] = false
				s.ranks[r].advance(s)
				if n++; n%4096 == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
			}
			if s.err != nil {
				return s.err
			}
		}
		if !s.releaseEarly() {
			return nil
		}
	}
}

func (s *sim) wake(r int32) {
	if !s.queued[r] {
		s.queued[r] = true
		s.work = append(s.work, r)
	}
}

// releaseEarly looks, when nobody can go on, for members that leave an operation although others never enter it: a
// sender whose data fits the receiver's buffers, or a rank that called something smaller than its peers.
func (s *sim) releaseEarly() bool {
	released := false
	open := s.waiting[:0]
	for _, o := range s.waiting {
		if o.resolved {
			continue
		}
		open = append(open, o)
		if !o.p2p && o.consistent() {
			continue
		}
		e := s.evaluate(o, s.horizon, true, false)
		for i := range o.mem {
			m := &o.mem[i]
			if m.left == unset && m.entered != unset && e.left[i] <= s.horizon {
				m.left = e.left[i]
				o.setDirs(e, i)
				s.wake(o.rankOf(i))
				released = true
			}
		}
	}
	s.waiting = open
	return released
}
