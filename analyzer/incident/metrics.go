// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/analyzer/rca"
)

type metrics struct {
	duration prometheus.Histogram
	verdicts *prometheus.CounterVec
	panics   prometheus.Counter
	refused  *prometheus.CounterVec
}

var (
	incidentsDesc = prometheus.NewDesc("culprit_analyzer_incidents",
		"Incidents held, by state.", []string{"state"}, nil)
	quarantineDesc = prometheus.NewDesc("culprit_analyzer_quarantined_incidents",
		"Open incidents that are not analysed any more because their analysis crashed too often.", nil, nil)
	unwrittenDesc = prometheus.NewDesc("culprit_analyzer_storage_failing",
		"1 while incidents cannot be stored; they are tried again.", nil, nil)
	queueDesc = prometheus.NewDesc("culprit_analyzer_queue_length",
		"Analyses waiting for a worker.", nil, nil)
)

// maxVerdictSeries bounds the series of one incident's culprits.
const maxVerdictSeries = 64

func newMetrics(reg prometheus.Registerer, m *Manager) *metrics {
	out := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                            "culprit_analyzer_analysis_duration_seconds",
			Help:                            "Time of one analysis, from asking for evidence to the verdict.",
			Buckets:                         []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "culprit_analyzer_verdicts_total",
			Help: "Verdicts reached, by class. The same verdict found again does not count.",
		}, []string{"class"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "culprit_analyzer_triggers_refused_total",
			Help: "Triggers that were refused or cut, by the limit that they exceeded.",
		}, []string{"reason"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "culprit_analyzer_analysis_panics_total",
			Help: "Analyses that crashed. The log has the stack; the incident is analysed again.",
		}),
	}
	for _, c := range []rca.Class{
		rca.NotEntered, rca.Inconsistent, rca.Fault, rca.SlowCompute, rca.SlowComm, rca.SlowMixed, rca.Imbalance,
		rca.GlobalSlow, rca.Benign, rca.Healthy, rca.Unknown,
	} {
		out.verdicts.WithLabelValues(string(c))
	}
	for _, reason := range []string{"incidents", "triggers", "labels", "names", "past"} {
		out.refused.WithLabelValues(reason)
	}
	reg.MustRegister(out.duration, out.verdicts, out.panics, out.refused, newCollector(m))
	return out
}

// collector shows incidents as series. Those of verdicts have the labels that a job's identity consists of.
type collector struct {
	m                   *Manager
	jobLabels           []string
	verdict, confidence *prometheus.Desc
}

func newCollector(m *Manager) collector {
	labels := slices.Clone(m.opt.JobLabels)
	return collector{
		m: m, jobLabels: labels,
		verdict: prometheus.NewDesc("culprit_verdict_info",
			"Verdicts of open incidents, one series a culprit; the rank is empty where none is meant.",
			append([]string{"incident", "job_id", "class", "cause", "rank", "host", "gpu", "paged"}, labels...), nil),
		confidence: prometheus.NewDesc("culprit_verdict_confidence_ratio",
			"Probability that the class and the culprits of an open incident's verdict are right.",
			append([]string{"incident", "job_id"}, labels...), nil),
	}
}

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.verdict
	ch <- c.confidence
	ch <- incidentsDesc
	ch <- queueDesc
	ch <- quarantineDesc
	ch <- unwrittenDesc
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	now, queued, quarantined := c.m.clock.Now(), 0, 0
	for _, e := range c.m.openJob {
		if e.quarantined() {
			quarantined++
		} else if !e.running && !e.due.IsZero() && !e.due.After(now) {
			queued++
		}
		if e.Verdict != nil {
			c.collectVerdict(ch, e)
		}
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(incidentsDesc, len(c.m.openJob), string(Open))
	gauge(incidentsDesc, len(c.m.entries)-len(c.m.openJob), string(Resolved))
	gauge(queueDesc, queued)
	gauge(quarantineDesc, quarantined)
	failing := 0
	if c.m.store != nil && c.m.store.Failed() != nil {
		failing = 1
	}
	gauge(unwrittenDesc, failing)
}

func (c *collector) collectVerdict(ch chan<- prometheus.Metric, e *entry) {
	v := e.Verdict
	var scope []string
	for _, name := range c.jobLabels {
		scope = append(scope, e.JobLabels[name])
	}
	ch <- prometheus.MustNewConstMetric(c.confidence, prometheus.GaugeValue, v.Confidence, append([]string{e.ID, e.JobID}, scope...)...)
	culprits := v.Culprits
	if len(culprits) == 0 {
		culprits = []rca.Culprit{{Rank: -1}}
	}
	seen := map[[3]string]bool{}
	for _, accused := range culprits[:min(len(culprits), maxVerdictSeries)] {
		place := [3]string{"", accused.Host, accused.GPU}
		if accused.Rank >= 0 {
			place[0] = strconv.Itoa(accused.Rank)
		}
		if seen[place] {
			continue
		}
		seen[place] = true
		ch <- prometheus.MustNewConstMetric(c.verdict, prometheus.GaugeValue, 1,
			append([]string{e.ID, e.JobID, string(v.Class), string(v.Cause), place[0], place[1], place[2], strconv.FormatBool(v.Page)}, scope...)...)
	}
}

func (m *Manager) logVerdict(e *entry, v *rca.Verdict, a *Analysis) {
	level := slog.LevelInfo
	if v.Page {
		level = slog.LevelWarn
	}
	var ranks, hosts []string
	for _, c := range v.Culprits {
		ranks = append(ranks, strconv.Itoa(c.Rank))
		hosts = append(hosts, c.Host)
	}
	m.logger.Log(context.Background(), level, "verdict", "incident", e.ID, "job_id", e.Job(), "class", v.Class, "cause", v.Cause,
		"rank", strings.Join(ranks, ","), "host", strings.Join(hosts, ","), "confidence", v.Confidence, "page", v.Page,
		"summary", v.Summary, "missing", len(v.Missing), "nodes_asked", a.Asked, "seconds", a.Seconds)
}
