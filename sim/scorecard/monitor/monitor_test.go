// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/deploy/alertmanager"
)

const ruleFile = `groups:
  - name: test
    interval: 1s
    rules:
      - record: job_id:depth:max
        expr: max by (job_id) (depth)
      - alert: Deep
        expr: job_id:depth:max > 10
        labels: {culprit: trigger, kind: slow, severity: none}
`

// well is an exporter of one gauge.
type well struct {
	depth float64 // Below 0: it does not answer.
}

var depthDesc = prometheus.NewDesc("depth", "How deep it is.", []string{"job_id", "rank"}, nil)

func (w *well) Name() string { return "well" }

func (w *well) Collect(emit func(prometheus.Metric)) error {
	if w.depth < 0 {
		return errors.New("no answer")
	}
	emit(prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, w.depth, "job", "0"))
	return nil
}

// watch watches the well from the beginning on; what is delivered is appended.
func watch(t *testing.T, w *well, to *[]*webhook.Message) *Monitor {
	t.Helper()
	m, err := New(Options{
		Scrape: 5 * time.Second, Rules: []byte(ruleFile), Alertmanager: alertmanager.Config,
		Deliver: func(m *webhook.Message) error {
			*to = append(*to, m)
			return nil
		},
	}, []Target{w}, time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pass lets time pass.
func pass(t *testing.T, m *Monitor, until time.Time) {
	t.Helper()
	for !m.Next().After(until) {
		if err := m.Handle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// An alert comes after scrape, evaluation and the route's group_wait, is not repeated while nothing changes, and its end is told.
func TestAlertTakesItsWay(t *testing.T) {
	w := &well{depth: 3}
	var told []*webhook.Message
	m := watch(t, w, &told)
	pass(t, m, time.Unix(1010, 0))
	if len(told) > 0 {
		t.Fatalf("told of %+v while all is well", told[0])
	}
	w.depth = 30
	pass(t, m, time.Unix(1030, 0))
	if len(told) != 1 || told[0].Status != webhook.Firing || told[0].Alerts[0].Labels["alertname"] != "Deep" || told[0].Alerts[0].Labels["job_id"] != "job" {
		t.Fatalf("told %d times: %+v", len(told), told)
	}
	// Scrapes are 5 s apart, evaluations 1 s, and the route waits half a second.
	if at := told[0].Alerts[0].StartsAt.Sub(time.Unix(1010, 0)); at <= 0 || at > 6*time.Second {
		t.Errorf("it fires %v after the change", at)
	}
	w.depth = 3
	pass(t, m, time.Unix(1050, 0))
	if len(told) != 2 || told[1].Status != webhook.Resolved || told[1].Alerts[0].Status != webhook.Resolved || told[1].Alerts[0].Fingerprint != told[0].Alerts[0].Fingerprint {
		t.Fatalf("told %d times; last %+v", len(told), told[len(told)-1])
	}
}

// A series of an exporter that does not answer ends at once, and up says so; its past can be asked for; a view without the exporter
// never had it.
func TestSeriesEndWithTheirExporter(t *testing.T) {
	w := &well{depth: 3}
	var told []*webhook.Message
	m := watch(t, w, &told)
	pass(t, m, time.Unix(1020, 0))
	w.depth = -1
	pass(t, m, time.Unix(1030, 0))
	now := func() time.Time { return time.Unix(1030, 0) }
	hidden := func(instance string) bool { return instance == "well" }
	for _, c := range []struct {
		query  string
		hidden func(string) bool
		want   []float64
	}{
		{"depth", nil, nil},
		{"up", nil, []float64{0}},
		{"max_over_time(depth[1m])", nil, []float64{3}},
		{"depth offset 15s", nil, []float64{3}},
		{`depth{job_id=~"j.*",instance="well"} offset 15s`, nil, []float64{3}},
		{"max_over_time(depth[1m])", hidden, nil},
	} {
		v, _, _, err := m.Queries(now, c.hidden).Query(t.Context(), c.query, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, s := range v.(model.Vector) {
			got = append(got, float64(s.Value))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s gives %v, want %v", c.query, got, c.want)
		}
	}
	if _, _, _, err := m.Queries(now, nil).Query(t.Context(), "depth{", time.Time{}); err == nil {
		t.Error("a query that cannot be read is answered")
	}
}

// What is wrong with the files is said when they are loaded.
func TestBadFiles(t *testing.T) {
	for name, o := range map[string]Options{
		"rules":        {Rules: []byte("groups: [{name: x, rules: [{alert: a, expr: 'sum('}]}]"), Alertmanager: alertmanager.Config},
		"alertmanager": {Rules: []byte(ruleFile), Alertmanager: []byte("route: {receiver: x}")},
	} {
		o.Scrape = time.Second
		if _, err := New(o, []Target{&well{}}, time.Unix(1000, 0)); err == nil {
			t.Errorf("bad %s are taken", name)
		}
	}
}
