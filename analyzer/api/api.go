// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the analyzer's HTTP face: the JSON API and the pages for people.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/jobs"
	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/page"
	"github.com/culprit-project/culprit/analyzer/timeline"
)

// maxBody bounds a request's body, bytes.
const maxBody = 1 << 16

// maxWait bounds how long a request may wait for its verdict.
const maxWait = time.Minute

// Incidents is what the API needs of the incidents.
type Incidents interface {
	Receive(triggers []incident.Trigger) error
	NextPassive() int
	OpenFor(job identity.Job) (incident.Incident, bool)
	Get(id string) (incident.Incident, bool)
	List() []incident.Incident
	Wait(ctx context.Context, id string, after int) (incident.Incident, error)
	// Judge keeps what a person says of an incident's verdict.
	Judge(id string, f incident.Feedback) error
	// Changes gives a channel that is closed when any incident next changes.
	Changes() <-chan struct{}
}

// Options are what pages show beside incidents. All may be left out.
type Options struct {
	Links   func(*incident.Incident) []page.Link // Where else to look.
	Warning func() string                        // Of what is missing in the configuration.
	// Evidence is what is kept of what verdicts rest on; nil: nothing.
	Evidence Evidence
	// Actions gives what rules did about an incident, or with an empty id about all; nil: there are none.
	Actions func(id string) []action.Entry
	// Jobs tells of jobs that run, and JobLinks where else there is something to read about one; nil: nothing is told.
	Jobs     func() Jobs
	JobLinks func(id identity.Job) []page.Link
	// JobLabels gives the labels that belong to a job's identity beside its id; nil: there are none.
	JobLabels func() []string
	// Whose completes the identity of a job that was named without its owner; nil: it stays as it is.
	Whose func(identity.Job) identity.Job
	// RankURL gives where there is more of a rank of a running job, empty nowhere; nil: nowhere.
	RankURL func(job identity.Job, rank int) string
	// SilenceURL gives where people silence an incident's alerts, empty nowhere; nil: nowhere.
	SilenceURL func(*incident.Incident) string
	// Notified tells to whom Alertmanager routes an incident's alerts; nil: nothing is told.
	Notified func(context.Context, *incident.Incident) *page.Notified
}

// Jobs tells of jobs that run.
type Jobs interface {
	List(ctx context.Context) ([]jobs.Listed, error)
	Get(ctx context.Context, id identity.Job, now time.Time) (*jobs.Job, error)
	Trend(ctx context.Context, id identity.Job, unit jobs.Unit, from, to time.Time) (*jobs.Trend, error)
}

// Evidence gives archives of what the standing verdicts of incidents rest on.
type Evidence interface {
	Open(id string) (io.ReadCloser, int64, error)
	Size(id string) (int64, bool)
}

func (o *Options) warning() string {
	if o.Warning == nil {
		return ""
	}
	return o.Warning()
}

// API serves incidents.
type API struct {
	incidents Incidents
	opt       Options
	logger    *slog.Logger
	ended     chan struct{}
	end       func()
}

// New makes an API over incidents.
func New(incidents Incidents, opt Options, logger *slog.Logger) *API {
	a := &API{incidents: incidents, opt: opt, logger: logger, ended: make(chan struct{})}
	a.end = sync.OnceFunc(func() { close(a.ended) })
	return a
}

// Register adds the routes.
func (a *API) Register(mux *http.ServeMux) {
	mux.HandleFunc("POST /api/v1/analyze", a.analyze)
	mux.HandleFunc("GET /api/v1/incidents", a.list)
	mux.HandleFunc("GET /api/v1/incidents/{id}", a.get)
	mux.HandleFunc("GET /api/v1/incidents/{id}/evidence.tar.gz", a.evidence)
	mux.HandleFunc("POST /api/v1/incidents/{id}/feedback", a.judge)
	mux.HandleFunc("GET /api/v1/feedback", a.feedback)
	mux.HandleFunc("GET /api/v1/actions", a.actions)
	mux.HandleFunc("GET /api/v1/incidents/{id}/timeline.json", a.timeline)
	mux.HandleFunc("GET /api/v1/events", a.events)
	mux.HandleFunc("GET /jobs", a.jobs)
	mux.HandleFunc("GET /job", a.jobPage)
	mux.HandleFunc("GET /live.js", a.script)
	mux.HandleFunc("GET /{$}", a.index)
	mux.HandleFunc("GET /incidents/{id}", a.page)
}

// AnalyzeRequest asks for an analysis (M13).
type AnalyzeRequest struct {
	JobID string `json:"job_id"`
	// JobLabels are the further labels of the job's identity, where labels.job has some.
	JobLabels map[string]string `json:"job_labels,omitempty"`
	Comm      string            `json:"comm,omitempty"`
	Rank      *int              `json:"rank,omitempty"`
	// Reason is shown as the trigger's name.
	Reason string `json:"reason,omitempty"`
}

// analyze answers POST /api/v1/analyze. With ?wait=10s it answers with the incident once it has been analysed, else at
// once with 202 and where to look.
func (a *API) analyze(w http.ResponseWriter, r *http.Request) {
	req, err := readAnalyze(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		a.fail(w, http.StatusBadRequest, err)
		return
	}
	var wait time.Duration
	if text := r.URL.Query().Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 {
			a.fail(w, http.StatusBadRequest, fmt.Errorf("wait=%q is no duration", text))
			return
		}
	}
	before := 0
	job := a.job(req.JobID, func(name string) string { return req.JobLabels[name] })
	if inc, open := a.incidents.OpenFor(job); open {
		before = inc.Count
	}
	now := time.Now()
	t := incident.Trigger{
		Key: "api-" + strconv.FormatInt(now.UnixMilli(), 36) + "-" + strconv.Itoa(a.incidents.NextPassive()), Name: "API request",
		JobID: job.ID, JobLabels: job.Labels(), Rank: -1, Comm: req.Comm, Passive: true, StartedAt: now,
	}
	if req.Rank != nil {
		t.Rank = *req.Rank
	}
	if req.Reason != "" {
		t.Name = req.Reason
	}
	if err := a.incidents.Receive([]incident.Trigger{t}); err != nil {
		a.fail(w, http.StatusServiceUnavailable, err)
		return
	}
	inc, open := a.incidents.OpenFor(job)
	if !open {
		a.fail(w, http.StatusInternalServerError, errors.New("the incident has gone"))
		return
	}
	code := http.StatusAccepted
	if wait > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), min(wait, maxWait))
		defer cancel()
		if inc, err = a.incidents.Wait(ctx, inc.ID, before); err == nil {
			code = http.StatusOK
		}
	}
	w.Header().Set("Location", "/api/v1/incidents/"+inc.ID)
	a.write(w, code, inc)
}

func (a *API) jobLabels() []string {
	if a.opt.JobLabels == nil {
		return nil
	}
	return a.opt.JobLabels()
}

// job gives the identity of the job that a request is about; value gives its further labels.
func (a *API) job(id string, value func(name string) string) identity.Job {
	labels := map[string]string{}
	for _, name := range a.jobLabels() {
		labels[name] = value(name)
	}
	job := identity.New(id, labels)
	if a.opt.Whose != nil {
		return a.opt.Whose(job)
	}
	return job
}

func readAnalyze(r io.Reader) (AnalyzeRequest, error) {
	var req AnalyzeRequest
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return req, fmt.Errorf("reading the request: %w", err)
	}
	if req.JobID == "" {
		return req, errors.New("job_id is missing")
	}
	return req, nil
}

// IncidentList answers GET /api/v1/incidents.
type IncidentList struct {
	Version   int                 `json:"version"`
	Incidents []incident.Incident `json:"incidents"`
}

// list answers GET /api/v1/incidents; job_id, and the filters of the page, narrow it. The ranks are left out: each incident has them.
func (a *API) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	out := IncidentList{Version: incident.Version, Incidents: []incident.Incident{}}
	filter := page.ParseFilter(q)
	filter.Severity = cmp.Or(filter.Severity, "all") // Programs are given what they do not ask to be hidden.
	for _, inc := range a.incidents.List() {
		if job := q.Get("job_id"); job != "" && inc.JobID != job {
			continue
		}
		if slices.ContainsFunc(a.jobLabels(), func(name string) bool { return q.Has(name) && q.Get(name) != inc.JobLabels[name] }) {
			continue
		}
		if !filter.Takes(&inc) {
			continue
		}
		inc.Ranks = nil
		out.Incidents = append(out.Incidents, inc)
	}
	a.write(w, http.StatusOK, out)
}

func (a *API) get(w http.ResponseWriter, r *http.Request) {
	inc, ok := a.incidents.Get(r.PathValue("id"))
	if !ok {
		a.fail(w, http.StatusNotFound, errors.New("no such incident"))
		return
	}
	a.write(w, http.StatusOK, inc)
}

// evidence answers GET /api/v1/incidents/{id}/evidence.tar.gz, which `culprit-analyzer analyze` reads.
func (a *API) evidence(w http.ResponseWriter, r *http.Request) {
	inc, archive, size := a.archive(w, r)
	if archive == nil {
		return
	}
	defer archive.Close()
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.Header().Set("Content-Disposition", `attachment; filename="culprit-`+inc.ID+`.tar.gz"`)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, err := io.Copy(w, archive); err != nil {
		a.logger.Debug("answer not written", "err", err)
	}
}

// archive opens what is kept of the incident that a request is about; nil: nothing is, and the answer has been written.
func (a *API) archive(w http.ResponseWriter, r *http.Request) (incident.Incident, io.ReadCloser, int64) {
	inc, ok := a.incidents.Get(r.PathValue("id"))
	if !ok || a.opt.Evidence == nil {
		a.fail(w, http.StatusNotFound, errors.New("no such incident"))
		return inc, nil, 0
	}
	archive, size, err := a.opt.Evidence.Open(inc.ID)
	switch {
	case errors.Is(err, kept.ErrNotKept):
		a.fail(w, http.StatusNotFound, err)
		return inc, nil, 0
	case err != nil:
		a.logger.Error("evidence not served", "incident", inc.ID, "err", err)
		a.fail(w, http.StatusInternalServerError, errors.New("the evidence cannot be read"))
		return inc, nil, 0
	}
	return inc, archive, size
}

// timeline answers GET /api/v1/incidents/{id}/timeline.json: a trace that Perfetto opens.
func (a *API) timeline(w http.ResponseWriter, r *http.Request) {
	inc, archive, _ := a.archive(w, r)
	if archive == nil {
		return
	}
	defer archive.Close()
	record, err := kept.Read(archive)
	if err != nil {
		a.logger.Error("timeline not served", "incident", inc.ID, "err", err)
		a.fail(w, http.StatusInternalServerError, errors.New("the evidence cannot be read"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="culprit-`+inc.ID+`-timeline.json"`)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := timeline.Write(w, &record.Evidence, &record.Verdict); err != nil {
		a.logger.Debug("answer not written", "err", err)
	}
}

func (a *API) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		a.logger.Debug("answer not written", "err", err)
	}
}

func (a *API) fail(w http.ResponseWriter, code int, err error) {
	a.write(w, code, struct {
		Error string `json:"error"`
	}{err.Error()})
}
