// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/incident"
)

// Limits bound what all rules do together.
type Limits struct {
	MaxHosts int // Different hosts within Window.
	Window   time.Duration
	Interval time.Duration // Between two actions.
}

// Runner runs rules on incidents, one at a time.
type Runner struct {
	logger *slog.Logger
	clock  clock.Clock
	log    *Log
	began  time.Time
	wake   chan struct{}

	ran      *prometheus.CounterVec
	refused  *prometheus.CounterVec
	duration prometheus.Histogram

	mu      sync.Mutex
	rules   []Rule
	limits  Limits
	link    func(id string) string
	pending map[string]incident.Incident
}

// NewRunner makes a runner that keeps its record in log.
func NewRunner(log *Log, logger *slog.Logger, reg prometheus.Registerer, clk clock.Clock) *Runner {
	r := &Runner{
		logger: logger, clock: clk, log: log, began: clk.Now(), wake: make(chan struct{}, 1), pending: map[string]incident.Incident{},
		ran: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "culprit_analyzer_actions_total",
			Help: "Actions on verdicts, by action and outcome: would_run counts those on a dry run.",
		}, []string{"action", "outcome"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "culprit_analyzer_actions_refused_total",
			Help: "Actions that matched a verdict and did not run, by action and reason. Each reason counts once per incident.",
		}, []string{"action", "reason"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "culprit_analyzer_action_duration_seconds",
			Help:    "Time that one action took.",
			Buckets: []float64{0.01, 0.1, 1, 10, 60}, NativeHistogramBucketFactor: 1.1,
		}),
	}
	reg.MustRegister(r.ran, r.refused, r.duration)
	return r
}

// Apply replaces the rules. link gives the address of an incident's page.
func (r *Runner) Apply(rules []Rule, limits Limits, link func(id string) string) {
	r.mu.Lock()
	r.rules, r.limits, r.link = rules, limits, link
	r.mu.Unlock()
	for i := range rules {
		for _, outcome := range []Event{WouldRun, Done, Failed} {
			r.ran.WithLabelValues(rules[i].Name, string(outcome))
		}
		for _, reason := range refusals {
			r.refused.WithLabelValues(rules[i].Name, reason)
		}
	}
}

// Consider has the rules look at an incident soon. It does not block.
func (r *Runner) Consider(inc incident.Incident) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rules) == 0 || !r.fresh(&inc) {
		return
	}
	r.pending[inc.ID] = inc
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// fresh reports whether an incident was analysed since this process runs: what an earlier one found, and stored, may be over.
func (r *Runner) fresh(inc *incident.Incident) bool {
	n := len(inc.Analyses)
	return inc.State == incident.Open && inc.Verdict != nil && n > 0 && inc.Analyses[n-1].Error == "" && !inc.Analyses[n-1].At.Before(r.began)
}

// Run works until the context ends.
func (r *Runner) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			r.Work(ctx)
		}
	}
}

// Work does what is to be done now.
func (r *Runner) Work(ctx context.Context) {
	r.mu.Lock()
	pending, rules, limits, link := r.pending, r.rules, r.limits, r.link
	r.pending = map[string]incident.Incident{}
	r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(pending)) {
		inc := pending[id]
		for i := range rules {
			if ctx.Err() != nil {
				return
			}
			r.apply(ctx, &rules[i], limits, link, &inc)
		}
	}
}

func (r *Runner) apply(ctx context.Context, rule *Rule, limits Limits, link func(id string) string, inc *incident.Incident) {
	req, refused := rule.decide(inc, r.clock.Now())
	if req == nil || r.log.has(Started, rule.Name, inc.ID, "") {
		return
	}
	if link != nil {
		req.URL = link(inc.ID)
	}
	entry := Entry{Subject: req.Subject}
	if refused == "" && !rule.DryRun {
		refused = r.overLimit(req.Hosts, limits)
	}
	switch {
	case refused != "":
		r.refuse(entry, refused)
	case rule.DryRun:
		r.rehearse(entry)
	default:
		r.run(ctx, rule, req, entry)
	}
}

// overLimit gives why so many hosts may not be touched now; empty: they may.
func (r *Runner) overLimit(hosts []string, limits Limits) string {
	now := r.clock.Now()
	touched, last := r.log.touched(now.Add(-limits.Window))
	for _, h := range hosts {
		if !slices.Contains(touched, h) {
			touched = append(touched, h)
		}
	}
	switch {
	case len(touched) > limits.MaxHosts:
		return refusedBudget
	case !last.IsZero() && now.Sub(last) < limits.Interval:
		return refusedInterval
	}
	return ""
}

// refuse records that an action did not run, each reason once per incident. It is tried again when the incident changes.
func (r *Runner) refuse(e Entry, reason string) {
	if r.log.has(Refused, e.Action, e.Incident, reason) {
		return
	}
	e.At, e.Event, e.Reason = r.clock.Now(), Refused, reason
	r.refused.WithLabelValues(e.Action, reason).Inc()
	r.logger.Warn("action refused", "action", e.Action, "incident", e.Incident, "job_id", e.JobID, "hosts", e.Hosts, "reason", reason)
	r.record(e)
}

func (r *Runner) rehearse(e Entry) {
	if r.log.has(WouldRun, e.Action, e.Incident, "") {
		return
	}
	e.At, e.Event = r.clock.Now(), WouldRun
	r.ran.WithLabelValues(e.Action, string(WouldRun)).Inc()
	r.logger.Info("action would run; dry_run is on", "action", e.Action, "incident", e.Incident, "job_id", e.JobID, "hosts", e.Hosts)
	r.record(e)
}

// record writes an entry of something that has happened anyway.
func (r *Runner) record(e Entry) {
	if err := r.log.Add(e); err != nil {
		r.logger.Error("audit log not written", "action", e.Action, "incident", e.Incident, "event", e.Event, "err", err)
	}
}

// run runs an action, once it is on record that it does: a crash in between must not make it run twice.
func (r *Runner) run(ctx context.Context, rule *Rule, req *Request, e Entry) {
	e.At, e.Event = r.clock.Now(), Started
	if err := r.log.Add(e); err != nil {
		r.refused.WithLabelValues(e.Action, refusedLog).Inc()
		r.logger.Error("action refused: the audit log cannot be written", "action", e.Action, "incident", e.Incident, "err", err)
		return
	}
	r.logger.Warn("action starts", "action", e.Action, "incident", e.Incident, "job_id", e.JobID, "hosts", e.Hosts)
	ctx, cancel := context.WithTimeout(ctx, rule.Timeout)
	defer cancel()
	output, err := rule.Do.Do(ctx, req)
	end := r.clock.Now()
	e.Seconds, e.Output, e.Event = end.Sub(e.At).Seconds(), cut(output), Done
	e.At = end
	if err != nil {
		e.Event, e.Reason = Failed, cut(err.Error())
		r.logger.Error("action failed; it is not tried again for this incident", "action", e.Action, "incident", e.Incident, "err", err, "output", e.Output)
	} else {
		r.logger.Info("action done", "action", e.Action, "incident", e.Incident, "seconds", e.Seconds)
	}
	r.ran.WithLabelValues(e.Action, string(e.Event)).Inc()
	r.duration.Observe(e.Seconds)
	r.record(e)
}
