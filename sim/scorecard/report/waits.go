// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// matrixScrape is the interval, in seconds, of runs that name none.
const matrixScrape = 5

// waited is one kind of fault under one scrape interval at one level of evidence.
type waited struct {
	scrape float64
	level  int // In cluster.Levels.
	class  int // In the order of told.
}

// toldClasses are the classes of faults, in the order of the table.
var toldClasses = []rca.Class{rca.NotEntered, rca.Inconsistent, rca.Fault, rca.SlowCompute, rca.SlowComm, rca.SlowMixed}

// waits is how long a person waits for the trigger, for the name and for the page: empty without runs at other scrape intervals.
func (r *Report) waits() []table {
	if len(r.Scraped) == 0 {
		return nil
	}
	names, _ := groupBy(r.Scraped, func(o *judge.Outcome) string { return o.Workload })
	runs := filter(append(slices.Clip(r.Scraped), r.Outcomes...), func(o *judge.Outcome) bool {
		return o.Effect && o.Guilty() && slices.Contains(names, o.Workload)
	})
	byKind := map[waited][]judge.Outcome{}
	for i := range runs {
		o := &runs[i]
		k := waited{
			scrape: cmp.Or(o.Scrape, matrixScrape), level: slices.Index(cluster.Levels, cluster.Level(o.Level)),
			class: slices.Index(toldClasses, rca.Class(o.TruthClass)),
		}
		byKind[k] = append(byKind[k], *o)
	}
	t := table{
		title: "What a person waits for, by scrape interval",
		note: "Jobs of " + levelNames(names) + ", seconds from the fault: until a trigger tells the analyzer, until the first verdict that accuses, and until the page; p50 / p90 / max, each beside the number of its runs. " +
			"No trigger tells of a fault while an incident of before is open: such runs have no time told. " +
			"Scrapes, rule evaluation, Alertmanager's grouping, the service's patience and what its analyses take are in them. A living rank that stays away pages after its patience of 30 s; " +
			"slowness needs its iterations. Mycroft: 13 s, 90% within 15 s; Holmes: 30.3 s at 8,192 ranks.",
		head: []string{"scrape", "level", "class", "right", "told", "told of", "named", "paged", "pages"},
	}
	kinds := make([]waited, 0, len(byKind))
	for k := range byKind {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b waited) int {
		return cmp.Or(cmp.Compare(a.scrape, b.scrape), cmp.Compare(a.level, b.level), cmp.Compare(a.class, b.class))
	})
	for _, k := range kinds {
		t.rows = append(t.rows, waitRow(k, byKind[k]))
	}
	return []table{t}
}

func waitRow(k waited, list []judge.Outcome) []string {
	class := "other"
	if k.class >= 0 {
		class = string(toldClasses[k.class])
	}
	told := filter(list, (*judge.Outcome).ToldAnew)
	named := filter(list, func(o *judge.Outcome) bool { return o.Triggered && o.Accuses() })
	paged := filter(list, func(o *judge.Outcome) bool { return o.Paged > 0 })
	return []string{
		fmt.Sprintf("%g s", k.scrape), string(cluster.Levels[k.level]), class,
		share(list, func(o *judge.Outcome) bool { return o.Right && !o.False }).Short(),
		spread(told, func(o *judge.Outcome) float64 { return o.Told }), strconv.Itoa(len(told)),
		spread(named, func(o *judge.Outcome) float64 { return o.Latency + o.AnalysisMS/1000 }),
		spread(paged, func(o *judge.Outcome) float64 { return o.Paged + o.AnalysisMS/1000 }), strconv.Itoa(len(paged)),
	}
}

// spread gives the median, the ninth decile and the largest of a time.
func spread(list []judge.Outcome, of func(*judge.Outcome) float64) string {
	if len(list) == 0 {
		return "–"
	}
	v := collect(list, of)
	return fmt.Sprintf("%.1f / %.1f / %.1f s", percentile(v, 0.5), percentile(v, 0.9), slices.Max(v))
}
