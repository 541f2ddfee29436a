// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/api"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/page"
)

// Dashboards that ship, by their uid.
const (
	jobDashboard  = "culprit-jobs"
	commDashboard = "culprit-communicator"
	rankDashboard = "culprit-rank"
)

// aroundIncident is how much time before and after an incident a dashboard shows.
const aroundIncident = 10 * time.Minute

// links gives where else there is something to read about an incident.
func (a *App) links(inc *incident.Incident) []page.Link {
	s := a.current.Load()
	var out []page.Link
	if v := inc.Verdict; v != nil {
		if u := s.format.RunbookURL(v.Class, v.Cause); u != "" {
			out = append(out, page.Link{Text: "Runbook", URL: u})
		}
	}
	fields := linkFields(inc)
	for i := range s.config.Links {
		l := &s.config.Links[i]
		if u, err := l.Fill(fields); err == nil {
			out = append(out, page.Link{Text: l.Text, URL: u})
		}
	}
	base := s.config.GrafanaURL
	if base == "" {
		return out
	}
	out = append(out, page.Link{Text: "Job in Grafana", URL: dashboard(base, jobDashboard, inc, nil)})
	if comm := commOf(inc); comm != "" {
		out = append(out, page.Link{Text: "Communicator in Grafana", URL: dashboard(base, commDashboard, inc, map[string]string{"comm": comm})})
	}
	if v := inc.Verdict; v != nil && len(v.Culprits) > 0 && v.Culprits[0].Rank >= 0 {
		rank := strconv.Itoa(v.Culprits[0].Rank)
		out = append(out, page.Link{Text: "Rank " + rank + " in Grafana", URL: dashboard(base, rankDashboard, inc, map[string]string{"rank": rank})})
	}
	return out
}

// linkFields gives what the configured links are filled with.
func linkFields(inc *incident.Incident) config.LinkFields {
	from, to := window(inc)
	f := config.LinkFields{JobID: inc.JobID, Incident: inc.ID, From: from, To: to}
	if w := inc.Workload; w != nil {
		f.Namespace, f.SlurmJob, f.User = w.Namespace, w.SlurmJob, w.User
	}
	if v := inc.Verdict; v != nil && len(v.Culprits) > 0 {
		c := &v.Culprits[0]
		f.Host, f.Pod = c.Host, c.Pod
		if c.Rank >= 0 {
			f.Rank = strconv.Itoa(c.Rank)
		}
	}
	return f
}

// silenceURL gives the form of Alertmanager in which an incident's alerts can be silenced.
func (a *App) silenceURL(inc *incident.Incident) string {
	base := a.current.Load().config.Alertmanager.ExternalURL
	if base == "" {
		return ""
	}
	return strings.TrimRight(base, "/") + "/#/silences/new?filter=" + url.QueryEscape("{"+notify.Matcher("incident", inc.ID)+"}")
}

// notifiedTimeout is for how long the page of an incident waits for Alertmanager.
const notifiedTimeout = time.Second

// notified tells to whom Alertmanager routes the alerts of an incident; nil: it has none, or does not answer.
func (a *App) notified(ctx context.Context, inc *incident.Incident) *page.Notified {
	if inc.Verdict == nil || !inc.Verdict.Page {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, notifiedTimeout)
	defer cancel()
	var out *page.Notified
	for _, c := range a.sender.Clients() {
		list, err := c.List(ctx, "", notify.Matcher("incident", inc.ID))
		if err != nil || len(list) == 0 {
			continue
		}
		out = &page.Notified{Silenced: !slices.ContainsFunc(list, func(l notify.Listed) bool { return !l.Silenced() })}
		for i := range list {
			for _, r := range list[i].Receivers {
				if !slices.Contains(out.Receivers, r.Name) {
					out.Receivers = append(out.Receivers, r.Name)
				}
			}
		}
		break
	}
	return out
}

// jobs tells of the jobs that run.
func (a *App) jobs() api.Jobs { return a.current.Load().jobs }

// jobLinks gives where else there is something to read about a running job.
func (a *App) jobLinks(job identity.Job) []page.Link {
	base := a.current.Load().config.GrafanaURL
	if base == "" {
		return nil
	}
	return []page.Link{{Text: "Job in Grafana", URL: lastHour(base, jobDashboard, job, url.Values{})}}
}

// rankURL gives where the dashboard of a rank of a running job is; empty where nobody told where Grafana is.
func (a *App) rankURL(job identity.Job, rank int) string {
	base := a.current.Load().config.GrafanaURL
	if base == "" {
		return ""
	}
	return lastHour(base, rankDashboard, job, url.Values{"var-rank": {strconv.Itoa(rank)}})
}

func lastHour(base, uid string, job identity.Job, q url.Values) string {
	setJob(q, job)
	q.Set("from", "now-1h")
	q.Set("to", "now")
	return strings.TrimRight(base, "/") + "/d/" + uid + "?" + q.Encode()
}

// commOf gives the communicator in which a job is in trouble, as series have it: that of the transfer that stands, else a trigger's.
func commOf(inc *incident.Incident) string {
	if inc.Flow != nil {
		return inc.Flow.CommID
	}
	for i := range inc.Triggers {
		if c := inc.Triggers[i].Comm; c != "" {
			return c
		}
	}
	return ""
}

// setJob sets the variables of the dashboards by which they take one job.
func setJob(q url.Values, job identity.Job) {
	q.Set("var-job_id", job.ID)
	for name, value := range job.Labels() {
		q.Set("var-"+name, value)
	}
}

// window gives the time around an incident as Grafana takes it.
func window(inc *incident.Incident) (from, to string) {
	to = "now"
	if inc.ResolvedAt != nil {
		to = strconv.FormatInt(inc.ResolvedAt.Add(aroundIncident).UnixMilli(), 10)
	}
	return strconv.FormatInt(inc.OpenedAt.Add(-aroundIncident).UnixMilli(), 10), to
}

// dashboard gives the address of a dashboard at the time of an incident.
func dashboard(base, uid string, inc *incident.Incident, vars map[string]string) string {
	from, to := window(inc)
	q := url.Values{"from": {from}, "to": {to}}
	setJob(q, inc.Job())
	for name, value := range vars {
		q.Set("var-"+name, value)
	}
	return strings.TrimRight(base, "/") + "/d/" + uid + "?" + q.Encode()
}

// warning says on every page what an operator should know of the configuration.
func (a *App) warning() string {
	if a.current.Load().config.ExternalURL == "" {
		return "No external URL is set: pages that Culprit sends carry no link to this page. Start the analyzer with --web.external-url."
	}
	return ""
}
