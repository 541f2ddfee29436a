// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/culprit-project/culprit/analyzer/detail"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/stackdump"
	"github.com/culprit-project/culprit/analyzer/page"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// HTML writes the diagnosis as the service's page of an incident, in one file to attach to a ticket.
func HTML(w io.Writer, r *diagnosis.Result) error {
	v := r.Verdict
	v.Missing = notSeen(r)
	inc := incident.Incident{JobID: v.JobID, Verdict: &v, Ranks: rankViews(r), Layout: detail.Layout(&r.Evidence), Flow: detail.StandingFlow(&r.Evidence, &v, nil), Rounds: detail.Rounds(&r.Evidence, &v)}
	for _, c := range stackdump.Clusters(r.Evidence.Ranks) {
		inc.Stacks = append(inc.Stacks, incident.StackGroup{Ranks: c.Ranks, Frames: c.Stack})
	}
	steps := nextSteps(r)
	if v.Action != "" && len(steps) > 0 {
		steps = steps[1:] // The page has it.
	}
	var sources []string
	for _, s := range r.Sources {
		sources = append(sources, fmt.Sprintf("%s (%d): %s", s.Name, s.Files, s.Verdict.Summary))
		sources = append(sources, s.Notes...)
	}
	var more []page.Section
	for _, s := range []page.Section{
		{Title: "Suspects", Items: Suspects(r)},
		{Title: "What else to do", Items: steps},
		{Title: "Compared with the healthy recording", Items: r.Comparison},
		{Title: "Sources", Items: sources},
		{Title: "Where they disagree", Items: r.Disagreements},
		{Title: "Files that were not, or not all, used", Items: unused(r)},
	} {
		if len(s.Items) > 0 {
			more = append(more, s)
		}
	}
	return page.WriteIncident(w, &inc, page.Options{Title: cmp.Or(prefixed("Job ", v.JobID), "Analysis of files"), Alone: true, More: more})
}

func unused(r *diagnosis.Result) []string {
	var out []string
	for _, f := range r.Files {
		if f.Error != "" || f.Warning != "" {
			out = append(out, f.Line())
		}
	}
	return out
}

// rankViews gives the page's grid of ranks.
func rankViews(r *diagnosis.Result) []incident.RankView {
	gpus := map[int]string{}
	for i := range r.Evidence.Ranks {
		gpus[r.Evidence.Ranks[i].ID] = r.Evidence.Ranks[i].GPU
	}
	var out []incident.RankView
	for _, row := range rankRows(r.Evidence, r.Verdict) {
		view := incident.RankView{Rank: row.rank, Host: row.host, GPU: gpus[row.rank], Text: strings.TrimSpace(row.label + " " + row.op)}
		switch {
		case strings.HasPrefix(row.state, "culprit"):
			view.State = "culprit"
		case row.state == "waiting":
			view.State = "stuck"
		case row.state == "missing":
			view.State = "unseen"
		case row.state == string(rca.ProcessGone) || row.state == string(rca.ProcessStopped) || row.state == string(rca.ProcessDisk):
			view.State = row.state
		case row.behind != "":
			view.State = "outside"
		default:
			view.State = "idle"
		}
		out = append(out, view)
	}
	return out
}
