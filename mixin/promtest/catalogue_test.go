// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"slices"
	"strings"
	"testing"
)

const reference = "## exporter\n\nPer process (labels `job_id`, `rank`):\n\n" +
	"| metric | type | further labels | meaning |\n|---|---|---|---|\n" +
	"| `x_steps_total` | counter | `stage`: posted, done | steps |\n" +
	"| `x_iteration_seconds` | histogram | | time |\n" +
	"\n## analyzer\n\n" +
	"| metric | type | labels | meaning |\n|---|---|---|---|\n" +
	"| `x_requests_total` | counter | `source`: a, b; `outcome`: ok, error | |\n"

func TestUndocumented(t *testing.T) {
	names, err := ReadCatalogue(strings.NewReader(reference))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, expr string
		want       []string
	}{
		{"documented", `sum by (rank) (rate(x_steps_total{job_id="1", stage="done", instance="a"}[1m]))`, nil},
		{"series of a histogram", `x_iteration_seconds_bucket{le="1"}`, nil},
		{"suffix of no histogram", `x_steps_total_bucket`, []string{`metric "x_steps_total_bucket"`}},
		{"unknown metric", `x_nothing + x_steps_total`, []string{`metric "x_nothing"`}},
		{"unknown label", `x_steps_total{peer="1"}`, []string{`label "peer" of x_steps_total`}},
		{"unknown value", `x_steps_total{stage=~"done|sent"}`, []string{`value "sent" of label "stage" of x_steps_total`}},
		{"second label of a cell", `x_requests_total{outcome="error"}`, nil},
		{"labels end with the section", `x_requests_total{rank="1"}`, []string{`label "rank" of x_requests_total`}},
		{"variable of a dashboard", `x_steps_total{stage=~"$stage"}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			expr, err := Parse(c.expr)
			if err != nil {
				t.Fatal(err)
			}
			if got := Undocumented(expr, names); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAveragesRanks(t *testing.T) {
	for expr, want := range map[string]bool{
		`avg by (job_id) (x)`:              true,
		`max(x) - avg(x)`:                  true,
		`max by (job_id) (x)`:              false,
		`avg_over_time(x[5m])`:             false,
		`quantile(0.5, sum by (rank) (x))`: false,
	} {
		parsed, err := Parse(expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := AveragesRanks(parsed); got != want {
			t.Errorf("%s: got %v", expr, got)
		}
	}
}

func TestCatalogueRefusesShortRows(t *testing.T) {
	if _, err := ReadCatalogue(strings.NewReader("| `x` | counter |\n")); err == nil {
		t.Error("a row without meaning was taken")
	}
}
