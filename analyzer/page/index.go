// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"github.com/culprit-project/culprit/analyzer/incident"
)

// PerPage is how many incidents the list shows at once.
const PerPage = 50

// mostTallied bounds the hosts, classes and teams that are listed.
const mostTallied = 12

// Filter narrows the list of incidents.
type Filter struct {
	Text, State, Class, Host, Team string
	// Severity is critical, warning, none (nobody was or will be paged) or all; empty: all but those that paged nobody.
	Severity string
	Page     int // From 1.
}

// ParseFilter reads a filter from a query. What it does not know is left out.
func ParseFilter(q url.Values) Filter {
	f := Filter{Text: strings.TrimSpace(q.Get("q")), State: q.Get("state"), Class: q.Get("class"), Host: q.Get("host"), Team: q.Get("team"), Severity: q.Get("severity"), Page: 1}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && n > 1 {
		f.Page = n
	}
	return f
}

func (f Filter) query(page int) string {
	q := url.Values{}
	for name, v := range map[string]string{"q": f.Text, "state": f.State, "class": f.Class, "host": f.Host, "team": f.Team, "severity": f.Severity} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	return "?" + q.Encode()
}

// loud reports whether an incident has the severity that the filter asks for. One that is still analysed may page.
func (f Filter) loud(inc *incident.Incident) bool {
	switch f.Severity {
	case "all":
		return true
	case "":
		return severity(inc) != "none" || inc.Verdict == nil && inc.State == incident.Open
	}
	return severity(inc) == f.Severity
}

// Takes reports whether the filter lets an incident through.
func (f Filter) Takes(inc *incident.Incident) bool { return f.loud(inc) && f.matches(inc) }

// matches reports whether an incident fits, whatever its severity.
func (f Filter) matches(inc *incident.Incident) bool {
	v := inc.Verdict
	switch {
	case f.State != "" && string(inc.State) != f.State:
		return false
	case f.Class != "" && (v == nil || string(v.Class) != f.Class):
		return false
	case f.Host != "" && !slices.Contains(accusedHosts(inc), f.Host):
		return false
	case f.Team != "" && Team(inc) != f.Team:
		return false
	case f.Text == "":
		return true
	}
	texts := []string{inc.Job().String(), inc.ID, Team(inc)}
	if v != nil {
		texts = append(texts, v.Summary, string(v.Class), string(v.Cause), v.Comm)
		texts = append(texts, accusedHosts(inc)...)
	}
	for i := range inc.Triggers {
		texts = append(texts, inc.Triggers[i].Name)
	}
	for word := range strings.FieldsSeq(strings.ToLower(f.Text)) {
		if !slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), word) }) {
			return false
		}
	}
	return true
}

// teamLabels are the labels of a trigger that say whose job it is, the likeliest first.
var teamLabels = []string{"team", "owner", "namespace", "user"}

// Team gives whose job an incident is of, as the labels of its triggers say; empty: none does.
func Team(inc *incident.Incident) string {
	for _, label := range teamLabels {
		for i := range inc.Triggers {
			if v := inc.Triggers[i].Labels[label]; v != "" {
				return v
			}
		}
	}
	return ""
}

// accusedHosts are the hosts that an incident's standing verdict blames.
func accusedHosts(inc *incident.Incident) []string {
	if inc.Verdict == nil {
		return nil
	}
	var out []string
	for _, c := range inc.Verdict.Culprits {
		if c.Host != "" && !slices.Contains(out, c.Host) {
			out = append(out, c.Host)
		}
	}
	return out
}

// Similar gives other incidents that paged for a host of this one, newest first.
func Similar(inc *incident.Incident, all []incident.Incident) []incident.Incident {
	hosts := accusedHosts(inc)
	var out []incident.Incident
	for i := range all {
		o := &all[i]
		if o.ID != inc.ID && o.Verdict != nil && o.Verdict.Page && slices.ContainsFunc(accusedHosts(o), func(h string) bool { return slices.Contains(hosts, h) }) {
			out = append(out, *o)
		}
	}
	slices.SortFunc(out, func(a, b incident.Incident) int { return b.OpenedAt.Compare(a.OpenedAt) })
	return out
}

type indexData struct {
	frame
	Filter             Filter
	Rows               []indexRow
	Classes            []string
	Offenders          []tally
	ByClass, ByTeam    []tally
	Found, All, Pages  int
	Hidden             int    // Those that fit and paged nobody.
	ShowAll            string // Where they are shown, too.
	First, Last        int
	Previous, Next     string
	Filtered, Anything bool
	Severities         []Term
}

type indexRow struct {
	*incident.Incident
	Severity, Place, Finding, Owner string
	Since                           time.Time
	Took                            string
}

// severities are what the list's filter offers beside the default.
var severities = []Term{{"critical", "critical"}, {"warning", "warning"}, {"none", "paged nobody"}, {"all", "all"}}

// tally is how many incidents there are of a host, a class or a team.
type tally struct {
	Name, Query string
	Count       int
	Last        time.Time
}

// WriteIndex writes the list of incidents.
func WriteIndex(w io.Writer, all []incident.Incident, f Filter, o Options) error {
	d := indexData{
		frame:  frame{Title: "Incidents", Version: version.Version, Base: "./", Events: "api/v1/events", Warning: o.Warning},
		Filter: f, All: len(all), Offenders: offenders(all), Anything: len(all) > 0,
		ByClass: tallies(all, func(inc *incident.Incident) []string {
			if inc.Verdict == nil {
				return nil
			}
			return []string{string(inc.Verdict.Class)}
		}, func(name string) Filter { return Filter{Class: name} }),
		ByTeam:   tallies(all, func(inc *incident.Incident) []string { return []string{Team(inc)} }, func(name string) Filter { return Filter{Team: name} }),
		Filtered: f.Text != "" || f.State != "" || f.Class != "" || f.Host != "" || f.Team != "" || f.Severity != "", Severities: severities,
	}
	var found []*incident.Incident
	for i := range all {
		if v := all[i].Verdict; v != nil && !slices.Contains(d.Classes, string(v.Class)) {
			d.Classes = append(d.Classes, string(v.Class))
		}
		switch {
		case f.Takes(&all[i]):
			found = append(found, &all[i])
		case f.Severity == "" && f.matches(&all[i]):
			d.Hidden++
		}
	}
	slices.Sort(d.Classes)
	everything := f
	everything.Severity = "all"
	d.ShowAll = everything.query(1)
	d.Found = len(found)
	d.Pages = max(1, (len(found)+PerPage-1)/PerPage)
	page := min(max(1, f.Page), d.Pages)
	from := (page - 1) * PerPage
	shown := found[from:min(len(found), from+PerPage)]
	d.First, d.Last = min(from+1, len(found)), from+len(shown)
	if page > 1 {
		d.Previous = f.query(page - 1)
	}
	if page < d.Pages {
		d.Next = f.query(page + 1)
	}
	for _, inc := range shown {
		since, _ := onset(inc)
		c := newCard(inc, &Options{Alone: true})
		d.Rows = append(d.Rows, indexRow{
			Incident: inc, Severity: severity(inc), Place: c.Place, Finding: c.Finding, Owner: Owner(inc), Since: since, Took: took(inc, o.Now),
		})
	}
	if err := indexPage.Execute(w, &d); err != nil {
		return fmt.Errorf("rendering the list of incidents: %w", err)
	}
	return nil
}

// offenders gives the hosts to blame in more than one incident that paged, those with most first.
func offenders(all []incident.Incident) []tally {
	out := tallies(all, func(inc *incident.Incident) []string {
		if inc.Verdict == nil || !inc.Verdict.Page {
			return nil
		}
		return accusedHosts(inc)
	}, func(name string) Filter { return Filter{Host: name} })
	return slices.DeleteFunc(out, func(t tally) bool { return t.Count < 2 })
}

// tallies counts incidents by name, the most frequent first.
func tallies(all []incident.Incident, names func(*incident.Incident) []string, filter func(name string) Filter) []tally {
	byName := map[string]*tally{}
	for i := range all {
		for _, name := range names(&all[i]) {
			if name == "" {
				continue
			}
			t := byName[name]
			if t == nil {
				t = &tally{Name: name, Query: filter(name).query(1)}
				byName[name] = t
			}
			t.Count++
			if all[i].OpenedAt.After(t.Last) {
				t.Last = all[i].OpenedAt
			}
		}
	}
	var out []tally
	for _, t := range byName {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b tally) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return out[:min(len(out), mostTallied)]
}
