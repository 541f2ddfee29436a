// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config is one run. The same Config gives the same records, byte for byte.
type Config struct {
	Seed     uint64
	Hardware Hardware
	Job      Job
	Faults   []Fault
	// Until is the end of the run. Run asks the nodes at that moment; a Simulation can be asked before.
	Until time.Duration
	// History is the number of finished operations kept per rank; 0: 4096, less from 2,048 ranks on, so that all together
	// keep eight million.
	History int
	// Level is what the job's sources can tell; empty: KernelEvents.
	Level Level
	// SilentHosts are hosts whose exporter does not answer although they run.
	SilentHosts []int
	// Epoch is the Unix time of the job's start, seconds; 0: 2026-01-01.
	Epoch int64
}

const (
	defaultHistory = 4096
	leastHistory   = 768
	allHistories   = 8 << 20
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
	horizon   Time  // How far the run has come.
	end       Time  // How far it may.
	calib     map[calibKey]*calibration
	uneven    []unevenness
	changed   Time // From when on a resource is lowered on every rank alike; Never.
	err       error
}

// Run simulates the job until cfg.Until and returns what the nodes would serve, with the sealed answer beside it.
func Run(ctx context.Context, cfg Config) (*Recording, *Answer, error) {
	x, err := New(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := x.Advance(ctx, cfg.Until); err != nil {
		return nil, nil, err
	}
	return x.Recording(), x.Answer(), nil
}

// Simulation is a run that stops wherever one wants to look.
type Simulation struct {
	s      *sim
	truths Answer
}

// New prepares a run. Nothing happens before Advance.
func New(cfg Config) (*Simulation, error) {
	s, err := newSim(cfg)
	if err != nil {
		return nil, err
	}
	answer, err := s.applyFaults()
	if err != nil {
		return nil, err
	}
	return &Simulation{s: s, truths: *answer}, nil
}

// Advance lets the job go on until the given time after its start, at most the end of the run. However many steps are
// taken to get there, it then stands where Run would. Earlier times do nothing. After an error the simulation is of no
// more use.
func (x *Simulation) Advance(ctx context.Context, until time.Duration) error {
	t := min(At(until), x.s.end)
	if t <= x.s.horizon {
		return nil
	}
	x.s.horizon = t
	return x.s.run(ctx)
}

// Now is how far the job has come.
func (x *Simulation) Now() time.Duration { return x.s.horizon.Duration() }

// Recording is what the nodes would serve now. It is a view: once the simulation advances it shows the later moment.
func (x *Simulation) Recording() *Recording { return &Recording{s: x.s} }

// Answer is the sealed truth as of now.
func (x *Simulation) Answer() *Answer {
	a := x.truths
	a.Truths = slices.Clone(a.Truths)
	a.settle(x.s)
	return &a
}

func newSim(cfg Config) (*sim, error) {
	if err := cfg.Job.setDefaults(); err != nil {
		return nil, fmt.Errorf("checking the job: %w", err)
	}
	setDefault(&cfg.Hardware, H100())
	setDefault(&cfg.History, min(defaultHistory, max(leastHistory, allHistories/cfg.Job.World())))
	setDefault(&cfg.Epoch, defaultEpoch)
	setDefault(&cfg.Level, KernelEvents)
	if err := cfg.Level.check(); err != nil {
		return nil, err
	}
	if cfg.Until <= 0 {
		return nil, errors.New("the run's end must lie after its start")
	}
	s := &sim{
		cfg: cfg, end: At(cfg.Until), paths: map[[2]int32]*profile{},
		calib: map[calibKey]*calibration{}, changed: Never,
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
		hw.host, hw.local = int32(r/per), int32(r%per)
		hw.nic = hw.local * int32(cfg.Hardware.NICsPerHost) / int32(per)
		hw.oddFrom = Never
		s.hosts[hw.host].ranks = append(s.hosts[hw.host].ranks, int32(r))
	}
	for stage := range cfg.Job.PP {
		s.programs = append(s.programs, cfg.Job.program(&s.cfg.Hardware, stage))
	}
	for r := range s.ranks {
		s.ranks[r].init(s, int32(r))
	}
	s.makeComms()
	return s, nil
}

// run lets every rank go as far as the horizon allows. Ranks run in dependency order, not in order of time: a rank waits
// only for what it needs, so the times are those of a simulation in order of time.
func (s *sim) run(ctx context.Context) error {
	for r := range s.ranks {
		s.ranks[r].resume(s)
		s.wake(int32(r))
	}
	for n := 0; ; {
		// Last woken, first run: the ranks of a tensor-parallel group wake each other for a long while, and so stay in the
		// processor's caches.
		for len(s.work) > 0 {
			r := s.work[len(s.work)-1]
			s.work = s.work[:len(s.work)-1]
			s.queued[r] = false
			s.ranks[r].advance(s)
			if s.err != nil {
				return s.err
			}
			if n++; n%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
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
		if o.p2p {
			released = s.releaseSender(o) || released
			continue
		}
		if o.consistent() {
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

// releaseSender lets a sender leave before the receiver's kernel runs, where its data fits the buffers that the
// receiver's proxy has offered.
func (s *sim) releaseSender(o *op) bool {
	m := &o.mem[0]
	if m.left != unset || m.entered == unset || o.mem[1].called == unset {
		return false
	}
	left := Never
	if c := s.calibrated(o); !s.isOdd(o, c) {
		if c.fits {
			left = s.fluid(o, 0, 0, c)
		}
	} else {
		e := s.evaluate(o, s.horizon, true, false)
		if left = e.left[0]; left <= s.horizon {
			o.setDirs(e, 0)
		}
	}
	if left > s.horizon {
		return false
	}
	m.left = left
	s.wake(o.rankOf(0))
	return true
}
