// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/common/version"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/jobs"
	"github.com/culprit-project/culprit/analyzer/layout"
)

type jobData struct {
	frame
	J         *jobs.Job
	State     string
	Claimed   string
	Iteration string
	Layout    string
	Grid      *Grid
	Places    *Grid
	Functions []functionRow
	Parallel  []parallelRow
	DataTime  string
	Transfers []transferRow
	Of        string // Whose transfers they are.
	Comms     []commRow
	Late      []shareRow
	LateNone  string // Why nobody is listed as late.
	Still     bool   // No rank moves: what is measured over a while is of before.
	Open      *incident.Incident
	Quiet     bool // The open incident paged nobody.
	Past      []incident.Incident
	Links     []Link
}

type functionRow struct{ Name, Ops, Bytes, Seconds, Bandwidth, Bus string }

type parallelRow struct{ Kind, Names, Mean, Share, Least string }

type transferRow struct{ Comm, Function, Ranks, Size, Ops, Took, Bus string }

type commRow struct {
	Name         string
	Number, Size int
	Span         string
}

type shareRow struct{ Who, URL, Inside, Below string }

// mostPast bounds the incidents that the page of a job lists.
const mostPast = 10

// WriteJob writes the page of a running job; all are the incidents that there are.
func WriteJob(w io.Writer, j *jobs.Job, all []incident.Incident, o Options) error {
	d := jobData{
		frame: frame{Title: "Job " + j.ID.String(), Version: version.Version, Base: "./", Poll: pollSeconds, Warning: o.Warning},
		J:     j, State: coverage(j), Claimed: claimed(j), Grid: newGrid(j.Ranks, nil), Links: o.Links,
	}
	for i := range all {
		inc := &all[i]
		switch {
		case inc.Job() != j.ID:
		case inc.State == incident.Open && d.Open == nil:
			d.Open, d.Quiet = inc, severity(inc) == "none"
		case len(d.Past) < mostPast:
			d.Past = append(d.Past, *inc)
		}
	}
	d.Still = still(j, d.Open)
	d.Iteration = iteration(j, d.Open, d.Still)
	if j.Layout != nil {
		d.Layout, d.Places = layoutText(j.Layout), layoutGrid(j.Layout, j.Ranks, nil)
	}
	for _, f := range j.Functions {
		row := functionRow{Name: f.Name, Ops: decimal(f.Ops), Bytes: size(int64(f.Bytes)), Seconds: seconds(f.Seconds)}
		if f.Bandwidth > 0 {
			row.Bandwidth = size(int64(f.Bandwidth)) + "/s"
		}
		if f.Bus > 0 {
			row.Bus = size(int64(f.Bus)) + "/s"
		}
		d.Functions = append(d.Functions, row)
	}
	d.DataTime, d.Parallel = parallel(j)
	d.Of = fmt.Sprintf("rank %d", j.TransfersOf)
	for i := range j.Transfers {
		x := &j.Transfers[i]
		row := transferRow{
			Comm: cmp.Or(x.Comm, "no name"), Function: x.Function, Ranks: count(x.Ranks), Size: size(int64(min(x.Bytes, math.MaxInt64))), Ops: count(x.Ops), Took: short(x.Seconds), Bus: "none",
		}
		if x.Bus > 0 {
			row.Bus = size(int64(x.Bus)) + "/s"
		}
		d.Transfers = append(d.Transfers, row)
	}
	for _, c := range j.Comms {
		row := commRow{Name: c.Name, Number: c.Number, Size: c.Size}
		if row.Name == "" {
			row.Name = "no name"
		}
		switch {
		case c.Nodes == 1:
			row.Span = "one node each"
		case c.Nodes > 1:
			row.Span = count(c.Nodes) + " nodes each"
		}
		d.Comms = append(d.Comms, row)
	}
	// Without iterations, seconds inside operations per second.
	per, unit := 1.0, " a second"
	if j.Iteration > 0 {
		per, unit = j.Iteration, " an iteration"
	}
	for _, l := range j.Late {
		less := (l.Median - l.Inside) * per
		if less < 0.001 {
			continue
		}
		row := shareRow{Who: fmt.Sprintf("rank %d", l.Rank), Inside: seconds(l.Inside*per) + unit, Below: seconds(less) + unit}
		if l.Host != "" {
			row.Who += " on " + l.Host
		}
		if o.RankURL != nil {
			row.URL = o.RankURL(l.Rank)
		}
		d.Late = append(d.Late, row)
	}
	switch {
	case d.Still:
		d.Late, d.LateNone = nil, "No rank moves now, so none is late."
	case len(j.Functions) == 0 && len(j.Late) == 0:
		d.LateNone = "Not recorded."
	default:
		d.LateNone = "No rank is late by more than 1 ms."
	}
	if err := jobPage.Execute(w, &d); err != nil {
		return fmt.Errorf("rendering the page of job %s: %w", j.ID, err)
	}
	return nil
}

// parallel gives the time of an iteration in communicators of each kind, and in a sentence that of data parallelism.
func parallel(j *jobs.Job) (string, []parallelRow) {
	var out []parallelRow
	data := ""
	for i := range j.Parallel {
		p := &j.Parallel[i]
		row := parallelRow{Kind: "not recorded", Mean: short(p.Mean)}
		if p.Least > 0 {
			row.Least = short(p.Least)
		}
		if p.Kind != "" {
			row.Kind = p.Kind.Long()
		}
		names := slices.Clone(p.Names)
		for k := range names {
			names[k] = cmp.Or(names[k], "no name")
		}
		row.Names = strings.Join(names[:min(len(names), mostNames)], ", ")
		if n := len(names) - mostNames; n > 0 {
			row.Names += fmt.Sprintf(" and %s more", count(n))
		}
		if j.Iteration > 0 {
			row.Share = percent(p.Mean / j.Iteration)
		}
		if p.Kind == layout.Data {
			data = row.Mean + " an iteration"
			if row.Least != "" {
				data += ", " + row.Least + " on the rank that waits least"
			}
		}
		out = append(out, row)
	}
	if j.Others > 0 && len(out) > 0 {
		row := parallelRow{Kind: "others", Names: "barriers, and operations that take little time", Mean: short(j.Others)}
		if j.Iteration > 0 {
			row.Share = percent(j.Others / j.Iteration)
		}
		out = append(out, row)
	}
	return data, out
}

// mostNames bounds the names of communicators that are listed for a kind.
const mostNames = 6

// claimed says that two jobs seem to have one id; empty: nothing tells so.
func claimed(j *jobs.Job) string {
	if len(j.Claimed) == 0 {
		return ""
	}
	return fmt.Sprintf("Living processes on several nodes claim %s of this job, such as rank %d. Two jobs probably have one id, and this page mixes them. Give each its own CULPRIT_JOB_ID.", ranks(len(j.Claimed)), j.Claimed[0])
}

// coverage says how many of the job's ranks are watched, and how they are.
func coverage(j *jobs.Job) string {
	states := map[string]int{}
	for i := range j.Ranks {
		states[j.Ranks[i].State]++
	}
	s := fmt.Sprintf("%s of %s watched, on %s.", count(len(j.Ranks)), ranks(max(j.WorldSize, len(j.Ranks))), plural(j.Hosts, "host", "hosts"))
	var parts []string
	for _, p := range []struct{ state, text string }{{"gone", "exited without orderly shutdown"}, {"stuck", "without progress for 2 s or more"}, {"unseen", "not recorded now"}} {
		if n := states[p.state]; n > 0 {
			parts = append(parts, ranks(n)+" "+p.text)
		}
	}
	if len(parts) == 0 {
		return s + " All of them move."
	}
	return s + " " + strings.Join(parts, "; ") + "."
}

// still reports whether a job makes no progress: its ranks do not, or its open incident paged for a standstill and none of them moves.
func still(j *jobs.Job, open *incident.Incident) bool {
	stuck, moving := 0, 0
	for i := range j.Ranks {
		switch j.Ranks[i].State {
		case "stuck":
			stuck++
		case "moving":
			moving++
		}
	}
	paged := open != nil && open.Verdict != nil && open.Verdict.Page && open.Verdict.Class.StandsStill()
	return moving == 0 && (stuck > 0 || paged) || paged && stuck > moving
}

// iteration says how long an iteration takes, and how that compares with the last hour while no trigger fired. It never tells the length of
// past iterations as that of present ones, nor contradicts an open incident without saying so.
func iteration(j *jobs.Job, open *incident.Incident, still bool) string {
	switch {
	case still && j.Iteration > 0:
		return fmt.Sprintf("None ends now. The last took %s.", seconds(j.Iteration))
	case still:
		return "None ends now."
	case j.Iteration <= 0:
		return "not recorded: no iteration was found in the last " + seconds(j.Window.Seconds())
	}
	s := seconds(j.Iteration)
	if j.Before <= 0 {
		return s
	}
	slow := open != nil && open.Verdict != nil && !open.Verdict.Class.StandsStill() && open.Verdict.Page
	switch change := j.Iteration/j.Before - 1; {
	case change > 0.01:
		return fmt.Sprintf("%s, %s longer than while it was healthy in the last hour (%s)", s, percent(change), seconds(j.Before))
	case slow:
		return fmt.Sprintf("%s, no longer slower than while it was healthy in the last hour (%s); the incident resolves once its triggers end", s, seconds(j.Before))
	case change < -0.01:
		return fmt.Sprintf("%s, %s shorter than while it was healthy in the last hour (%s)", s, percent(-change), seconds(j.Before))
	}
	return s + ", as while it was healthy in the last hour"
}

// decimal writes a number of operations: whole ones from ten on.
func decimal(x float64) string {
	if x >= 9.95 {
		return count(int(x + 0.5))
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}

type jobsData struct {
	frame
	Jobs  []jobRow
	Text  string
	All   int
	Error string
}

type jobRow struct {
	jobs.Listed
	Open *incident.Incident
	URL  string
}

// mostJobs bounds the list of jobs.
const mostJobs = 500

// WriteJobs writes the list of running jobs, those with an open incident first; text narrows it.
func WriteJobs(w io.Writer, list []jobs.Listed, all []incident.Incident, text, failed string, o Options) error {
	d := jobsData{frame: frame{Title: "Jobs", Version: version.Version, Base: "./", Poll: pollSeconds, Warning: o.Warning}, Text: text, All: len(list), Error: failed}
	open := map[identity.Job]*incident.Incident{}
	for i := range all {
		if all[i].State == incident.Open {
			open[all[i].Job()] = &all[i]
		}
	}
	var calm []jobRow
	for _, j := range list {
		if !strings.Contains(strings.ToLower(j.ID.String()), strings.ToLower(text)) {
			continue
		}
		row := jobRow{Listed: j, Open: open[j.ID], URL: JobURL(j.ID)}
		if row.Open != nil {
			d.Jobs = append(d.Jobs, row)
		} else {
			calm = append(calm, row)
		}
	}
	d.Jobs = append(d.Jobs, calm...)
	d.Jobs = d.Jobs[:min(len(d.Jobs), mostJobs)]
	if err := jobsPage.Execute(w, &d); err != nil {
		return fmt.Errorf("rendering the list of jobs: %w", err)
	}
	return nil
}
