// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package notify tells Alertmanager of verdicts: it makes alerts of an incident's standing verdict, posts them to every
// peer, says them again while they hold, and resolves them.
package notify

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/internal/mention"
)

// Alert is one alert in the form that Alertmanager's API takes.
type Alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// Format says how alerts are made.
type Format struct {
	Hang        Style
	Slow        Style
	Unknown     Style
	Warning     Style             // Of an alert that does not page yet.
	Labels      map[string]string // Added to each alert.
	MaxAlerts   int
	ExternalURL string
	// ExternalCommand is what people run before ExternalURL answers; empty: nothing.
	ExternalCommand string
	Runbook         *template.Template // Over .Class and .Cause.
}

// Style is the name and the severity of alerts of a kind. Kinds do not share a name: Alertmanager is often told to hold back
// an alert while one of the same name and a higher severity fires.
type Style struct{ Name, Severity string }

// maxList bounds lists in annotations: items.
const maxList = 20

// Alerts gives the alerts that hold for an incident: none unless it is open and its verdict pages, or will unless the
// culprit gets on; those are warnings under a name of their own, also for one culprit beside others that are paged for.
// Each culprit has its own alert with its own class, cause and action, so that routes, silences and dashboards can go by host and rank, and the summary of each names them all;
// ranks of one process share one, as they share their fate. Beyond MaxAlerts alerts, each host has one, and beyond as many hosts, one
// alert stands for all.
func (f *Format) Alerts(inc *incident.Incident) []Alert {
	v := inc.Verdict
	if inc.State != incident.Open || v == nil || !v.Page && (v.PageIn == 0 || v.Class == rca.Unknown) {
		return nil
	}
	startsAt := inc.OpenedAt
	if inc.VerdictAt != nil {
		startsAt = *inc.VerdictAt
	}
	var out []Alert
	for _, p := range f.places(v) {
		annotations := f.annotations(inc, &p)
		style, role := f.style(p.class), "verdict"
		if !v.Page || p.held {
			style, role = f.Warning, "suspect"
		}
		labels := map[string]string{
			"alertname": style.Name,
			"culprit":   role,
			"severity":  style.Severity,
			"job_id":    inc.JobID,
			"incident":  inc.ID,
			"class":     string(p.class),
			"cause":     string(p.cause),
			"host":      p.host,
			"gpu":       p.gpu,
			"rank":      p.rank,
		}
		for _, more := range []map[string]string{inc.JobLabels, f.Labels, inc.Labels} {
			for name, value := range more {
				if _, taken := labels[name]; !taken {
					labels[name] = value
				}
			}
		}
		f.tidy(labels, f.Labels)
		f.tidy(annotations, map[string]string{"link": annotations["link"], "runbook_url": annotations["runbook_url"]})
		out = append(out, Alert{Labels: labels, Annotations: annotations, StartsAt: startsAt, GeneratorURL: annotations["link"]})
	}
	return out
}

// tidy leaves out what is empty, and what in a name would be a command or a link in a chat: receivers send labels and annotations as they are.
// What is ours stays.
func (f *Format) tidy(texts, ours map[string]string) {
	own := ""
	if f.ExternalURL != "" {
		own = strings.TrimRight(f.ExternalURL, "/") + "/"
	}
	for name, value := range texts {
		if value == "" {
			delete(texts, name)
			continue
		}
		if value != ours[name] {
			texts[name] = mention.Plain(value, own)
		}
	}
}

// IncidentURL gives the address of an incident's page, empty where nobody told under which address people reach the analyzer.
func (f *Format) IncidentURL(id string) string {
	if f.ExternalURL == "" {
		return ""
	}
	return strings.TrimRight(f.ExternalURL, "/") + "/incidents/" + url.PathEscape(id)
}

// place is where one alert points, and what is wrong there.
type place struct {
	rank, host, gpu string
	class           rca.Class
	cause           rca.Cause
	action          string
	held            bool // It does not page yet, while others do.
}

func (f *Format) places(v *rca.Verdict) []place {
	whole := place{class: v.Class, cause: v.Cause, action: v.Action}
	var out []place
	for _, c := range v.Culprits {
		p := whole
		p.host, p.gpu = c.Host, c.GPU
		if c.Class != "" {
			p.class, p.cause, p.action = c.Class, c.Cause, c.Action
		}
		p.held = c.PageIn > 0
		if c.Rank >= 0 {
			p.rank = strconv.Itoa(c.Rank)
		}
		if fellows := fellows(v.Culprits, &c); len(fellows) > 1 {
			p.rank, p.gpu = named(fellows, func(c *rca.Culprit) string { return strconv.Itoa(c.Rank) }), named(fellows, func(c *rca.Culprit) string { return c.GPU })
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return []place{whole}
	}
	if len(out) <= f.MaxAlerts {
		return out
	}
	byHost := map[string][]int{}
	for _, c := range v.Culprits {
		byHost[c.Host] = append(byHost[c.Host], c.Rank)
	}
	if len(byHost) > f.MaxAlerts {
		return []place{whole}
	}
	out = out[:0]
	for host, ranks := range byHost {
		p := whole
		p.rank, p.host = Ranges(ranks), host
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b place) int { return cmp.Compare(a.host, b.host) })
	return out
}

// fellows gives the culprits of the same process with the same class and cause, c itself included.
func fellows(list []rca.Culprit, c *rca.Culprit) []rca.Culprit {
	var out []rca.Culprit
	for _, o := range list {
		if c.PID != 0 && o.PID == c.PID && o.Host == c.Host && o.Class == c.Class && o.Cause == c.Cause && c.Rank >= 0 && o.Rank >= 0 {
			out = append(out, o)
		}
	}
	return out
}

// named lists what culprits are called, numbers in short.
func named(list []rca.Culprit, name func(*rca.Culprit) string) string {
	var numbers []int
	var names []string
	for i := range list {
		names = append(names, name(&list[i]))
		if n, err := strconv.Atoi(names[i]); err == nil {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == len(names) {
		return Ranges(numbers)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

func (f *Format) style(c rca.Class) Style {
	switch c {
	case rca.NotEntered, rca.Inconsistent, rca.Fault:
		return f.Hang
	case rca.Unknown, rca.Benign, rca.Healthy:
		return f.Unknown
	default:
		return f.Slow
	}
}

func (f *Format) annotations(inc *incident.Incident, p *place) map[string]string {
	v := inc.Verdict
	out := map[string]string{
		"summary":     v.Summary,
		"description": description(v, p.action),
		"confidence":  strconv.FormatFloat(v.Confidence, 'f', 2, 64),
		"culprits":    culprits(v.Culprits),
		"runbook_url": f.RunbookURL(p.class, p.cause),
	}
	if link := f.IncidentURL(inc.ID); link != "" {
		out["link"] = link
		if f.ExternalCommand != "" {
			out["description"] = fmt.Sprintf("To see the incident, run: %s\nThen open: %s\n%s", f.ExternalCommand, link, out["description"])
		}
	}
	return out
}

// RunbookURL gives where to read what to do about a class and cause; empty: nowhere.
func (f *Format) RunbookURL(class rca.Class, cause rca.Cause) string {
	if f.Runbook == nil {
		return ""
	}
	var b strings.Builder
	if err := f.Runbook.Execute(&b, struct{ Class, Cause string }{string(class), string(cause)}); err != nil {
		return ""
	}
	return b.String()
}

// culprits lists everybody accused.
func culprits(list []rca.Culprit) string {
	var b strings.Builder
	for i, c := range list {
		if i == maxList {
			fmt.Fprintf(&b, "\nand %d more", len(list)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(Culprit(&c))
	}
	return b.String()
}

// Culprit says who is meant in a few words.
func Culprit(c *rca.Culprit) string {
	var parts []string
	if c.Rank >= 0 {
		parts = append(parts, fmt.Sprintf("rank %d", c.Rank))
	}
	if c.Group != "" && c.Group != c.Host {
		parts = append(parts, c.Group)
	}
	if c.Host != "" {
		parts = append(parts, "on "+c.Host)
	}
	for _, detail := range []struct{ name, value string }{{"GPU ", c.GPU}, {"NIC ", c.NIC}, {"pod ", c.Pod}} {
		if detail.value != "" {
			parts = append(parts, detail.name+detail.value)
		}
	}
	if c.Channel >= 0 {
		parts = append(parts, fmt.Sprintf("channel %d", c.Channel))
	}
	out := strings.Join(parts, " ")
	if c.Why != "" {
		out += ": " + c.Why
	}
	return out
}

// description gives the evidence and the chain of waiting as lines of text.
func description(v *rca.Verdict, action string) string {
	var lines []string
	add := func(title string, list []string) {
		if len(list) == 0 {
			return
		}
		lines = append(lines, title)
		for i, s := range list {
			if i == maxList {
				lines = append(lines, fmt.Sprintf("- and %d more", len(list)-i))
				break
			}
			lines = append(lines, "- "+s)
		}
	}
	if v.PageIn > 0 {
		lines = append(lines, fmt.Sprintf("The process is alive and may still call the operation. This becomes a page once its peers have waited %.0f s.", v.Waited+v.PageIn))
	}
	if action != "" {
		lines = append(lines, "Do: "+action)
	}
	add("Evidence:", v.Evidence)
	chain := make([]string, len(v.Chain))
	for i, l := range v.Chain {
		chain[i] = Link(&l)
	}
	add("Who waits for whom:", chain)
	add("Against it:", v.Contradictions)
	add("Not seen:", v.Missing)
	return strings.Join(lines, "\n")
}

// Link says one step of the chain in words.
func Link(l *rca.Link) string {
	who := fmt.Sprintf("rank %d waits for rank %d", l.From, l.To)
	if l.From == l.To {
		who = fmt.Sprintf("rank %d waits for nobody", l.From)
	}
	where := strings.Join(slices.DeleteFunc([]string{l.Op, l.Comm}, func(s string) bool { return s == "" }), " on ")
	if where != "" && strings.Contains(l.Reason, where) {
		where = "" // The reason has it.
	}
	if where != "" {
		where = " (" + where + ")"
	}
	sure := ""
	if !l.Sure {
		sure = ", inferred"
	}
	return who + ": " + l.Reason + where + sure
}

// Ranges writes rank numbers in short: 0-3,7.
func Ranges(ranks []int) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(ranks)))
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		if j == i {
			parts = append(parts, strconv.Itoa(sorted[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
