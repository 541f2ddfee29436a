// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// ModeBlind is the mode of a report on runs drawn from a seed.
const ModeBlind = "blind"

// Fates writes how many verdicts were right, wider, unknown, missed, or accuse an innocent, with intervals: of each group of
// runs, of each level of evidence, and of all.
func (r *Report) Fates(w io.Writer) error {
	for _, f := range fates(r.Outcomes) {
		if _, err := fmt.Fprintf(w, "  %-10s %3d runs: right %s, wider %s, unknown %s, missed %s, an innocent %s\n", f.of, f.runs,
			f.right, f.wider, f.unknown, f.missed, f.innocent); err != nil {
			return err
		}
	}
	return nil
}

// fate is what became of some runs.
type fate struct {
	of                                      string
	runs                                    int
	right, wider, unknown, missed, innocent Share
}

func fates(all []judge.Outcome) (out []fate) {
	effective := filter(all, func(o *judge.Outcome) bool { return o.Effect })
	add := func(name string, list []judge.Outcome) {
		of := func(fate string) Share { return share(list, func(o *judge.Outcome) bool { return o.Fate() == fate }) }
		if len(list) > 0 {
			out = append(out, fate{name, len(list), of(judge.FateRight), of(judge.FateWider), of(judge.FateUnknown), of(judge.FateMissed), of(judge.FateInnocent)})
		}
	}
	for _, g := range []string{matrix.GroupHang, matrix.GroupSlow, matrix.GroupHealthy, matrix.GroupBenign} {
		add(g, filter(effective, func(o *judge.Outcome) bool { return o.Group == g }))
	}
	for _, l := range cluster.Levels {
		add(string(l), filter(effective, func(o *judge.Outcome) bool { return o.Level == string(l) }))
	}
	add("all", effective)
	return out
}

// drawnSeeds are the seeds that runs beside the matrix were drawn from.
func (r *Report) drawnSeeds() []string {
	seeds, _ := groupBy(r.Drawn, func(o *judge.Outcome) string { return strconv.FormatUint(o.Seed, 10) })
	return seeds
}

// drawnFlag chooses the same drawn runs again.
func (r *Report) drawnFlag() string {
	if len(r.Drawn) == 0 {
		return ""
	}
	return " --blind " + strings.Join(r.drawnSeeds(), ",")
}

// drawn tells how verdicts fare on jobs and faults that nobody chose, if any were run beside the matrix.
func (r *Report) drawn() []table {
	if len(r.Drawn) == 0 {
		return nil
	}
	t := table{
		title: "Drawn jobs",
		note: "Jobs, hosts, step times, faults, their places, times and severities, levels of evidence, scrape intervals and losses drawn from the seeds " + strings.Join(r.drawnSeeds(), ", ") +
			", and judged by the first verdict that pages. Nothing above or below counts them.",
		head: []string{"", "runs", "right", "wider", "unknown", "missed", "an innocent"},
	}
	for _, f := range fates(r.Drawn) {
		t.rows = append(t.rows, []string{f.of, strconv.Itoa(f.runs), f.right.String(), f.wider.String(), f.unknown.String(), f.missed.String(), f.innocent.String()})
	}
	return []table{t}
}
