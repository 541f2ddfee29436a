// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v2"

	"github.com/culprit-project/culprit/analyzer/webhook"
)

// route is when Alertmanager passes alerts of a group on.
type route struct{ wait, interval, repeat time.Duration }

// triggerRoute reads the route that takes alerts to the analyzer from a configuration of Alertmanager.
func triggerRoute(config []byte) (route, error) {
	var c struct {
		Route struct {
			Routes []struct {
				Receiver string         `yaml:"receiver"`
				Wait     model.Duration `yaml:"group_wait"`
				Interval model.Duration `yaml:"group_interval"`
				Repeat   model.Duration `yaml:"repeat_interval"`
			} `yaml:"routes"`
		} `yaml:"route"`
	}
	if err := yaml.Unmarshal(config, &c); err != nil {
		return route{}, fmt.Errorf("reading the configuration of Alertmanager: %w", err)
	}
	for _, r := range c.Route.Routes {
		if r.Receiver == "culprit-analyzer" {
			return route{time.Duration(r.Wait), time.Duration(r.Interval), time.Duration(r.Repeat)}, nil
		}
	}
	return route{}, fmt.Errorf("reading the configuration of Alertmanager: no route to culprit-analyzer")
}

// grouping groups alerts by job, as the route says. There is one job: there is one group.
type grouping struct {
	route
	alerts  []*webhook.Alert
	next    time.Time // Of the group's timer; zero: there is no group.
	told    []string  // What the last notification said,
	toldAt  time.Time // and when it was sent.
	deliver func(*webhook.Message) error
}

// take accepts what Prometheus sends at a time.
func (a *grouping) take(at time.Time, sent []*rules.Alert) {
	for _, s := range sent {
		set := map[string]string{}
		s.Labels.Range(func(l labels.Label) { set[l.Name] = l.Value })
		notes := map[string]string{}
		s.Annotations.Range(func(l labels.Label) { notes[l.Name] = l.Value })
		n := &webhook.Alert{Labels: set, Annotations: notes, StartsAt: s.FiredAt, EndsAt: s.ValidUntil, Fingerprint: webhook.Fingerprint(set)}
		if !s.ResolvedAt.IsZero() {
			n.EndsAt = s.ResolvedAt
		}
		if i := slices.IndexFunc(a.alerts, func(o *webhook.Alert) bool { return o.Fingerprint == n.Fingerprint }); i >= 0 {
			a.alerts[i] = n
		} else {
			a.alerts = append(a.alerts, n)
		}
		if a.next.IsZero() {
			a.next = at.Add(a.wait)
		}
	}
}

// flush is what happens when the group's timer goes off.
func (a *grouping) flush(at time.Time) error {
	m := &webhook.Message{Version: webhook.Version, Receiver: "culprit-analyzer", Status: webhook.Resolved}
	var says []string
	fresh := false
	for _, o := range a.alerts {
		n := *o
		n.Status = webhook.Firing
		if !n.EndsAt.After(at) {
			n.Status = webhook.Resolved
		} else {
			n.EndsAt = time.Time{}
			m.Status = webhook.Firing
		}
		word := n.Fingerprint + n.Status
		if n.Status == webhook.Firing || slices.Contains(a.told, n.Fingerprint+webhook.Firing) {
			fresh = fresh || !slices.Contains(a.told, word)
		}
		says = append(says, word)
		m.Alerts = append(m.Alerts, n)
	}
	a.next = at.Add(a.interval)
	a.alerts = slices.DeleteFunc(a.alerts, func(o *webhook.Alert) bool { return !o.EndsAt.After(at) })
	if len(a.alerts) == 0 {
		a.next = time.Time{}
	}
	if !fresh && at.Sub(a.toldAt) < a.repeat {
		return nil
	}
	a.told, a.toldAt = says, at
	return a.deliver(m)
}
