// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// kinds are what triggers tell of.
var kinds = map[string]bool{"hang": true, "slow": true, "start": true}

// known are the series that Prometheus makes itself, with the labels they have here.
var known = Catalogue{
	"up":                      {Type: "gauge", Labels: map[string]map[string]bool{}},
	"scrape_duration_seconds": {Type: "gauge", Labels: map[string]map[string]bool{}},
	"scrape_samples_scraped":  {Type: "gauge", Labels: map[string]map[string]bool{}},
	"ALERTS": {Type: "gauge", Labels: map[string]map[string]bool{
		"alertname": nil, "job_id": nil, "owner": nil,
		"alertstate": {"firing": true, "pending": true},
		"culprit":    {"trigger": true, "health": true, "ticket": true},
		"severity":   {"critical": true, "warning": true, "info": true, "none": true},
		"kind":       kinds,
	}},
}

// targetLabels are on every scraped series.
var targetLabels = []string{"job", "instance", "le"}

// Parse parses an expression as Grafana would send it: its own variables are replaced by values of their kind.
func Parse(expr string) (parser.Expr, error) {
	expr = strings.NewReplacer("$__rate_interval", "1m", "$__interval", "15s", "$__range", "1h").Replace(expr)
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("parsing %q: %w", expr, err)
	}
	return parsed, nil
}

// Undocumented lists what an expression names that the catalogue does not have: metrics, labels and label values.
func Undocumented(expr parser.Expr, catalogue Catalogue) []string {
	var out []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		metric, ok := catalogue.Find(selector.Name)
		if !ok {
			metric, ok = known[selector.Name]
		}
		if !ok {
			out = append(out, fmt.Sprintf("metric %q", selector.Name))
			return nil
		}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name == model.MetricNameLabel || slices.Contains(targetLabels, matcher.Name) {
				continue
			}
			allowed, ok := metric.Labels[matcher.Name]
			if !ok {
				out = append(out, fmt.Sprintf("label %q of %s", matcher.Name, selector.Name))
				continue
			}
			if len(allowed) == 0 || strings.Contains(matcher.Value, "$") {
				continue
			}
			for value := range strings.SplitSeq(matcher.Value, "|") {
				if !allowed[value] {
					out = append(out, fmt.Sprintf("value %q of label %q of %s", value, matcher.Name, selector.Name))
				}
			}
		}
		return nil
	})
	return out
}

// AveragesRanks tells whether an expression takes a mean over series: one slow rank among many would vanish in it.
func AveragesRanks(expr parser.Expr) bool {
	found := false
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok && aggregate.Op == parser.AVG {
			found = true
		}
		return nil
	})
	return found
}
