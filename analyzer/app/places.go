// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/access"
)

// maxAnswer is how long any answer takes at most, but for streams of events.
const maxAnswer = 2 * time.Minute

const (
	// maxConnections and maxClientConnections bound the connections of all and of one client, of up to 50 KB each. Browsers may come by one proxy.
	maxConnections, maxClientConnections = 1024, 512
	// maxSilence is how long a connection may take until a request of it got in.
	maxSilence = 10 * time.Second
	// maxHeader bounds a request's header in bytes. It is read before anybody has proved who they are.
	maxHeader = 64 << 10
)

// newConnections bounds connections, and counts those that it closes.
func newConnections(reg *prometheus.Registry) *access.Connections {
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "culprit_analyzer_connections_closed_total",
		Help: "Connections that were closed because no request of them got in for too long (silent), or there were too many in all or of their client (crowded).",
	}, []string{"reason"})
	reg.MustRegister(closed)
	for _, reason := range access.ClosedReasons() {
		closed.WithLabelValues(reason)
	}
	return access.NewConnections(maxConnections, maxClientConnections, maxSilence, func(reason string) { closed.WithLabelValues(reason).Inc() })
}

// places bounds what clients have done at a time, kind by kind. A client has half of a kind's places.
type places map[string]*access.Pool

func newPlaces(reg *prometheus.Registry) places {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "culprit_analyzer_requests_refused_total",
		Help: "Requests that were refused because too many answers were being made, or the client had its share.",
	}, []string{"kind"})
	reg.MustRegister(refused)
	p := places{}
	for _, kind := range []struct {
		name    string
		places  int
		timeout time.Duration
	}{
		{"alerts", 16, 15 * time.Second}, // Each may take many times its size in memory.
		{"analyze", 64, maxAnswer},       // They wait for verdicts.
		{"evidence", 4, maxAnswer},
		{"timeline", 2, maxAnswer}, // Evidence, unpacked.
		{"events", 256, 0},         // As long as a page is open.
		{"metrics", 16, 15 * time.Second},
		{"pages", 32, 30 * time.Second},
	} {
		p[kind.name] = access.NewPool(kind.places, kind.places/2, kind.timeout, refused.WithLabelValues(kind.name).Inc)
	}
	return p
}

// kindOf gives the kind of a request.
func kindOf(r *http.Request) string {
	path := r.URL.Path
	switch {
	case path == "/api/v1/alerts":
		return "alerts"
	case r.Method == http.MethodPost:
		return "analyze"
	case strings.HasSuffix(path, "/evidence.tar.gz"):
		return "evidence"
	case strings.HasSuffix(path, "/timeline.json"):
		return "timeline"
	case path == "/api/v1/events":
		return "events"
	case path == "/metrics":
		return "metrics"
	}
	return "pages"
}

// limit gives each request a place of its kind. Whether the service lives is told to whoever asks.
func (p places) limit(next http.Handler) http.Handler {
	limited := map[string]http.Handler{}
	for kind, pool := range p {
		limited[kind] = pool.Limit(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/-/") {
			next.ServeHTTP(w, r)
			return
		}
		limited[kindOf(r)].ServeHTTP(w, r)
	})
}
