// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package trial performs the scorecard's runs: a simulated job is watched by Prometheus with the shipped rules and diagnosed by
// the service itself, on simulated time, and what the service says is judged.
package trial

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/baseline"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// trial is a case on its way.
type trial struct {
	*matrix.Case
	out    judge.Outcome
	s      *service
	harmed []hurt
}

// run simulates a case under the service and judges what it says.
func run(ctx context.Context, c *matrix.Case, m *meter) (*trial, error) {
	t := &trial{Case: c, out: judge.NewOutcome(c)}
	start := time.Now()
	if err := t.perform(ctx, m); err != nil {
		return t, fmt.Errorf("%s: %w", c.Name, err)
	}
	t.out.Seconds = time.Since(start).Seconds()
	return t, nil
}

// leastWatch is for how long after the fault iterations are measured.
const leastWatch = 32 * time.Second

// perform lets the job run until the service pages, or for as long as the case says.
func (t *trial) perform(ctx context.Context, m *meter) error {
	w, err := newWorld(t.Config, t.Scrape, m.rest)
	if err != nil {
		return err
	}
	var d dearest
	t.s, err = newService(w, func(ev rca.Evidence, opt rca.Options) rca.Verdict { return d.time(&t.out, ev, opt) })
	if err != nil {
		return err
	}
	paged := func() bool { return !t.s.pagedAt.IsZero() }
	if err := t.s.work(ctx, t.Config.Until, paged); err != nil {
		return err
	}
	t.told()
	if !t.out.Triggered && t.asks() {
		if err := t.askUnbidden(ctx, w); err != nil {
			return err
		}
	}
	t.costs()
	m.measure(&t.out, &d)
	if err := t.compareSearch(ctx); err != nil {
		return err
	}
	t.time()
	if err := t.askHarmed(ctx); err != nil {
		return err
	}
	end := t.Config.Until
	if len(t.Config.Faults) > 0 {
		end = min(end, t.Config.Faults[0].At+leastWatch)
	}
	t.out.Said = judge.SaidBy(t.s.verdict())
	said, ev := *t.s.verdict(), t.s.last.ev
	if err := w.until(ctx, end); err != nil {
		return err
	}
	t.judge(&said, ev)
	return nil
}

// told notes when the analyzer first heard of the trouble. What fired before the fault told of something else, and counts where its
// incident was still open.
func (t *trial) told() {
	at := 0.0
	if answer := t.s.job.Answer(); len(answer.Truths) > 0 {
		at = began(answer)
	}
	heard := t.s.heard
	if t.Begins() { // The look at each new job told of nothing.
		heard = slices.DeleteFunc(slices.Clone(heard), func(h told) bool { return h.kind == incident.Start })
	}
	if len(heard) == 0 {
		return
	}
	for _, h := range heard {
		if since := h.at.Seconds() - at; since > 0 {
			t.out.Triggered, t.out.Trigger, t.out.Told = true, h.trigger, since
			return
		}
	}
	if i := t.s.incident; i != nil && (i.ResolvedAt == nil || i.ResolvedAt.Sub(t.s.epoch) >= seconds(at)) {
		t.out.Triggered, t.out.Trigger = true, heard[len(heard)-1].trigger
	}
}

// asks tells whether somebody asks although nothing triggers, as a person would who finds the job slow.
func (t *trial) asks() bool { return t.Case.Ask > 0 || t.Group == matrix.GroupSlow }

// patience is for how long a person waits for an answer.
const patience = 10 * time.Second

func (t *trial) askUnbidden(ctx context.Context, w *world) error {
	if err := t.s.ask(t.Config.Job.ID); err != nil {
		return err
	}
	answered := func() bool { return t.s.incident != nil && t.s.incident.Count > 0 }
	return t.s.work(ctx, w.job.Now()+patience, answered)
}

// costs notes what the last analysis fetched.
func (t *trial) costs() {
	a := &t.s.last
	t.out.RanksFetched, t.out.BytesFetched = a.ranks, a.outcome.Bytes
	if a.outcome.Nodes > t.s.cfg.Analysis.AllNodesUpTo {
		t.out.Search = &judge.Search{Hosts: a.outcome.Asked, Of: a.outcome.Nodes}
	}
}

// compareSearch asks everybody, where the service asked some, whether that gives the same answer. Only of standstills.
func (t *trial) compareSearch(ctx context.Context) error {
	if t.out.Search == nil || !t.s.verdict().Class.StandsStill() {
		return nil
	}
	d := t.s.newDiagnoser(t.s.job, nil)
	d.Engine, d.Config.ConfirmAfter, d.Config.AllNodesUpTo = nil, 0, t.out.Search.Of
	all, err := d.Diagnose(ctx, t.s.last.request)
	if err != nil {
		return fmt.Errorf("asking everybody: %w", err)
	}
	t.out.Search.Whole, t.out.Search.Same = all.Bytes, accusation(&all.Verdict) == accusation(t.s.verdict())
	return nil
}

// time notes what a person waits for, from the first fault on.
func (t *trial) time() {
	answer := t.s.job.Answer()
	if len(answer.Truths) == 0 || !t.out.Triggered {
		return
	}
	since := func(at time.Time) float64 {
		if at.IsZero() {
			return 0
		}
		return max(0, at.Sub(t.s.epoch).Seconds()-began(answer))
	}
	t.out.Paged = since(t.s.pagedAt)
	t.out.Latency = since(t.s.saidAt[accusation(t.s.verdict())])
}

// judge measures the fault's effect and compares verdict and answer.
func (t *trial) judge(said *rca.Verdict, ev *rca.Evidence) {
	answer, ends := t.s.job.Answer(), t.s.ends()
	t.out.Tell(answer)
	t.out.Slowdown = t.slowdown(ends, answer)
	t.out.Effect = len(answer.Truths) == 0 || answer.Hang || (t.Group == matrix.GroupSlow && (t.out.Slowdown > leastSlowdown || t.Lasting()))
	t.s.job.View(func(rec *cluster.Recording) {
		t.out.Judgement = judge.Judge(said, answer, t.out.Effect, rec)
		for i := range t.harmed {
			h := &t.harmed[i]
			t.out.Harmed = append(t.out.Harmed, judge.JudgeHarmed(h.harm, h.liar, &h.verdict, answer, t.out.Effect, rec))
		}
	})
	t.out.SimSeconds = t.s.spent.Seconds()
	if ev != nil {
		t.out.Methods = map[string]judge.Guess{}
		for name, rank := range baseline.Accused(ev) {
			t.out.Methods[name] = judge.NewGuess(rank, answer, t.out.Effect)
		}
	}
}

// slowdown is the mean iteration after the fault over that before it; 1 without iterations to compare.
func (t *trial) slowdown(ends []time.Duration, a *cluster.Answer) float64 {
	if len(a.Truths) == 0 || len(ends) < 4 || began(a) == 0 {
		return 1
	}
	at := seconds(began(a))
	before, ok := meanIteration(ends, ends[1], at)
	after, ok2 := meanIteration(ends, at+before, t.Config.Until)
	if !ok || !ok2 {
		return 1
	}
	return float64(after) / float64(before)
}

// meanIteration is the mean duration of the iterations that ended in a span, the job's first left out.
func meanIteration(ends []time.Duration, from, to time.Duration) (time.Duration, bool) {
	sum, n := time.Duration(0), 0
	for i := 1; i < len(ends); i++ {
		if ends[i] > from && ends[i] <= to {
			sum += ends[i] - ends[i-1]
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	return sum / time.Duration(n), true
}

// leastSlowdown is the slowdown from which a fault counts as having an effect: the trigger's own bound.
const leastSlowdown = 1.1

// began is when the first fault began, seconds; 0 from the start.
func began(a *cluster.Answer) float64 {
	at := a.Truths[0].AtSeconds
	for _, t := range a.Truths {
		at = min(at, t.AtSeconds)
	}
	return at
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
