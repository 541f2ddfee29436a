// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/culprit-project/culprit/exporter/control"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// maxEventsBody bounds the body of a request for events.
const maxEventsBody = 1024

// RegisterControl adds the path that changes what running jobs report. It is for those who allow that.
func (a *API) RegisterControl(mux *http.ServeMux) {
	mux.Handle("PUT "+nodeapi.EventsPath, a.control.Limit(fromPrograms(a.putEvents)))
	mux.Handle("DELETE "+nodeapi.EventsPath, a.control.Limit(fromPrograms(func(w http.ResponseWriter, r *http.Request) { a.setEvents(w, r, "") })))
}

// fromPrograms refuses what a page has a browser send. No page of the exporter changes anything, so it is another site's, also where that
// site has let its own name lead here.
func fromPrograms(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			http.Error(w, "this is for programs: a page may change nothing", http.StatusForbidden)
			return
		}
		h(w, r)
	})
}

// RegisterNoControl has that path say why it does nothing.
func (a *API) RegisterNoControl(mux *http.ServeMux) {
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "control of running jobs is not enabled: see --web.enable-control", http.StatusForbidden)
	}
	mux.HandleFunc("PUT "+nodeapi.EventsPath, refuse)
	mux.HandleFunc("DELETE "+nodeapi.EventsPath, refuse)
}

func (a *API) putEvents(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEventsBody))
	if err != nil {
		http.Error(w, "reading the events: "+err.Error(), http.StatusBadRequest)
		return
	}
	events := strings.TrimSpace(string(body))
	if err := control.Check(events); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.setEvents(w, r, events)
}

func (a *API) setEvents(w http.ResponseWriter, r *http.Request, events string) {
	q, err := parseQuery(r.URL.Query())
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case len(q.JobIDs) == 0:
		http.Error(w, "job_id is required: say whose events to change", http.StatusBadRequest)
		return
	}
	answer := nodeapi.Events{Version: nodeapi.Version, Node: a.sampler.HostName(), Processes: a.sampler.SetEvents(q, events)}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case len(answer.Processes) == 0:
		w.WriteHeader(http.StatusNotFound)
	case failed(answer.Processes):
		w.WriteHeader(http.StatusConflict)
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.log.Debug("Writing events", "remote", r.RemoteAddr, "err", err)
	}
}

// failed tells whether nobody could be asked.
func failed(list []nodeapi.Controlled) bool {
	for _, c := range list {
		if c.Error == "" {
			return false
		}
	}
	return true
}
