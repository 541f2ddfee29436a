// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"context"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
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

// idle is how often the manager looks around with nothing due.
const idle = time.Minute

// round starts what is due and says when to look again.
func (m *Manager) round(ctx context.Context, wg *sync.WaitGroup) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
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
		case e.running || e.due.IsZero():
		case e.due.After(now):
			earlier(e.due)
		case m.running < m.opt.Workers:
			m.running++
			e.running, e.due = true, time.Time{}
			e.attempt++
			req := Request{IncidentID: e.ID, JobID: e.JobID, Triggers: e.firing(), Attempt: e.attempt, CalmUntil: e.calmUntil}
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
	delete(m.openJob, e.JobID)
	m.logger.Info("incident resolved", "incident", e.ID, "job_id", e.JobID, "after", now.Sub(e.OpenedAt))
	m.touch(e, now)
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
	now := time.Now()
	for _, k := range keys {
		if t := e.trigger(k); t != nil && t.Firing() {
			t.EndedAt = &now
		}
	}
	m.touch(e, now)
	m.poke()
}

func (m *Manager) run(ctx context.Context, e *entry, req Request) {
	start := time.Now()
	out, err := m.analyze(ctx, req)
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.poke()
	m.running--
	e.running = false
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	m.metrics.duration.Observe(now.Sub(start).Seconds())
	e.Count++
	a := Analysis{At: now, Seconds: now.Sub(start).Seconds()}
	if err != nil {
		a.Error = err.Error()
		m.logger.Warn("analysis failed", "incident", e.ID, "job_id", e.JobID, "err", err)
	} else {
		m.accept(e, &out, &a, now)
	}
	e.Analyses = append(e.Analyses, a)
	if n := len(e.Analyses) - keptAnalyses; n > 0 {
		e.Analyses = e.Analyses[n:]
	}
	if e.State == Open {
		e.due = now.Add(m.wait(e, &out, err))
		if e.again {
			e.due = now
		}
	}
	e.again = false
	m.touch(e, now)
}

// accept weighs a new verdict against the standing one.
func (m *Manager) accept(e *entry, out *Outcome, a *Analysis, now time.Time) {
	v := &out.Verdict
	a.Class, a.Cause, a.Confidence, a.Page = v.Class, v.Cause, v.Confidence, v.Page
	a.Nodes, a.Asked, a.Answered, a.Bytes = out.Nodes, out.Asked, out.Answered, out.Bytes
	e.Ranks = out.Ranks
	if len(out.Stacks) > 0 {
		e.Stacks = out.Stacks
	}
	if v.Class == rca.Benign {
		e.calmUntil = now
	}
	key := accusation(v)
	if supersedes(e.Verdict, v, key == e.candidate) {
		if e.Verdict == nil || accusation(e.Verdict) != key || e.Verdict.Page != v.Page {
			e.VerdictAt = &now
			m.metrics.verdicts.WithLabelValues(string(v.Class)).Inc()
			m.logVerdict(e, v, a)
		}
		e.Verdict, e.Latest = v, nil
	} else {
		e.Latest = v
	}
	e.candidate = key
	e.Benign = unalarming(e.Verdict)
}

// wait gives the time until the next analysis. A verdict that pages on complete evidence is only looked at now and
// then; anything else soon, with a growing distance: what looks like a checkpoint may turn out a hang.
func (m *Manager) wait(e *entry, out *Outcome, err error) time.Duration {
	if err == nil && out.Complete && e.Verdict != nil && e.Verdict.Page && e.Latest == nil {
		return m.opt.Recheck
	}
	if out.Costly {
		return m.opt.RetryMax
	}
	d := m.opt.RetryMin
	for range min(e.attempt-1, 30) {
		if d = 2 * d; d >= m.opt.RetryMax {
			return m.opt.RetryMax
		}
	}
	return d
}
