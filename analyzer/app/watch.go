// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/webhook"
)

// maxRefills bounds the truncated notifications whose rest is still to be asked for.
const maxRefills = 64

// refill is a notification that left alerts out.
type refill struct {
	receiver string
	matchers []string
}

// askForRest has the alerts fetched that a notification was too short for.
func (a *App) askForRest(m *webhook.Message) {
	r := refill{receiver: "^(?:" + regexp.QuoteMeta(m.Receiver) + ")$"}
	for name, value := range m.GroupLabels {
		r.matchers = append(r.matchers, notify.Matcher(name, value))
	}
	slices.Sort(r.matchers)
	select {
	case a.refill <- r:
	default:
		a.logger.Warn("truncated notification not completed", "group", m.GroupKey, "left_out", m.TruncatedAlerts)
	}
}

// watch completes truncated notifications, takes triggers that fire without one, and ends those that no longer fire: a notification
// of the end can get lost, and max_alerts can leave it out.
func (a *App) watch(ctx context.Context) {
	absent := map[string]time.Time{}
	caughtUp := a.catchUp(ctx)
	for {
		interval := time.Duration(a.current.Load().config.Alertmanager.PollInterval)
		select {
		case <-ctx.Done():
			return
		case r := <-a.refill:
			a.fetchRest(ctx, r)
		case <-time.After(interval):
			caughtUp = caughtUp || a.catchUp(ctx)
			firing, _ := a.inPrometheus(ctx)
			a.takeUnheard(ctx, firing)
			a.poll(ctx, absent, firing)
		}
	}
}

// catchUp takes the triggers that fire already: the notification of one that began while nobody listened may be a while in
// coming again, and an incident that was not stored would be forgotten for as long. False: no Alertmanager has answered.
func (a *App) catchUp(ctx context.Context) bool {
	list, ok := a.list(ctx, "", notify.Matcher(triggerLabel, triggerValue))
	if !ok {
		return len(a.sender.Clients()) == 0
	}
	found, _ := a.triggers(listed(list))
	byJob := map[identity.Job][]incident.Trigger{}
	for _, t := range found {
		byJob[t.Job()] = append(byJob[t.Job()], t)
	}
	for job := range byJob { // Each by itself: one too many shall not keep the others out.
		if err := a.incidents.Receive(byJob[job]); err != nil {
			a.logger.Warn("firing trigger refused", "job_id", job, "err", err)
		}
	}
	return true
}

func (a *App) fetchRest(ctx context.Context, r refill) {
	list, ok := a.list(ctx, r.receiver, r.matchers...)
	if !ok {
		return
	}
	found, _ := a.triggers(listed(list))
	if err := a.incidents.Receive(found); err != nil {
		a.logger.Warn("rest of a truncated notification refused", "err", err)
	}
}

// list gives what any Alertmanager lists; false when none answers.
func (a *App) list(ctx context.Context, receiver string, matchers ...string) (out []notify.Listed, answered bool) {
	observe := a.observer("alertmanager")
	for _, c := range a.sender.Clients() {
		list, err := c.List(ctx, receiver, matchers...)
		observe(err)
		if err != nil {
			a.logger.Warn("listing alerts failed", "alertmanager", c.URL, "err", err)
			continue
		}
		out, answered = append(out, list...), true
	}
	return out, answered
}

// poll ends the triggers of open incidents that Alertmanager has not had for a while, and that no rule of Prometheus has found true for as
// long. absent remembers since when.
func (a *App) poll(ctx context.Context, absent map[string]time.Time, firing []incident.Trigger) {
	cfg := a.current.Load().config
	mentioned := map[string]bool{}
	for _, inc := range a.incidents.List() {
		if inc.State != incident.Open {
			continue
		}
		if !slices.ContainsFunc(inc.Triggers, func(t incident.Trigger) bool { return t.Firing() && !t.Passive }) {
			continue
		}
		list, ok := a.list(ctx, "", notify.Matcher(cfg.Labels.JobID, inc.JobID))
		if !ok {
			return // Nothing is known: start to count anew.
		}
		fires := map[string]bool{}
		for _, l := range list {
			fires[l.Fingerprint] = true
		}
		var ended []string
		now := time.Now()
		for _, t := range inc.Triggers {
			stillTrue := func(o incident.Trigger) bool {
				return alike(&o, &t) && (o.TrueAt.IsZero() || now.Sub(o.TrueAt) < time.Duration(cfg.Incidents.LostTriggers))
			}
			if !t.Firing() || t.Passive || fires[t.Key] || slices.ContainsFunc(firing, stillTrue) {
				continue
			}
			mentioned[t.Key] = true
			since, known := absent[t.Key]
			if !known {
				absent[t.Key] = now
			} else if now.Sub(since) >= time.Duration(cfg.Incidents.LostTriggers) {
				ended = append(ended, t.Key)
			}
		}
		if len(ended) > 0 {
			a.incidents.End(inc.ID, ended)
		}
	}
	for key := range absent {
		if !mentioned[key] {
			delete(absent, key)
		}
	}
}

func metricsHandler(reg *prometheus.Registry, logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true,
		Registry: reg,
	})
}
