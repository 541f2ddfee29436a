// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/webhook"
)

// inPrometheus asks Prometheus for the triggers that fire. Its rules see them whatever becomes of the notifications; external labels and
// annotations are not among what it knows. False: there is no Prometheus, or it did not answer.
func (a *App) inPrometheus(ctx context.Context) ([]incident.Trigger, bool) {
	s := a.current.Load()
	if s.prometheus == nil {
		return nil, false
	}
	alerts, err := a.ruleAlerts(ctx, s)
	a.observer("prometheus")(err)
	if err != nil {
		if ctx.Err() == nil {
			a.logger.Warn("firing triggers not asked for", "err", err)
		}
		return nil, false
	}
	found, _ := a.triggers(alerts)
	a.noteEvaluated(ctx, s, found)
	return found, true
}

// noteEvaluated notes when rules last found triggers true. An alert whose end Prometheus could not write stays in its answers for a while.
func (a *App) noteEvaluated(ctx context.Context, s *settings, triggers []incident.Trigger) {
	if len(triggers) == 0 {
		return
	}
	vector, err := a.triggerQuery(ctx, s, s.config.Prometheus.Queries.Evaluated)
	if err != nil {
		a.logger.Warn("not asked when triggers were last true", "err", err)
		return
	}
	at := make(map[string]time.Time, len(vector))
	for _, sample := range vector {
		at[webhook.Fingerprint(labelsOf(sample.Metric))] = time.UnixMilli(int64(float64(sample.Value) * 1000))
	}
	for i := range triggers {
		triggers[i].TrueAt = at[triggers[i].Key]
	}
}

// triggerQuery runs a query over the triggers.
func (a *App) triggerQuery(ctx context.Context, s *settings, template string) (model.Vector, error) {
	query, err := config.Query(template, fmt.Sprintf("%s=%q", triggerLabel, triggerValue))
	if err != nil {
		return nil, fmt.Errorf("filling the query for triggers: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.config.Prometheus.Timeout))
	defer cancel()
	value, _, _, err := s.prometheus.Query(ctx, query, time.Now())
	if err != nil {
		return nil, fmt.Errorf("asking for triggers: %w", err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("the query for triggers gives a %s, want a vector", value.Type())
	}
	return vector, nil
}

// labelsOf gives a series' labels without its name.
func labelsOf(m model.Metric) map[string]string {
	labels := make(map[string]string, len(m))
	for name, v := range m {
		if name != model.MetricNameLabel {
			labels[string(name)] = string(v)
		}
	}
	return labels
}

// sightings are when alerts were first seen of which it is not told when they began. Only the watch uses them.
type sightings map[string]time.Time

// ruleAlerts gives the alerts of the query for triggers. Its value is when each began, in seconds of Unix time; vmalert tells that only
// of alerts that are pending for a while first.
func (a *App) ruleAlerts(ctx context.Context, s *settings) ([]webhook.Alert, error) {
	vector, err := a.triggerQuery(ctx, s, s.config.Prometheus.Queries.Triggers)
	if err != nil {
		return nil, err
	}
	now, sighted := time.Now(), sightings{}
	alerts := make([]webhook.Alert, 0, len(vector))
	for _, sample := range vector {
		labels := labelsOf(sample.Metric)
		alert := webhook.Alert{Status: webhook.Firing, Labels: labels, StartsAt: time.Unix(int64(sample.Value), 0), Fingerprint: webhook.Fingerprint(labels)}
		if sample.Value <= 1 {
			alert.StartsAt = now
			if before, known := a.sighted[alert.Fingerprint]; known {
				alert.StartsAt = before
			}
			sighted[alert.Fingerprint] = alert.StartsAt
		}
		alerts = append(alerts, alert)
	}
	a.sighted = sighted
	return alerts, nil
}

// alike reports whether two triggers are of one alert. Alertmanager's copy of it has more labels than Prometheus's.
func alike(a, b *incident.Trigger) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.Job() == b.Job() && a.Rank == b.Rank && a.Comm == b.Comm && a.Instance == b.Instance
}

// takeUnheard takes triggers that fire in Prometheus and came in no notification: an inhibition rule or a route of the site held
// them back, or Prometheus does not reach Alertmanager. What somebody silenced stays silenced.
func (a *App) takeUnheard(ctx context.Context, firing []incident.Trigger) {
	cfg := a.current.Load().config
	now := time.Now()
	late := slices.DeleteFunc(slices.Clone(firing), func(t incident.Trigger) bool {
		return now.Sub(t.StartedAt) < time.Duration(cfg.Alertmanager.PollInterval) || a.heard(&t) || a.incidents.Past(&t) || coveredByHang(&t, firing)
	})
	if len(late) == 0 {
		return
	}
	// Alertmanager may not answer: then nothing is known to be silenced, and nothing would have been sent.
	list, _ := a.list(ctx, "", notify.Matcher(triggerLabel, triggerValue))
	for _, t := range late {
		at, silenced := a.inList(&t, list)
		if silenced {
			continue
		}
		if at != nil {
			at.TrueAt = t.TrueAt
			t = *at
		}
		if a.heard(&t) { // An HA pair of Prometheus has each alert twice.
			continue
		}
		a.unheard.Inc()
		a.logger.Warn("trigger taken from Prometheus: Alertmanager did not send it", "trigger", t.Name, "job_id", t.Job(), "since", t.StartedAt)
		if err := a.incidents.Receive([]incident.Trigger{t}); err != nil {
			a.logger.Warn("trigger that fires already not taken", "job_id", t.Job(), "err", err)
		}
	}
}

// heard reports whether an incident has the trigger.
func (a *App) heard(t *incident.Trigger) bool {
	inc, open := a.incidents.OpenFor(t.Job())
	return open && slices.ContainsFunc(inc.Triggers, func(o incident.Trigger) bool { return o.Firing() && alike(&o, t) })
}

// coveredByHang reports whether a trigger is one that the shipped inhibition rule holds back: a job that stands still is slow, too.
func coveredByHang(t *incident.Trigger, firing []incident.Trigger) bool {
	return t.Kind != incident.Hang && slices.ContainsFunc(firing, func(o incident.Trigger) bool { return o.Kind == incident.Hang && o.Job() == t.Job() })
}

// inList finds a trigger among what Alertmanager lists, and whether it is silenced there.
func (a *App) inList(t *incident.Trigger, list []notify.Listed) (found *incident.Trigger, silenced bool) {
	for i := range list {
		triggers, _ := a.triggers([]webhook.Alert{firing(&list[i])})
		if len(triggers) == 0 || !alike(&triggers[0], t) {
			continue
		}
		if list[i].Silenced() {
			return nil, true
		}
		found = &triggers[0]
	}
	return found, false
}
