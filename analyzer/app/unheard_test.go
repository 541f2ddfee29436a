// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// fires makes Prometheus have alerts that fire since a minute.
func (c *cluster) fires(alerts ...alert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alerts = nil
	for _, a := range alerts {
		labels := maps.Clone(a.labels)
		labels["__name__"] = "ALERTS_FOR_STATE"
		c.alerts = append(c.alerts, map[string]any{"metric": labels, "value": []any{1, model.TimeFromUnix(time.Now().Add(-time.Minute).Unix()).String()}})
	}
}

// has makes an Alertmanager list an alert, with an external label that Prometheus adds on the way.
func (am *alertmanager) has(a alert, silencedBy ...string) {
	am.mu.Lock()
	defer am.mu.Unlock()
	labels := maps.Clone(a.labels)
	labels["region"] = "north"
	am.firing = append(am.firing, notify.Listed{
		Fingerprint: "of-" + labels["alertname"], Labels: labels, StartsAt: time.Now().Add(-time.Minute), Status: notify.ListedStatus{SilencedBy: silencedBy},
	})
}

// Triggers that no notification brings are taken from Prometheus.
func TestUnheardTriggers(t *testing.T) {
	hang, slow := trouble("CulpritJobStalled"), trouble("CulpritIterationSlow", "kind", "slow")
	other := trouble("CulpritThroughputLow", "kind", "slow", "job_id", "another")
	copied := trouble("Repeated", "alertstate", "firing")
	for _, tc := range []struct {
		name  string
		fires []alert
		lists func(*alertmanager)
		want  []string // Keys of the job's triggers.
	}{
		{"not known to Alertmanager", []alert{hang}, func(*alertmanager) {}, []string{"CulpritJobStalled"}},
		{"held back by a site's rule", []alert{hang}, func(am *alertmanager) { am.has(hang) }, []string{"CulpritJobStalled"}},
		{"silenced", []alert{hang, other}, func(am *alertmanager) { am.has(hang, "a-silence") }, nil},
		{"slow because it stands still", []alert{slow, hang}, func(*alertmanager) {}, []string{"CulpritJobStalled"}},
		{"an alert about an alert", []alert{copied, other}, func(*alertmanager) {}, nil},
		{"twice, from an HA pair", []alert{trouble("CulpritJobStalled", "replica", "a"), trouble("CulpritJobStalled", "replica", "b")}, func(*alertmanager) {}, []string{"CulpritJobStalled"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, am := newCluster(t, 2), newAlertmanager(t)
			c.hang(1, nodeapi.ProcessGone)
			c.fires(tc.fires...)
			tc.lists(am)
			cfg := quick(c, am)
			cfg.Alertmanager.PollInterval = model.Duration(10 * time.Millisecond)
			a := start(t, cfg, "")
			// Where nothing is to be taken, the other job's trigger shows that it was looked for.
			eventually(t, "an incident", func() bool { return len(a.incidents()) > 0 })
			inc, open := a.app.incidents.OpenFor(identity.Job{ID: jobID})
			var got []string
			for _, trigger := range inc.Triggers {
				got = append(got, trigger.Name)
			}
			if open != (tc.want != nil) || !slices.Equal(got, tc.want) {
				t.Errorf("triggers are %v, want %v", got, tc.want)
			}
		})
	}
}

// Where it is not told when an alert began, it counts from when it was first seen.
func TestUnheardTriggerOfVMAlert(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessGone)
	c.fires(trouble("CulpritJobStalled"))
	c.mu.Lock()
	c.alerts[0]["value"] = []any{1, "1"}
	c.mu.Unlock()
	cfg := quick(c, am)
	cfg.Alertmanager.PollInterval = model.Duration(10 * time.Millisecond)
	begin := time.Now()
	a := start(t, cfg, "")
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	if got := a.incidents()[0].Triggers[0].StartedAt; got.Before(begin) {
		t.Errorf("it began at %s, before anybody looked at %s", got, begin)
	}
}

// pagedUnheard has the analyzer page for a trigger that only Prometheus knows.
func pagedUnheard(t *testing.T) (*cluster, *alertmanager, *analyzer) {
	t.Helper()
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessGone)
	c.fires(trouble("CulpritJobStalled"))
	cfg := quick(c, am)
	cfg.Alertmanager.PollInterval = model.Duration(5 * time.Millisecond)
	cfg.Incidents.LostTriggers = model.Duration(20 * time.Millisecond)
	a := start(t, cfg, "")
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	return c, am, a
}

// A trigger from Prometheus is the one that Alertmanager sends later, goes on while either has it, and ends when neither does.
func TestUnheardTriggerIsHeardLater(t *testing.T) {
	c, am, a := pagedUnheard(t)
	asked := func() int {
		am.mu.Lock()
		defer am.mu.Unlock()
		return len(am.asked)
	}
	before := asked()
	eventually(t, "a few looks at Alertmanager, which lists nothing", func() bool { return asked() > before+10 })
	if inc := a.incidents()[0]; inc.State != incident.Open || len(inc.Triggers) != 1 {
		t.Errorf("incident is %s with triggers %+v", inc.State, inc.Triggers)
	}
	if n := testutil.ToFloat64(a.app.unheard); n != 1 {
		t.Errorf("%v unheard triggers, want 1", n)
	}
	c.fires()
	eventually(t, "the end", func() bool { return a.incidents()[0].State == incident.Resolved })
}

// Prometheus gives the last sample of an alert for five minutes where it could not write that the alert ended. That is no new trouble.
func TestUnheardTriggerOfThePast(t *testing.T) {
	c, _, a := pagedUnheard(t)
	c.mu.Lock()
	c.evaluated = time.Now()
	c.mu.Unlock()
	eventually(t, "the end", func() bool { return a.incidents()[0].State == incident.Resolved })
	looks := func() (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, q := range c.queries {
			if strings.Contains(q, "timestamp(ALERTS") {
				n++
			}
		}
		return n
	}
	before := looks()
	eventually(t, "a few looks at Prometheus", func() bool { return looks() > before+5 })
	if got := a.incidents(); len(got) != 1 || got[0].State != incident.Resolved {
		t.Errorf("a trigger of the past opened an incident: %+v", got)
	}
	c.mu.Lock()
	c.evaluated = time.Time{}
	c.mu.Unlock()
	eventually(t, "an incident of what is true now", func() bool {
		_, open := a.app.incidents.OpenFor(identity.Job{ID: jobID})
		return open
	})
}
