// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/node"
)

// period is how often the processes are looked at: a tenth of the floor of the rule is lost at most.
const period = 250 * time.Millisecond

// Options configure a Watcher.
type Options struct {
	URLs   []string          // Of Alertmanagers; each gets every trigger, as from Prometheus.
	Labels map[string]string // That Prometheus adds to its alerts, such as cluster.
	Client *http.Client
	Log    *slog.Logger
}

// Watcher looks at the node's jobs and posts the trigger for those that stand.
type Watcher struct {
	rule *Rule
	from func(func(sampledNS uint64, list []*node.Process))
	post *poster
	jobs map[job]*watched
}

// job tells jobs apart as the rules do.
type job struct{ id, owner string }

// watched is a job with ranks on this node.
type watched struct {
	*Waits
	completed bool      // An operation of it has, some time.
	over      time.Time // When its stall was first seen over its limit; zero: it is not.
	posted    time.Time // When its trigger was last posted; zero: never.
	began     time.Time // When that trigger began to fire.
}

// state is what the node's ranks of a job show now.
type state struct {
	stall     float64 // Seconds.
	ranks     []int32 // That live.
	world     int32
	completed bool
}

// New makes a Watcher of what the sampler follows.
func New(from *node.Sampler, o Options) (*Watcher, error) {
	rule, err := Shipped()
	if err != nil {
		return nil, err
	}
	p, err := newPoster(rule, o)
	if err != nil {
		return nil, err
	}
	return &Watcher{rule: rule, from: from.All, post: p, jobs: map[job]*watched{}}, nil
}

// Describe implements prometheus.Collector.
func (w *Watcher) Describe(ch chan<- *prometheus.Desc) { w.post.posts.Describe(ch) }

// Collect implements prometheus.Collector.
func (w *Watcher) Collect(ch chan<- prometheus.Metric) { w.post.posts.Collect(ch) }

// Run looks until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	go w.post.run(ctx)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			w.look(now)
		}
	}
}

// look is one look at all jobs.
func (w *Watcher) look(now time.Time) {
	states := map[job]*state{}
	w.from(func(sampledNS uint64, list []*node.Process) {
		for _, p := range list {
			add(states, sampledNS, p)
		}
	})
	for j := range w.jobs {
		if states[j] == nil {
			delete(w.jobs, j)
		}
	}
	for j, s := range states {
		if w.jobs[j] == nil {
			w.jobs[j] = &watched{Waits: NewWaits(w.rule)}
		}
		w.judge(j, s, now)
	}
}

// add counts a process's part of its job's state. As in the rules, what a process left behind that has ended is no wait.
func add(states map[job]*state, now uint64, p *node.Process) {
	if p.Disputed != "" || p.Dead() || p.Lost {
		return
	}
	j := job{p.JobID, p.Owner()}
	s := states[j]
	if s == nil {
		s = &state{}
		states[j] = s
	}
	if p.Rank >= 0 {
		s.ranks = append(s.ranks, p.Rank)
	}
	s.world = max(s.world, p.Snap.Identity.WorldSize)
	for f := range p.Totals.Func {
		s.completed = s.completed || p.Totals.Func[f].Ops > 0
	}
	for _, c := range p.Stalls(now) {
		s.stall = max(s.stall, c.For.Seconds())
	}
}

// judge decides whether the job's trigger fires.
func (w *Watcher) judge(j job, s *state, now time.Time) {
	g := w.jobs[j]
	g.completed = g.completed || s.completed
	g.Evaluate(now, s.stall, len(s.ranks), g.completed)
	if s.stall <= g.limit {
		// Nothing is taken back: another node may see ranks of the job that stand still. What is not posted again expires.
		g.over = time.Time{}
		return
	}
	if g.over.IsZero() {
		g.over = now
	}
	delay, mine := turn(j, s.ranks, s.world)
	if !mine || now.Sub(g.over) < delay || now.Sub(g.posted) < again {
		return
	}
	if now.Sub(g.posted) > expires {
		g.began = now
	}
	g.posted = now
	w.post.send(j, s.stall, g.began, now.Add(expires))
}
