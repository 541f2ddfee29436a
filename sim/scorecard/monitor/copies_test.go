// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/app"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/deploy/alertmanager"
)

// A rule over ALERTS, as kube-prometheus-stack's InfoInhibitor is one, copies the labels of a trigger. Where the analyzer asks Prometheus for
// the triggers that fire, their copies are known by the state that ALERTS_FOR_STATE keeps of them; ALERTS does not.
func TestCopiesOfTriggersAreNone(t *testing.T) {
	const copies = `
      - alert: InfoInhibitor
        expr: ALERTS{severity=~"info|none", alertname!="InfoInhibitor"} == 1
        labels: {severity: none}
`
	m, err := New(Options{
		Scrape: 5 * time.Second, Rules: []byte(ruleFile + copies), Alertmanager: alertmanager.Config,
		Deliver: func(*webhook.Message) error { return nil },
	}, []Target{&well{depth: 30}}, time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	end := time.Unix(1030, 0)
	pass(t, m, end)
	query, err := config.Query(config.Default().Prometheus.Queries.Triggers, `culprit="trigger"`)
	if err != nil {
		t.Fatal(err)
	}
	v, _, _, err := m.Queries(func() time.Time { return end }, nil).Query(t.Context(), query, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var alerts []webhook.Alert
	copied := false
	for _, s := range v.(model.Vector) {
		a := webhook.Alert{Labels: map[string]string{}}
		for name, value := range s.Metric {
			a.Labels[string(name)] = string(value)
		}
		copied = copied || a.Labels["alertname"] == "InfoInhibitor"
		alerts = append(alerts, a)
	}
	if triggers, _ := app.Triggers(alerts, config.Default().Labels, end); len(triggers) != 1 || triggers[0].Name != "Deep" || !copied {
		t.Errorf("triggers are %+v, want Deep alone; asked %s: %v", triggers, query, v)
	}
}
