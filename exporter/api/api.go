// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package api serves what the exporter knows to the analyzer and to people: GET /api/v1/state (now) and GET
// /api/v1/trace (history). docs/node-api.md documents it; package nodeapi has the types.
package api

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/exporter/history"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Facts gives the node's own evidence.
type Facts interface {
	Facts() []nodeapi.Fact
}

// API serves the HTTP API.
type API struct {
	log     *slog.Logger
	version string
	sampler *node.Sampler
	store   *history.Store
	facts   []Facts
	now     func() time.Time

	// Scrapes have places of their own, too.
	present, past, control, scrapes, looks *access.Pool
	refused                                *prometheus.CounterVec
	connections                            *access.Connections
	closed                                 *prometheus.CounterVec
}

const (
	// maxConnections and maxClientConnections bound the connections of all and of one client, of up to 50 KB each; Prometheus has one.
	maxConnections, maxClientConnections = 256, 128
	// maxSilence is how long a connection may take until a request of it got in.
	maxSilence = 10 * time.Second
)

// New makes the API of an exporter of the given version.
func New(log *slog.Logger, version string, sampler *node.Sampler, store *history.Store, facts ...Facts) *API {
	a := &API{log: log, version: version, sampler: sampler, store: store, facts: facts, now: time.Now}
	a.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "culprit_exporter_requests_refused_total",
		Help: "Requests that were refused because too many answers were being made, or the client had its share.",
	}, []string{"kind"})
	a.closed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "culprit_exporter_connections_closed_total",
		Help: "Connections that were closed because no request of them got in for too long (silent), or there were too many in all or of their client (crowded).",
	}, []string{"reason"})
	for _, reason := range access.ClosedReasons() {
		a.closed.WithLabelValues(reason)
	}
	a.connections = access.NewConnections(maxConnections, maxClientConnections, maxSilence, func(reason string) { a.closed.WithLabelValues(reason).Inc() })
	pool := func(kind string, places int, timeout time.Duration) *access.Pool {
		return access.NewPool(places, places/2, timeout, a.refused.WithLabelValues(kind).Inc)
	}
	a.present, a.past = pool("state", 8, 15*time.Second), pool("history", 4, MaxAnswer)
	a.control, a.scrapes = pool("control", 2, 15*time.Second), pool("metrics", 8, 15*time.Second)
	a.looks = pool("look", 4, 15*time.Second)
	return a
}

// MaxAnswer is how long any answer takes at most.
const MaxAnswer = time.Minute

// Refused counts the requests that had to go without an answer.
func (a *API) Refused() prometheus.Collector { return a.refused }

// Closed counts the connections that were closed.
func (a *API) Closed() prometheus.Collector { return a.closed }

// Guard bounds the connections of the server that serves the API.
func (a *API) Guard(srv *http.Server) { a.connections.Guard(srv) }

// Scrape gives what serves metrics its places.
func (a *API) Scrape(h http.Handler) http.Handler { return a.scrapes.Limit(h) }

// Register adds the API's paths to mux.
func (a *API) Register(mux *http.ServeMux) {
	mux.Handle("GET "+nodeapi.StatePath, a.present.Limit(http.HandlerFunc(a.state)))
	mux.Handle("GET "+nodeapi.TracePath, a.past.Limit(http.HandlerFunc(a.trace)))
}

func (a *API) state(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	nowNS, processes := a.sampler.State(q)
	head := nodeapi.State{
		Version: nodeapi.Version, Exporter: a.version, Node: a.sampler.HostName(), AtUnixNS: a.now().UnixNano(), NowNS: nowNS,
		Unread: a.sampler.Unread(),
	}
	for _, f := range a.facts {
		head.Facts = append(head.Facts, f.Facts()...)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	body, finish := compressed(w, r)
	err = writeState(body, head, processes)
	if err := errors.Join(err, finish()); err != nil {
		a.log.Debug("Writing state", "remote", r.RemoteAddr, "err", err)
	}
}

// writeState writes a State process by process, so that only one is in memory.
func writeState(w io.Writer, head nodeapi.State, processes func(func(nodeapi.Process) bool)) error {
	b, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	before, after, ok := strings.Cut(string(b), `"processes":null`)
	if !ok {
		return errors.New("encoding state: no place for the processes")
	}
	if _, err := io.WriteString(w, before+`"processes":[`); err != nil {
		return err
	}
	first := true
	for p := range processes {
		item, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("encoding process %s: %w", p.File, err)
		}
		if !first {
			item = append([]byte{','}, item...)
		}
		first = false
		if _, err := w.Write(item); err != nil {
			return err
		}
	}
	_, err = io.WriteString(w, "]"+after+"\n")
	return err
}

// compressed gives where to write the body, gzipped when the client takes that, and what to call at the end.
func compressed(w http.ResponseWriter, r *http.Request) (io.Writer, func() error) {
	w.Header().Add("Vary", "Accept-Encoding")
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") && strings.ReplaceAll(params, " ", "") != "q=0" {
			w.Header().Set("Content-Encoding", "gzip")
			// The fastest level: the exporter shares its node with a training job.
			zw, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
			if err == nil {
				return zw, zw.Close
			}
		}
	}
	return w, func() error { return nil }
}

func parseQuery(v url.Values) (node.Query, error) {
	q := node.Query{JobIDs: v["job_id"]}
	for _, s := range v["rank"] {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return q, fmt.Errorf("rank %q is not a number", s)
		}
		q.Ranks = append(q.Ranks, int32(n))
	}
	for _, s := range v["comm"] {
		var id trace.CommID
		if err := id.UnmarshalText([]byte(s)); err != nil {
			return q, fmt.Errorf("comm %q is not a hexadecimal number", s)
		}
		q.Comms = append(q.Comms, id)
	}
	switch f := v.Get("flows"); f {
	case "", "active":
	case "all":
		q.Flows = node.FlowsAll
	case "none":
		q.Flows = node.FlowsNone
	default:
		return q, fmt.Errorf("flows %q is none of active, all, none", f)
	}
	return q, nil
}
