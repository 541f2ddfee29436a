// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/webhook"
)

// What all triggers carry, besides their kind.
const (
	triggerLabel = "culprit"
	triggerValue = "trigger"
	kindLabel    = "kind"
)

// triggers gives what alerts mean, each with the owner of its job.
func (a *App) triggers(alerts []webhook.Alert) (out []incident.Trigger, ignored int) {
	out, ignored = Triggers(alerts, a.current.Load().config.Labels, time.Now())
	for i := range out {
		out[i].JobLabels = a.whose(out[i].Job()).Labels()
	}
	return out, ignored
}

// whose completes the identity of a job that was named without its owner, as by rules of a site's own: where Prometheus knows one job of
// that name, it is that. An incident that was opened for all jobs of the name stays theirs.
func (a *App) whose(job identity.Job) identity.Job {
	s := a.current.Load()
	if job.Owner() != "" || !slices.Contains(s.config.Prometheus.JobLabels, identity.OwnerLabel) {
		return job
	}
	if _, open := a.incidents.OpenFor(job); open {
		return job
	}
	if owners := s.diagnoser.Gatherer.Directory.Owners(job); len(owners) == 1 {
		return job.OwnedBy(owners[0])
	}
	return job
}

// Triggers gives what a notification's alerts mean. Only alerts with the labels of a trigger are one, and not those that repeat
// another alert or that are of another cluster. ignored counts triggers without a job or a kind.
func Triggers(alerts []webhook.Alert, labels config.Labels, now time.Time) (out []incident.Trigger, ignored int) {
	for i := range alerts {
		a := &alerts[i]
		if a.Labels[triggerLabel] != triggerValue || repeats(a) || !labels.Matches(a.Labels) {
			continue
		}
		t, ok := trigger(a, labels, now)
		if !ok {
			ignored++
			continue
		}
		out = append(out, t)
	}
	return out, ignored
}

// repeats reports whether an alert is about another one. Rules over the series ALERTS, such as kube-prometheus-stack's
// InfoInhibitor, copy the labels of the alert that they are about, its state among them; they tell nothing of the job.
func repeats(a *webhook.Alert) bool { return a.Labels["alertstate"] != "" }

var kinds = []incident.Kind{incident.Hang, incident.Slow, incident.Start}

func trigger(a *webhook.Alert, labels config.Labels, now time.Time) (incident.Trigger, bool) {
	t := incident.Trigger{
		Key:       a.Fingerprint,
		Name:      a.Labels["alertname"],
		JobID:     a.Labels[labels.JobID],
		JobLabels: identity.Pick(labels.Further(), a.Labels),
		Rank:      -1,
		Comm:      a.Labels[labels.Comm],
		Instance:  a.Labels[labels.Instance],
		Kind:      incident.Kind(a.Labels[kindLabel]),
		Severity:  a.Labels["severity"],
		Summary:   a.Annotations["summary"],
		Labels:    a.Labels,
		StartedAt: a.StartsAt,
	}
	if t.JobID == "" || !slices.Contains(kinds, t.Kind) {
		return t, false
	}
	if rank, err := strconv.Atoi(a.Labels[labels.Rank]); err == nil && rank >= 0 {
		t.Rank = rank
	}
	if t.StartedAt.IsZero() {
		t.StartedAt = now
	}
	if a.Status == webhook.Resolved {
		ended := a.EndsAt
		t.EndedAt = &ended
	}
	return t, true
}

// listed turns alerts that Alertmanager lists into those of a notification. Silenced ones are in none.
func listed(list []notify.Listed) []webhook.Alert {
	out := make([]webhook.Alert, 0, len(list))
	for i := range list {
		if !list[i].Silenced() {
			out = append(out, firing(&list[i]))
		}
	}
	return out
}

func firing(a *notify.Listed) webhook.Alert {
	return webhook.Alert{
		Status: webhook.Firing, Labels: a.Labels, Annotations: a.Annotations, StartsAt: a.StartsAt,
		GeneratorURL: a.GeneratorURL, Fingerprint: a.Fingerprint,
	}
}
