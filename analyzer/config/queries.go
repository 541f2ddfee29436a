// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/prometheus/common/model"
)

// narrow adds matchers wherever a query takes some: those of match, and those that say whose series it reads.
func (q *Queries) narrow(match map[string]string, exporters, recorded string) {
	var scope []string
	for _, name := range slices.Sorted(maps.Keys(match)) {
		scope = append(scope, fmt.Sprintf("%s=%q", name, match[name]))
	}
	ofRules := []*string{&q.Triggers, &q.Evaluated, &q.Slowdown, &q.LongestWait, &q.LongestPause}
	for _, text := range q.all() {
		whose := exporters
		if slices.Contains(ofRules, text) {
			whose = recorded
		}
		matchers := slices.DeleteFunc(append(slices.Clone(scope), whose), func(m string) bool { return m == "" })
		if len(matchers) > 0 {
			more := fmt.Sprintf("{{ %q -}}", ","+strings.Join(matchers, ","))
			*text = selectorPattern.ReplaceAllStringFunc(*text, func(action string) string { return action + more })
		}
	}
}

var selectorPattern = regexp.MustCompile(`\{\{-?\s*\.Selector\s*-?\}\}`)

// all gives the queries by their names in the file.
func (q *Queries) all() map[string]*string {
	return map[string]*string{
		"triggers": &q.Triggers, "evaluated": &q.Evaluated, "processes": &q.Processes, "comms": &q.Comms, "up": &q.Up, "exporters": &q.Exporters, "ages": &q.Ages,
		"stalled": &q.Stalled, "calls": &q.Calls, "started": &q.Started, "completed": &q.Completed, "pace": &q.Pace, "waits": &q.Waits,
		"kernels": &q.Kernels, "run_delay": &q.RunDelay, "slowdown": &q.Slowdown, "longest_wait": &q.LongestWait, "longest_pause": &q.LongestPause,
	}
}

// Query fills a query template with label matchers.
func Query(text, selector string) (string, error) { return fill(text, queryFields{Selector: selector}) }

// QueryBefore fills a query template with label matchers and a window for rates, for a time so long ago.
func QueryBefore(text, selector string, rate, ago time.Duration) (string, error) {
	f := queryFields{Selector: selector, Rate: model.Duration(rate).String()}
	if ago > 0 {
		f.Offset = " offset " + model.Duration(ago).String()
	}
	return fill(text, f)
}

// QueryOver fills a query template with label matchers and a range of time that ends now.
func QueryOver(text, selector string, window time.Duration) (string, error) {
	return fill(text, queryFields{Selector: selector, Window: model.Duration(window.Truncate(time.Second)).String()})
}

// parses reports what is wrong with a query template, or with the PromQL that it gives. MetricsQL has all of PromQL, and some servers have
// MetricsQL.
func parses(text string) error {
	query, err := fill(text, queryFields{Selector: `x="y"`, Rate: "1m", Offset: " offset 1h", Window: "1m"})
	if err == nil {
		_, err = metricsql.Parse(query)
	}
	return err
}

type queryFields struct{ Selector, Rate, Offset, Window string }

func fill(text string, fields queryFields) (string, error) {
	t, err := template.New("query").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, fields); err != nil {
		return "", err
	}
	return b.String(), nil
}

// addressPattern is what a label may put into an address: names and numbers of hosts and ports. A process chooses some of its
// labels, and must not choose what is asked for, nor from whom by more than its name. The instance is Prometheus's: behind a
// proxy it may have a path.
var (
	addressPattern  = regexp.MustCompile(`^[A-Za-z0-9_.:\[\]-]*$`)
	instancePattern = regexp.MustCompile(`^[A-Za-z0-9_.:\[\]-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$`)
)

// Exporter gives whether labels of a target are as exporter_selector has them.
func (p *Prometheus) Exporter() func(labels map[string]string) bool {
	parsed, _ := metricsql.Parse("{" + p.ExporterSelector + "}") // Check has looked at it.
	of, ok := parsed.(*metricsql.MetricExpr)
	if !ok || len(of.LabelFilterss) == 0 {
		return func(map[string]string) bool { return true }
	}
	filters := of.LabelFilterss[0]
	patterns := make([]*regexp.Regexp, len(filters))
	for i := range filters {
		text := filters[i].Value
		if !filters[i].IsRegexp {
			text = regexp.QuoteMeta(text)
		}
		patterns[i] = regexp.MustCompile("^(?s:" + text + ")$") // As metricsql has compiled it.
	}
	return func(labels map[string]string) bool {
		for i := range filters {
			if patterns[i].MatchString(labels[filters[i].Label]) == filters[i].IsNegative {
				return false
			}
		}
		return true
	}
}
