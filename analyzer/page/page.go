// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package page shows incidents to people: the list of them, and one with all that is known of it. The service and
// `analyze --html` show the same page. It needs no script to be read.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/jobs"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

//go:embed templates
var files embed.FS

// Script keeps a page of the service up to date. Pages work without.
//
//go:embed templates/live.js
var Script []byte

var (
	indexPage    = parse("index.html")
	incidentPage = parse("incident.html")
	jobPage      = parse("job.html")
	jobsPage     = parse("jobs.html")
)

func parse(name string) *template.Template {
	t := template.New("layout.html").Funcs(template.FuncMap{
		"stamp": stamp, "machine": machine, "percent": percent, "seconds": seconds, "size": size, "count": count,
		"who": who, "link": notify.Link, "list": func(numbers []int) string { return named(numbers, 0) }, "plural": plural,
		"class": class, "cause": cause, "stateName": stateName, "jobState": jobState, "jobURL": JobURL, "job": identity.New, "json": labelsJSON, "stackName": stackName, "ago": ago,
		"finding": func(v *rca.Verdict) string { return words.WithoutWait(v.Summary) },
	})
	return template.Must(t.ParseFS(files, "templates/layout.html", "templates/style.css", "templates/grid.html", "templates/"+name))
}

// Policy is the Content-Security-Policy of the pages: their own style and script, and nothing else.
var Policy = policy()

func policy() string {
	var b bytes.Buffer
	if err := indexPage.Execute(&b, &indexData{frame: frame{Title: "x"}}); err != nil {
		panic(err) // The templates are part of the program.
	}
	_, style, _ := strings.Cut(b.String(), "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

// frame is what surrounds every page.
type frame struct {
	Title   string
	Version string
	Base    string // Where the service's root is, seen from the page.
	Poll    int    // Seconds after which the page is read again; 0: never.
	Events  string // Where the page learns that it is out of date; empty: never.
	Alone   bool   // The page is a file of its own, with no service behind it.
	Warning string
}

// pollSeconds is how often a page of Prometheus' numbers is read again.
const pollSeconds = 15

// JobURL gives where the page of a job is, from the service's root. A job may be called anything.
// Labels of its identity follow the id.
func JobURL(job identity.Job) string {
	q := url.Values{"id": {job.ID}}
	for name, value := range job.Labels() {
		q.Set(name, value)
	}
	return "job?" + q.Encode()
}

// Link leads to another place.
type Link struct{ Text, URL string }

// Section is a list that a page of its own has below the incident.
type Section struct {
	Title string
	Items []string
}

// Options are what a page shows beside its incident.
type Options struct {
	Title   string // Empty: the job's.
	Now     time.Time
	Alone   bool                  // A file of its own, with no service behind it.
	Links   []Link                // Where else to look.
	RankURL func(rank int) string // Where there is more of a rank of a running job; nil: nowhere.
	Similar []incident.Incident   // Others that paged for the same hosts, newest first.
	More    []Section
	Warning string // Of the service's configuration.
	// User is who looks, as the service authenticated them, and MayAct whether they may change something.
	User    string
	MayAct  bool
	Actions []action.Entry // What rules did about the incident.
	// Silence is where the incident's alerts can be silenced; empty: nowhere.
	Silence  string
	Notified *Notified   // Nil: not known.
	Trend    *jobs.Trend // How the job did around the fault; nil: not known.
}

type incidentData struct {
	frame
	Inc     *incident.Incident
	V       *rca.Verdict
	Took    string
	Sure    string
	Card    *Card
	Chart   *Chart
	Plan    *Plan
	Silence string
	Now     time.Time
	Advice  []Advice
	Graph   *Graph
	Grid    *Grid
	Layout  string // How the job divides its ranks.
	Places  *Grid  // Ranks by their place in the layout.
	Flow    *flowData
	Rounds  *Timeline
	Seen    *incident.Analysis // The analysis that the page is as of.
	Fixes   []fix
	Links   []Link
	Similar []incident.Incident
	More    []Section
	MayAct  bool
	User    string    // Who may judge the verdict; empty: nobody who looks now.
	Cleared []cleared // Considered and not accused, where no hypotheses are told.
	Weighed *hypotheses
	Classes []rca.Class
	Causes  []rca.Cause
	Actions []act
}

// fix is what an iteration would take with one thing mended.
type fix struct {
	Name, Step, Saved string
}

// mostSimilar bounds the other incidents of a host that a page lists.
const mostSimilar = 5

// mostFixes bounds what a page shows of them by kind.
const mostFixes = 3

// WriteIncident writes the page of an incident.
func WriteIncident(w io.Writer, inc *incident.Incident, o Options) error {
	d := incidentData{
		frame: frame{Title: cmp.Or(o.Title, "Job "+inc.Job().String()), Version: version.Version, Base: "../", Alone: o.Alone, Warning: o.Warning},
		Inc:   inc, V: inc.Verdict, Took: took(inc, o.Now), Grid: newGrid(inc.Ranks, stackMarks(inc.Stacks)), Links: o.Links, Similar: o.Similar[:min(len(o.Similar), mostSimilar)], More: o.More,
		Card: newCard(inc, &o), Chart: newChart(o.Trend, inc), Plan: newPlan(inc.Layout, inc.Ranks), Silence: o.Silence, Now: o.Now,
	}
	if !o.Alone && inc.State == incident.Open {
		d.Events = "../api/v1/events?incident=" + inc.ID
	}
	for i := range slices.Backward(inc.Analyses) {
		if inc.Analyses[i].Error == "" {
			d.Seen = &inc.Analyses[i]
			break
		}
	}
	d.MayAct, d.Actions = o.MayAct && !o.Alone, acts(o.Actions)
	if inc.Verdict != nil && d.MayAct && o.User != "" {
		d.User, d.Classes, d.Causes = o.User, judged, words.Causes()
	}
	if inc.Layout != nil {
		d.Layout, d.Places = layoutText(inc.Layout), layoutGrid(inc.Layout, inc.Ranks, stackMarks(inc.Stacks))
	}
	d.Flow = newFlow(inc.Flow)
	if v := inc.Verdict; v != nil {
		if d.Weighed = newHypotheses(v); d.Weighed == nil {
			d.Cleared = considered(v)
		}
		d.Rounds = newTimeline(inc.Rounds, accusedRanks(v))
		d.Sure, d.Advice, d.Graph, d.Fixes = sure(v), advice(v, inc.Workload), newGraph(v), fixes(v.WhatIf)
	}
	if err := incidentPage.Execute(w, &d); err != nil {
		return fmt.Errorf("rendering the page of incident %s: %w", inc.ID, err)
	}
	return nil
}

func accusedRanks(v *rca.Verdict) []int {
	var out []int
	for _, c := range v.Culprits {
		out = append(out, c.Rank)
	}
	return out
}

// cleared is somebody who was considered and not accused.
type cleared struct{ Who, Reason string }

// considered names those of whom something can be said: nobody without a name, and nobody who is accused after all.
func considered(v *rca.Verdict) []cleared {
	var out []cleared
	for i := range v.RuledOut {
		c := &v.RuledOut[i]
		who := c.Group
		if c.Rank >= 0 {
			who = strings.TrimSpace(fmt.Sprintf("rank %d %s", c.Rank, c.Group))
		}
		accused := slices.ContainsFunc(v.Culprits, func(k rca.Culprit) bool { return c.Rank >= 0 && k.Rank == c.Rank || c.Rank < 0 && k.Group == c.Group })
		if who != "" && !accused {
			out = append(out, cleared{who, c.Reason})
		}
	}
	return out
}

// blast says how far the trouble reaches.
func blast(v *rca.Verdict) string {
	switch {
	case v.Stalled == 0:
		return ""
	case v.WorldSize > 0:
		return fmt.Sprintf("%s of %s are stuck.", count(v.Stalled), ranks(v.WorldSize))
	}
	return words.Plural(v.Stalled, "rank") + map[bool]string{true: " is", false: " are"}[v.Stalled == 1] + " stuck."
}

func fixes(all []rca.WhatIf) []fix {
	var out []fix
	kinds := map[string]int{}
	for _, w := range all {
		if kinds[w.Kind]++; kinds[w.Kind] > mostFixes || w.Saved < 0.005 {
			continue
		}
		name := w.Name
		if w.Kind != "rank" && len(w.Ranks) > 0 {
			name += " (" + named(w.Ranks, 0) + ")"
		}
		out = append(out, fix{name, seconds(w.StepSeconds), "−" + percent(w.Saved)})
	}
	return out
}

// who says who is meant: "rank 5 on node-2, GPU 1".
func who(c *rca.Culprit) string {
	head := ""
	if c.Rank >= 0 {
		head = fmt.Sprintf("rank %d", c.Rank)
	}
	if c.Group != "" && c.Group != c.Host {
		head = strings.TrimSpace(head + " " + c.Group)
	}
	if c.Host != "" {
		head = strings.TrimSpace(head + " on " + c.Host)
	}
	for _, d := range []struct{ name, value string }{{"GPU ", c.GPU}, {"NIC ", c.NIC}, {"pod ", c.Pod}} {
		if d.value != "" {
			head += ", " + d.name + d.value
		}
	}
	if c.PID > 0 {
		head += fmt.Sprintf(", process %d", c.PID)
	}
	if c.Channel >= 0 && c.Rank >= 0 {
		head += fmt.Sprintf(", channel %d", c.Channel)
	}
	return strings.TrimPrefix(head, ", ")
}

// labelsJSON writes labels for the page's script.
func labelsJSON(labels map[string]string) (string, error) {
	text, err := json.Marshal(labels)
	return string(text), err
}
