// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/deploy/alertmanager"
	"github.com/culprit-project/culprit/rules"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/live"
	"github.com/culprit-project/culprit/sim/scorecard/monitor"
)

// world is a simulated job with the exporters on its nodes and the Prometheus that watches it. It is a clock: its time is the
// job's.
type world struct {
	job     *live.Cluster
	mon     *monitor.Monitor
	epoch   time.Time
	spent   time.Duration // On simulating, scraping and evaluating rules.
	rest    func()        // Called now and then, where others can go first; may be nil.
	rested  time.Duration
	failed  error // Of a time that nobody could be told of.
	deliver func(*webhook.Message) error
}

// beyond is how much longer than it is watched a job could run: the moment at which it is looked at is no end.
const beyond = time.Hour

// newWorld prepares a job that nobody has watched yet. rest may be nil.
func newWorld(cfg cluster.Config, scrape time.Duration, rest func()) (*world, error) {
	cfg.Until += beyond
	if cfg.Epoch == 0 {
		cfg.Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	job, err := live.New(slog.New(slog.DiscardHandler), cfg)
	if err != nil {
		return nil, err
	}
	triggers, err := monitor.TriggersAt(scrape)
	if err != nil {
		return nil, err
	}
	w := &world{job: job, epoch: time.Unix(cfg.Epoch, 0).UTC(), rest: rest}
	targets := make([]monitor.Target, 0, len(job.Nodes()))
	for _, n := range job.Nodes() {
		targets = append(targets, n)
	}
	w.mon, err = monitor.New(monitor.Options{
		Scrape: scrape, Rules: triggers, Unread: true, Alertmanager: alertmanager.Config, Keep: asked(),
		Deliver: func(m *webhook.Message) error {
			if w.deliver == nil {
				return nil
			}
			return w.deliver(m)
		},
	}, targets, w.epoch)
	return w, err
}

// asked chooses the metrics that a rule or a query of the analyzer names: nobody would see the others.
var asked = sync.OnceValue(func() func(string) bool {
	queries, err := yaml.Marshal(config.Default().Prometheus)
	if err != nil {
		panic(err) // The defaults can be written.
	}
	names := map[string]bool{}
	for _, n := range regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`).FindAllString(string(rules.Triggers)+string(queries), -1) {
		names[n] = true
	}
	return func(name string) bool { return names[name] }
})

// Now implements clock.Clock.
func (w *world) Now() time.Time { return w.epoch.Add(w.job.Now()) }

// Sleep implements clock.Clock: the job goes on meanwhile.
func (w *world) Sleep(ctx context.Context, d time.Duration) {
	if err := w.until(ctx, w.job.Now()+d); err != nil && w.failed == nil {
		w.failed = err
	}
}

// restEvery is how much of a job's time is simulated without a rest.
const restEvery = 5 * time.Second

// until goes on to a moment: whatever Prometheus does on the way is done.
func (w *world) until(ctx context.Context, at time.Duration) error {
	start := time.Now()
	defer func() { w.spent += time.Since(start) }()
	for {
		next := w.mon.Next().Sub(w.epoch)
		if next > at {
			break
		}
		if w.rest != nil && next-w.rested >= restEvery {
			resting := time.Now()
			w.rest()
			start, w.rested = start.Add(time.Since(resting)), next
		}
		if err := w.job.Advance(ctx, next); err != nil {
			return err
		}
		if err := w.mon.Handle(ctx); err != nil {
			return fmt.Errorf("watching the job at %v: %w", next, err)
		}
	}
	return w.job.Advance(ctx, at)
}

// ends gives the times at which rank 0 ended its iterations.
func (w *world) ends() (out []time.Duration) {
	w.job.View(func(rec *cluster.Recording) {
		for _, e := range rec.Iterations(0) {
			out = append(out, e.Duration())
		}
	})
	return out
}
