// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/jobs"
	"github.com/culprit-project/culprit/analyzer/page"
)

func (a *API) index(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	err := page.WriteIndex(&b, a.incidents.List(), page.ParseFilter(r.URL.Query()), page.Options{Now: time.Now(), Warning: a.opt.warning()})
	a.render(w, &b, err)
}

func (a *API) page(w http.ResponseWriter, r *http.Request) {
	inc, ok := a.incidents.Get(r.PathValue("id"))
	if !ok {
		http.Error(w, "no such incident", http.StatusNotFound)
		return
	}
	var b bytes.Buffer
	o := page.Options{Now: time.Now(), Warning: a.opt.warning(), Links: a.links(&inc), Similar: page.Similar(&inc, a.incidents.List())}
	o.User, o.MayAct = access.Client(r.Context())
	if a.opt.Actions != nil {
		o.Actions = a.opt.Actions(inc.ID)
	}
	if a.opt.SilenceURL != nil && inc.State == incident.Open {
		o.Silence = a.opt.SilenceURL(&inc)
	}
	a.ask(r.Context(), &inc, &o)
	err := page.WriteIncident(&b, &inc, o)
	a.render(w, &b, err)
}

// ask queries Prometheus and Alertmanager at the same time for what the page of an incident shows of them. Without an answer the page leaves
// it out: it is needed most while they are in trouble.
func (a *API) ask(ctx context.Context, inc *incident.Incident, o *page.Options) {
	var wg sync.WaitGroup
	if a.opt.Notified != nil && inc.State == incident.Open {
		wg.Go(func() { o.Notified = a.opt.Notified(ctx, inc) })
	}
	if unit, from, to := page.Around(inc, o.Now); a.opt.Jobs != nil && unit != "" {
		wg.Go(func() {
			trend, err := a.opt.Jobs().Trend(ctx, inc.Job(), unit, from, to)
			if err != nil {
				a.logger.Debug("graph of an incident left out", "incident", inc.ID, "err", err)
			}
			o.Trend = trend
		})
	}
	wg.Wait()
}

// jobs answers GET /jobs?q=.
func (a *API) jobs(w http.ResponseWriter, r *http.Request) {
	if a.opt.Jobs == nil {
		http.NotFound(w, r)
		return
	}
	failed := ""
	list, err := a.opt.Jobs().List(r.Context())
	if err != nil {
		failed = "The running jobs are not known: " + err.Error() + "."
	}
	var b bytes.Buffer
	err = page.WriteJobs(&b, list, a.incidents.List(), r.URL.Query().Get("q"), failed, page.Options{Warning: a.opt.warning()})
	a.render(w, &b, err)
}

// jobPage answers GET /job?id=, with further labels of the job's identity.
func (a *API) jobPage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id := a.job(q.Get("id"), q.Get)
	if a.opt.Jobs == nil || id.ID == "" {
		http.NotFound(w, r)
		return
	}
	j, err := a.opt.Jobs().Get(r.Context(), id, time.Now())
	switch {
	case errors.Is(err, jobs.ErrUnknown):
		http.Error(w, "Prometheus knows no such job.", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, "Prometheus did not answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	o := page.Options{Warning: a.opt.warning()}
	if a.opt.JobLinks != nil {
		o.Links = a.opt.JobLinks(id)
	}
	if a.opt.RankURL != nil {
		o.RankURL = func(rank int) string { return a.opt.RankURL(id, rank) }
	}
	var b bytes.Buffer
	err = page.WriteJob(&b, j, a.incidents.List(), o)
	a.render(w, &b, err)
}

// links gives where else there is something to read about an incident.
func (a *API) links(inc *incident.Incident) []page.Link {
	out := []page.Link{{Text: "JSON", URL: "../api/v1/incidents/" + inc.ID}}
	if a.opt.Evidence != nil {
		if _, ok := a.opt.Evidence.Size(inc.ID); ok {
			out = append(out, page.Link{Text: "Evidence, for culprit-analyzer analyze", URL: "../api/v1/incidents/" + inc.ID + "/evidence.tar.gz"},
				page.Link{Text: "Timeline, for ui.perfetto.dev", URL: "../api/v1/incidents/" + inc.ID + "/timeline.json"})
		}
	}
	if a.opt.Links != nil {
		out = append(out, a.opt.Links(inc)...)
	}
	return out
}

func (a *API) script(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(page.Script)
}

func (a *API) render(w http.ResponseWriter, b *bytes.Buffer, err error) {
	if err != nil {
		a.logger.Error("page not rendered", "err", err)
		http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", page.Policy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = b.WriteTo(w)
}
