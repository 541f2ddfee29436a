// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/page"
)

// Run analyses what is due and ends what is over, until the context ends and the analyses in progress with it.
func (m *Manager) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := m.round(ctx, &wg)
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
	}
}

// Work does what is due now and returns when it is done, with the time until something is due again. It is for callers
// with a clock of their own, in place of Run.
func (m *Manager) Work(ctx context.Context) time.Duration {
	for {
		var wg sync.WaitGroup
		next := m.round(ctx, &wg)
		wg.Wait()
		if next > 0 || ctx.Err() != nil {
			return next
		}
	}
}

// idle is how often the manager looks around with nothing due.
const idle = time.Minute

// round starts what is due and says when to look again.
func (m *Manager) round(ctx context.Context, wg *sync.WaitGroup) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	next := now.Add(idle)
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for _, e := range m.openJob {
		m.endOld(e, now, earlier)
		if last, over := e.lastEnd(); over {
			end := last.Add(m.opt.Grace)
			if !end.After(now) {
				m.resolve(e, now)
				continue
			}
			earlier(end)
		}
		switch {
		case e.running || e.due.IsZero() || e.quarantined():
		case e.due.After(now):
			earlier(e.due)
		case m.running < m.opt.Workers:
			m.running++
			m.noteBegin(e)
			e.running, e.due = true, time.Time{}
			e.attempt++
			req := Request{IncidentID: e.ID, Job: e.Job(), Triggers: e.firing(), Attempt: e.attempt, CalmUntil: e.calmUntil, PresentOnly: now.Before(e.pastDue)}
			wg.Go(func() { m.run(ctx, e, req) })
		}
	}
	return max(0, next.Sub(now))
}

// endOld ends triggers that nobody will end: requests through the API, and alerts not heard of for very long.
func (m *Manager) endOld(e *entry, now time.Time, earlier func(time.Time)) {
	for i := range e.Triggers {
		t := &e.Triggers[i]
		if !t.Firing() {
			continue
		}
		ttl := m.opt.Silent
		if t.Passive {
			ttl = m.opt.PassiveTTL
		}
		if end := t.LastHeardAt.Add(ttl); end.After(now) {
			earlier(end)
		} else {
			t.EndedAt = &now
			m.touch(e, now)
		}
	}
}

func (m *Manager) resolve(e *entry, now time.Time) {
	e.State, e.ResolvedAt, e.due = Resolved, &now, time.Time{}
	delete(m.openJob, e.Job())
	m.logger.Info("incident resolved", "incident", e.ID, "job_id", e.Job(), "after", now.Sub(e.OpenedAt))
	m.touch(e, now)
	if e.routine() {
		m.drop(e)
	}
	m.prune()
}

// End ends triggers by key, as of now.
func (m *Manager) End(incidentID string, keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[incidentID]
	if e == nil || e.State != Open {
		return
	}
	now := m.clock.Now()
	for _, k := range keys {
		if t := e.trigger(k); t != nil && t.Firing() {
			t.EndedAt = &now
		}
	}
	m.touch(e, now)
	m.poke()
}

func (m *Manager) run(ctx context.Context, e *entry, req Request) {
	start := m.clock.Now()
	out, err := m.guarded(ctx, req)
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.poke()
	m.running--
	e.running = false
	if errors.Is(err, errCrashed) {
		e.crashes++
		if e.quarantined() {
			m.logger.Error("incident in quarantine: its analysis crashed too often", "incident", e.ID, "job_id", e.Job(), "crashes", e.crashes)
			err = fmt.Errorf("%w; this incident is not analysed again", err)
		}
	} else {
		m.noteEnd(e)
	}
	if ctx.Err() != nil {
		return
	}
	now := m.clock.Now()
	m.metrics.duration.Observe(now.Sub(start).Seconds())
	stands := err == nil && e.standsStill(&out.Verdict, start)
	if past := now.Add(m.opt.LookBack); stands && past.Before(e.pastDue) {
		e.pastDue = past // Should it go on, finished work tells what held it up.
	}
	still := stands || e.Verdict != nil && e.Verdict.Class.StandsStill()
	e.lookedAt = start
	if req.PresentOnly && err == nil && !still {
		// The job moves, as it did before, and no more was asked: what was found with the past holds.
		m.again(e, &out, nil, now)
		return
	}
	e.Count++
	a := Analysis{At: now, Seconds: now.Sub(start).Seconds()}
	if err != nil {
		a.Error = err.Error()
		m.logger.Warn("analysis failed", "incident", e.ID, "job_id", e.Job(), "err", err)
	} else {
		m.accept(e, &out, &a, now)
	}
	e.Analyses = append(e.Analyses, a)
	if n := len(e.Analyses) - keptAnalyses; n > 0 {
		e.Analyses = e.Analyses[n:]
	}
	m.again(e, &out, err, now)
	m.touch(e, now)
}

// standsStill reports whether a verdict of an analysis that began then tells that the job does. Of one that names nobody, two in a row must
// have found it: ranks of a job that moves wait for each other as well.
func (e *entry) standsStill(v *rca.Verdict, began time.Time) bool {
	return v.Class.StandsStill() || v.Page || began.Sub(e.lookedAt).Seconds() < v.Standstill
}

var errCrashed = errors.New("the analysis crashed")

// noteBegin has the store remember that an analysis begins, in case that it ends the process.
func (m *Manager) noteBegin(e *entry) {
	if m.store == nil {
		return
	}
	if err := m.store.Begin(e.ID, e.crashes+1); err != nil {
		m.logger.Error("analysis marker not written", "incident", e.ID, "err", err)
	}
}

func (m *Manager) noteEnd(e *entry) {
	e.crashes = 0
	if m.store == nil {
		return
	}
	if err := m.store.End(e.ID); err != nil {
		m.logger.Error("analysis marker not removed", "incident", e.ID, "err", err)
	}
}

// guarded analyses, and makes an error of a panic: what one job's evidence does to an analysis may not end the service that
// watches all the others.
func (m *Manager) guarded(ctx context.Context, req Request) (out Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.metrics.panics.Inc()
			m.logger.Error("analysis crashed", "incident", req.IncidentID, "job_id", req.Job, "panic", p, "stack", string(debug.Stack()))
			out, err = Outcome{}, fmt.Errorf("analysing job %s: %w: %v", req.Job, errCrashed, p)
		}
	}()
	return m.analyze(ctx, req)
}

// again schedules the next analysis.
func (m *Manager) again(e *entry, out *Outcome, err error, now time.Time) {
	if e.State == Open {
		e.due = now.Add(m.wait(e, out, err))
		if e.again {
			e.due = now
		}
	}
	if out.Costly && !e.again {
		e.looks++
		e.pastDue = now.Add(m.lookAgain(e))
		if settled(e, out, err) || err == nil && showsNothing(out) && !e.toldOfSlowness() {
			e.pastDue = now.Add(m.opt.Recheck)
		}
	}
	e.again = false
}

// accept weighs a new verdict against the standing one.
func (m *Manager) accept(e *entry, out *Outcome, a *Analysis, now time.Time) {
	v := &out.Verdict
	if out.Ended && m.toldOfRun(e, out) {
		page.Decide(v, page.Stage{Told: true})
	}
	a.Class, a.Cause, a.Confidence, a.Page = v.Class, v.Cause, v.Confidence, v.Page
	a.Nodes, a.Asked, a.Answered, a.Bytes = out.Nodes, out.Asked, out.Answered, out.Bytes
	e.Ranks = out.Ranks
	if e.Labels == nil {
		e.Labels = out.Labels
	}
	if e.Workload == nil {
		e.Workload = out.Workload
	}
	if len(out.Stacks) > 0 {
		e.Stacks = out.Stacks
	}
	if out.Layout != nil {
		e.Layout = out.Layout
	}
	if v.Class == rca.Benign {
		e.calmUntil = now
	}
	key := accusation(v)
	told := e.Verdict != nil && e.Verdict.Page && e.Verdict.Class.StandsStill()
	if late := told && out.Ended; !late && supersedes(e.Verdict, v, key == e.candidate, told && e.unmoved(v, now)) {
		if e.Verdict == nil || accusation(e.Verdict) != key || e.Verdict.Page != v.Page {
			e.VerdictAt = &now
			m.metrics.verdicts.WithLabelValues(string(v.Class)).Inc()
			m.logVerdict(e, v, a)
		}
		e.Verdict, e.Latest = v, nil
		e.Since = standsSince(e.Since, v, now)
		if v.Page {
			e.Comms = slices.Clone(out.Comms[:min(len(out.Comms), keptComms)])
		}
		e.Flow = out.Flow // Of the same operation as the verdict.
		if len(out.Rounds) > 0 || v.Class.StandsStill() {
			e.Rounds = out.Rounds
		}
		if m.opt.Keep != nil && out.Rests != nil {
			m.opt.Keep(e.ID, out.Rests)
		}
	} else {
		e.Latest = v
	}
	e.candidate = key
	e.Benign = unalarming(e.Verdict)
}

// keptComms is how many communicators of a run an incident keeps.
const keptComms = 16

// toldOfRun reports whether somebody was paged of a standstill in another incident of the job, or in this one before it was opened again,
// and it is the same run: of the same communicators, or paged for when its processes had all begun or before one of them had ended. A job
// that has ended does not fail again: exporters that start anew find its remains, and rules take those for news. Either time will do: both
// are counted back from now, and the machine's clock may be wrong by more than one of them is old.
func (m *Manager) toldOfRun(e *entry, out *Outcome) bool {
	before := func(at time.Time, then *time.Time) bool { return !at.IsZero() && then != nil && at.Before(*then) }
	for _, o := range m.entries {
		if o.Job() != e.Job() {
			continue
		}
		told := o.ToldUntil
		if o != e && o.State == Resolved && o.toldOfStandstill() {
			told = o.ResolvedAt
		}
		sameComm := slices.ContainsFunc(o.Comms, func(id string) bool { return slices.Contains(out.Comms, id) })
		if told != nil && (sameComm || before(out.Began, &o.OpenedAt) || before(out.FirstEnd, told)) {
			return true
		}
	}
	return false
}

// firstLooks is after how many looks at a slow job's past their distance is the usual one. A rule fires when it sees the first slow
// iterations, and those may not be enough to name somebody: the first looks come sooner.
const firstLooks = 3

// lookAgain gives the time until finished work is fetched again.
func (m *Manager) lookAgain(e *entry) time.Duration {
	if !e.toldOfSlowness() {
		return m.opt.LookBack
	}
	return m.opt.LookBack * time.Duration(min(e.looks, firstLooks)) / firstLooks
}

// settled reports whether a verdict pages on complete evidence and nothing newer differs.
func settled(e *entry, out *Outcome, err error) bool {
	return err == nil && out.Complete && e.Verdict != nil && e.Verdict.Page && e.Latest == nil
}

// showsNothing reports whether the evidence, of a large job as far as it was asked for, shows nobody who could be to blame.
func showsNothing(out *Outcome) bool {
	v := &out.Verdict
	return out.Complete && (v.Class == rca.Healthy || v.Class == rca.Unknown && len(v.Culprits) == 0 && len(v.Ask) > 0)
}

// toldOfSlowness reports whether a trigger that fires, or a person, says that the job is slow. Of the others finished work that shows
// nothing says so again a little later.
func (e *entry) toldOfSlowness() bool {
	return slices.ContainsFunc(e.firing(), func(t Trigger) bool { return t.Kind != Hang && t.Kind != Start })
}

// wait gives the time until the next analysis. A settled verdict on a job that stands still is only looked at now and then.
// Anything else is looked at again soon, with a distance that grows a little: what looks like a checkpoint may turn out a
// hang, and a slow job may come to stand still while the trigger of a hang still fires for what was before.
func (m *Manager) wait(e *entry, out *Outcome, err error) time.Duration {
	pageIn := 0.0
	if err == nil {
		pageIn = nextPage(&out.Verdict)
	}
	if pageIn == 0 && settled(e, out, err) && e.Verdict.Class.StandsStill() {
		return m.opt.Recheck
	}
	d := m.opt.RetryMin << min(max(e.attempt-1, 0), 30) // A trigger that came during the analysis began the count anew.
	if d <= 0 || d > m.opt.RetryMax {
		d = m.opt.RetryMax
	}
	if pageIn > 0 {
		d = min(d, time.Duration(pageIn*float64(time.Second))+time.Millisecond)
	}
	return d
}

// nextPage gives the seconds until a verdict may page, or may page for one more of those that it accuses; 0: it pages for all, or will
// for nobody.
func nextPage(v *rca.Verdict) float64 {
	next := v.PageIn
	for i := range v.Culprits {
		if in := v.Culprits[i].PageIn; in > 0 && (next == 0 || in < next) {
			next = in
		}
	}
	return next
}
