// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// keepAlive is how often something is sent although nothing has changed, so that proxies do not end a stream.
	keepAlive = 20 * time.Second
	// sendTimeout bounds how long a page may take to read that it is out of date.
	sendTimeout = 30 * time.Second
)

// events tells a page by server-sent events that it is out of date: at every change of one incident, or of any.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("incident")
	changed := a.incidents.Changes() // Before the state is looked at, so that no change falls between.
	seen, ok := a.updated(id)
	if !ok {
		http.Error(w, "no such incident", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	if !send(w, out, "retry: 5000\n\n") {
		return
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-a.ended:
			return
		case <-alive.C:
			if !send(w, out, ": nothing new\n\n") {
				return
			}
		case <-changed:
			changed = a.incidents.Changes()
			now, known := a.updated(id)
			if known && id != "" && now.Equal(seen) {
				continue
			}
			seen = now
			if !send(w, out, "event: change\ndata: {}\n\n") || !known {
				return
			}
		}
	}
}

// updated gives when an incident last changed; none is meant: always now.
func (a *API) updated(id string) (time.Time, bool) {
	if id == "" {
		return time.Now(), true
	}
	inc, ok := a.incidents.Get(id)
	return inc.UpdatedAt, ok
}

func send(w http.ResponseWriter, out *http.ResponseController, text string) bool {
	_ = out.SetWriteDeadline(time.Now().Add(sendTimeout)) // Writers that cannot be bounded are a test's.
	if _, err := fmt.Fprint(w, text); err != nil {
		return false
	}
	return out.Flush() == nil
}

// End ends the streams, which would go on for as long as pages are open.
func (a *API) End() { a.end() }
