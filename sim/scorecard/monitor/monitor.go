// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitor is what stands between exporters and the analyzer, on simulated time: Prometheus, which scrapes the
// exporters, evaluates rules and answers queries, with its own engine and its own rule evaluation, on a store in memory; and
// Alertmanager's grouping, as its configuration has it.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/url"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"

	"github.com/culprit-project/culprit/analyzer/webhook"
)

// Options are how a job is watched.
type Options struct {
	Scrape       time.Duration // Interval.
	Rules        []byte        // A rule file.
	Unread       bool          // Nobody reads annotations: they are not rendered.
	Alertmanager []byte        // Its configuration.
	// Keep chooses the metrics that are kept, as metric_relabel_configs do; nil: all.
	Keep func(name string) bool
	// Deliver takes the notifications to the analyzer's webhook.
	Deliver func(*webhook.Message) error
}

// Monitor watches one job. Time goes on by Handle.
type Monitor struct {
	opt    Options
	store  *store
	engine *promql.Engine
	parser parser.Parser
	am     grouping
	now    time.Time
	events []*event
	failed error
}

// event happens again and again.
type event struct {
	next  time.Time
	every time.Duration
	do    func(ctx context.Context, at time.Time) error
}

// What Prometheus has unless it is told: the age from which a sample says nothing of now, how often an alert that fires is
// sent again, and a bound on what a query may load.
const (
	lookback   = 5 * time.Minute
	resend     = time.Minute
	maxSamples = 50_000_000
)

// phases are at how many moments of a scrape interval exporters are scraped. Prometheus spreads them over all of it.
const phases = 4

// New prepares a monitor of exporters that begins at a time.
func New(opt Options, targets []Target, begin time.Time) (*Monitor, error) {
	to, err := triggerRoute(opt.Alertmanager)
	if err != nil {
		return nil, err
	}
	p := parser.NewParser(parser.Options{})
	m := &Monitor{
		opt: opt, store: newStore(), parser: p, now: begin,
		am: grouping{route: to, deliver: opt.Deliver},
		engine: promql.NewEngine(promql.EngineOpts{
			Logger: slog.New(slog.DiscardHandler), MaxSamples: maxSamples, Timeout: time.Hour, LookbackDelta: lookback, Parser: p,
			NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
			EnableAtModifier:         true, EnableNegativeOffset: true,
		}),
	}
	m.watch(targets)
	if err := m.load(); err != nil {
		return nil, err
	}
	return m, nil
}

// watch plans the scrapes.
func (m *Monitor) watch(targets []Target) {
	var groups [phases][]*target
	for _, t := range targets {
		h := fnv.New32a()
		h.Write([]byte(t.Name()))
		groups[h.Sum32()%phases] = append(groups[h.Sum32()%phases], m.newTarget(t))
	}
	for i, group := range groups {
		if len(group) == 0 {
			continue
		}
		// Half a phase after the interval's start, so that no scrape falls together with a rule.
		first := m.now.Add(m.opt.Scrape * time.Duration(2*i+1) / (2 * phases))
		m.events = append(m.events, &event{next: first, every: m.opt.Scrape, do: func(_ context.Context, at time.Time) error {
			for _, t := range group {
				if err := m.scrape(t, at.UnixMilli()); err != nil {
					return err
				}
			}
			return nil
		}})
	}
}

// load plans the evaluation of the rules.
func (m *Monitor) load() error {
	logger := slog.New(complaints{m})
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{}, QueryFunc: rules.EngineQueryFunc(m.engine, view{store: m.store}),
		NotifyFunc: func(_ context.Context, _ string, sent ...*rules.Alert) { m.am.take(m.now, sent) },
		Appendable: m.store, Queryable: view{store: m.store}, Logger: logger, Registerer: prometheus.NewRegistry(),
		ResendDelay: resend, GroupLoader: ruleText{m, logger}, Parser: m.parser,
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, "rules")
	if len(errs) > 0 {
		return fmt.Errorf("loading the rules: %w", errors.Join(errs...))
	}
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			r.SetRestored(true) // Nothing was before the beginning. Until it is restored, an alert writes no ALERTS.
		}
		at := g.EvalTimestamp(m.now.UnixNano()).Add(g.Interval())
		m.events = append(m.events, &event{next: at, every: g.Interval(), do: func(ctx context.Context, at time.Time) error {
			g.Eval(ctx, at)
			return m.failed
		}})
	}
	return nil
}

// ruleText loads the rules from memory.
type ruleText struct {
	m      *Monitor
	logger *slog.Logger
}

// Load implements rules.GroupLoader.
func (r ruleText) Load(_ string, ignore bool, names model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	groups, errs := rulefmt.Parse(r.m.opt.Rules, ignore, names, r.m.parser, r.logger)
	if groups != nil && r.m.opt.Unread {
		for i := range groups.Groups {
			for j := range groups.Groups[i].Rules {
				groups.Groups[i].Rules[j].Annotations = nil
			}
		}
	}
	return groups, errs
}

// Parse implements rules.GroupLoader.
func (r ruleText) Parse(query string) (parser.Expr, error) { return r.m.parser.ParseExpr(query) }

// complaints keeps the first warning of the rules' evaluation, which returns no errors.
type complaints struct{ m *Monitor }

func (c complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c complaints) WithAttrs([]slog.Attr) slog.Handler           { return c }
func (c complaints) WithGroup(string) slog.Handler                { return c }

func (c complaints) Handle(_ context.Context, r slog.Record) error {
	if c.m.failed == nil {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool {
			text += " " + a.String()
			return true
		})
		c.m.failed = fmt.Errorf("evaluating the rules: %s", text)
	}
	return nil
}

// Next gives when something happens next.
func (m *Monitor) Next() time.Time {
	next := m.am.next
	for _, e := range m.events {
		if next.IsZero() || e.next.Before(next) {
			next = e.next
		}
	}
	return next
}

// Handle lets happen what happens at Next. The exporters must have come to that time.
func (m *Monitor) Handle(ctx context.Context) error {
	m.now = m.Next()
	for _, e := range m.events {
		if e.next.Equal(m.now) {
			e.next = e.next.Add(e.every)
			if err := e.do(ctx, m.now); err != nil {
				return err
			}
		}
	}
	if m.am.next.Equal(m.now) {
		return m.am.flush(m.now)
	}
	return nil
}

// Queries answers the analyzer's queries as of the time that now gives. hidden exporters have never been scraped; nil: none.
func (m *Monitor) Queries(now func() time.Time, hidden func(instance string) bool) *Queries {
	q := &Queries{m: m, now: now, view: view{store: m.store}}
	if hidden != nil {
		q.view.hidden = func(l labels.Labels) bool { return hidden(l.Get("instance")) }
	}
	return q
}

// Queries is the part of Prometheus's API that the analyzer uses.
type Queries struct {
	m    *Monitor
	now  func() time.Time
	view view
}

// Query implements evidence.Querier.
func (q *Queries) Query(ctx context.Context, query string, at time.Time, _ ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	if at.IsZero() {
		at = q.now()
	}
	x, err := q.m.engine.NewInstantQuery(ctx, q.view, nil, query, at)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading the query: %w", err)
	}
	defer x.Close()
	res := x.Exec(ctx)
	if res.Err != nil {
		return nil, nil, nil, res.Err
	}
	switch v := res.Value.(type) {
	case promql.Vector:
		out := make(model.Vector, 0, len(v))
		for i := range v {
			metric := make(model.Metric, v[i].Metric.Len())
			v[i].Metric.Range(func(l labels.Label) { metric[model.LabelName(l.Name)] = model.LabelValue(l.Value) })
			out = append(out, &model.Sample{Metric: metric, Value: model.SampleValue(v[i].F), Timestamp: model.Time(v[i].T)})
		}
		return out, nil, nil, nil
	case promql.Scalar:
		return &model.Scalar{Value: model.SampleValue(v.V), Timestamp: model.Time(v.T)}, nil, nil, nil
	}
	return nil, nil, nil, fmt.Errorf("the answer is a %s", res.Value.Type())
}
