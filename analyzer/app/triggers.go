// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strconv"
	"time"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/webhook"
)

// Triggers gives what a notification's alerts mean. Our own verdicts, should a route send them back, alerts about other
// alerts, and alerts without a job are no triggers; ignored counts the last.
func Triggers(alerts []webhook.Alert, labels config.Labels, now time.Time) (out []incident.Trigger, ignored int) {
	for i := range alerts {
		a := &alerts[i]
		if a.Labels["culprit"] == "verdict" || aboutAlerts(a) {
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

// aboutAlerts reports whether an alert repeats another one. Rules over the series ALERTS, such as kube-prometheus'
// InfoInhibitor, copy the labels of the alert that they are about; they tell nothing of the job.
func aboutAlerts(a *webhook.Alert) bool {
	return a.Labels["alertstate"] != "" || a.Labels["severity"] == "none" || a.Labels["alertname"] == "InfoInhibitor"
}

func trigger(a *webhook.Alert, labels config.Labels, now time.Time) (incident.Trigger, bool) {
	t := incident.Trigger{
		Key:       a.Fingerprint,
		Name:      a.Labels["alertname"],
		JobID:     a.Labels[labels.JobID],
		Rank:      -1,
		Comm:      a.Labels[labels.Comm],
		Instance:  a.Labels[labels.Instance],
		Severity:  a.Labels["severity"],
		Summary:   a.Annotations["summary"],
		Labels:    a.Labels,
		StartedAt: a.StartsAt,
	}
	if t.JobID == "" {
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

// listed turns alerts that Alertmanager lists into those of a notification.
func listed(list []notify.Listed) []webhook.Alert {
	out := make([]webhook.Alert, len(list))
	for i, a := range list {
		out[i] = webhook.Alert{
			Status: webhook.Firing, Labels: a.Labels, Annotations: a.Annotations, StartsAt: a.StartsAt,
			GeneratorURL: a.GeneratorURL, Fingerprint: a.Fingerprint,
		}
	}
	return out
}
