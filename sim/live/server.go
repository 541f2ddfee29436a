// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Handler serves all nodes: /NODE/metrics, /NODE/api/v1/state and /NODE/api/v1/trace as the exporter of that node
// would, and /sd for Prometheus's HTTP service discovery, which gives every node an instance label that is its address.
// A node that is lost closes the connection without an answer.
func (c *Cluster) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sd", c.discovery)
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK\n") })
	for _, n := range c.nodes {
		at := "GET /" + n.name
		mux.HandleFunc(at+"/metrics", n.serve((*Node).serveMetrics))
		mux.HandleFunc(at+nodeapi.StatePath, n.serve((*Node).serveState))
		mux.HandleFunc(at+nodeapi.TracePath, n.serve((*Node).serveTrace))
	}
	return mux
}

// target is an entry of Prometheus's HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func (c *Cluster) discovery(w http.ResponseWriter, r *http.Request) {
	list := make([]target, 0, len(c.nodes))
	for _, n := range c.nodes {
		list = append(list, target{
			Targets: []string{r.Host},
			Labels:  map[string]string{"__metrics_path__": "/" + n.name + "/metrics", "instance": r.Host + "/" + n.name, "node": n.name},
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// serve answers for a node, and breaks the connection off when it is lost, as a host does that is not there.
func (n *Node) serve(answer func(*Node, http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !n.Answers() {
			panic(http.ErrAbortHandler)
		}
		if err := answer(n, w, r); err != nil {
			n.c.log.Debug("Answering for a simulated node", "node", n.name, "path", r.URL.Path, "err", err)
		}
	}
}

func (n *Node) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	h, err := n.metrics()
	if err != nil {
		return err
	}
	h.ServeHTTP(w, r)
	return nil
}

// filter is what an answer of the node API is narrowed to; empty lists match everything.
type filter struct {
	jobs    []string
	ranks   []int32
	comms   []trace.CommID
	noFlows bool
}

func parseFilter(r *http.Request) (filter, error) {
	q := r.URL.Query()
	f := filter{jobs: q["job_id"], noFlows: q.Get("flows") == "none"}
	for _, s := range q["rank"] {
		v, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return f, fmt.Errorf("rank %q is not a number", s)
		}
		f.ranks = append(f.ranks, int32(v))
	}
	for _, s := range q["comm"] {
		var id trace.CommID
		if err := id.UnmarshalText([]byte(s)); err != nil {
			return f, fmt.Errorf("comm %q is not a hexadecimal number", s)
		}
		f.comms = append(f.comms, id)
	}
	return f, nil
}

// wants tells whether a process is asked for, and leaves in it the communicators that are.
func (f *filter) wants(p *nodeapi.Process) bool {
	if len(f.jobs) > 0 && !slices.Contains(f.jobs, p.JobID) || len(f.ranks) > 0 && !slices.Contains(f.ranks, p.Rank) {
		return false
	}
	if f.noFlows {
		p.Flows = nil
	}
	if len(f.comms) == 0 {
		return true
	}
	kept := map[uint32]bool{}
	p.Comms = slices.DeleteFunc(p.Comms, func(c trace.Comm) bool {
		kept[c.Index] = slices.Contains(f.comms, c.ID)
		return !kept[c.Index]
	})
	p.Ops = slices.DeleteFunc(p.Ops, func(o trace.Op) bool { return !kept[o.CommIndex] })
	p.Flows = slices.DeleteFunc(p.Flows, func(l trace.Flow) bool { return !kept[l.CommIndex] })
	p.Completions = slices.DeleteFunc(p.Completions, func(c trace.Completion) bool { return !kept[c.CommIndex] })
	return len(p.Comms) > 0
}

// narrow leaves in a state what is asked for.
func (f *filter) narrow(st *nodeapi.State) {
	kept := st.Processes[:0]
	for i := range st.Processes {
		if f.wants(&st.Processes[i]) {
			kept = append(kept, st.Processes[i])
		}
	}
	st.Processes = kept
}

func (n *Node) serveState(w http.ResponseWriter, r *http.Request) error {
	f, err := parseFilter(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	st, err := n.State()
	if err != nil {
		return err
	}
	f.narrow(st)
	w.Header().Set("Content-Type", "application/json")
	body, finish := compressed(w, r)
	if err := json.NewEncoder(body).Encode(st); err != nil {
		return err
	}
	return finish()
}

func (n *Node) serveTrace(w http.ResponseWriter, r *http.Request) error {
	f, err := parseFilter(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	last, limit := time.Hour, int64(200_000)
	if s := r.URL.Query().Get("last"); s != "" {
		if last, err = time.ParseDuration(s); err != nil || last < 0 {
			http.Error(w, fmt.Sprintf("last %q is not a duration such as 30s", s), http.StatusBadRequest)
			return nil
		}
	}
	if s := r.URL.Query().Get("limit"); s != "" {
		if limit, err = strconv.ParseInt(s, 10, 64); err != nil || limit < 1 {
			http.Error(w, fmt.Sprintf("limit %q is not a number", s), http.StatusBadRequest)
			return nil
		}
	}
	// The simulation must not wait for a slow reader: the lines are gathered first.
	lines, err := n.lines(&f, last, limit)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/jsonl")
	body, finish := compressed(w, r)
	enc := json.NewEncoder(body)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return finish()
}

// lines gives the wanted lines of the answer to GET /api/v1/trace.
func (n *Node) lines(f *filter, last time.Duration, limit int64) ([]*nodeapi.TraceLine, error) {
	var out []*nodeapi.TraceLine
	wanted := map[string]bool{}
	records := int64(0)
	truncated := false
	err := n.Trace(last, func(l *nodeapi.TraceLine) error {
		switch {
		case l.Process != nil:
			wanted[l.Process.File] = f.wants(l.Process)
			if !wanted[l.Process.File] {
				return nil
			}
		case l.Completion != nil, l.Sample != nil:
			if !f.record(l, wanted) {
				return nil
			}
			if records++; records > limit {
				truncated = true
				return nil
			}
		case l.Trailer != nil:
			l.Trailer.Records, l.Trailer.Truncated = min(records, limit), truncated
		}
		out = append(out, l)
		return nil
	})
	return out, err
}

func (f *filter) record(l *nodeapi.TraceLine, wanted map[string]bool) bool {
	if l.Sample != nil {
		return wanted[l.Sample.File]
	}
	return wanted[l.Completion.File] && (len(f.comms) == 0 || slices.Contains(f.comms, l.Completion.CommID))
}

// compressed gives where to write the body, gzipped when the client takes that, and what to call at the end.
func compressed(w http.ResponseWriter, r *http.Request) (io.Writer, func() error) {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return w, func() error { return nil }
	}
	w.Header().Set("Content-Encoding", "gzip")
	zw := gzip.NewWriter(w)
	return zw, zw.Close
}

// Run lets simulated time pass with real time, speed times as fast, from where the job stands on. It returns when ctx or
// the run ends.
func (c *Cluster) Run(ctx context.Context, speed float64, tick time.Duration) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	from, start := c.Now(), time.Now()
	late := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		want := from + time.Duration(float64(time.Since(start))*speed)
		before := c.Now()
		if err := c.Advance(ctx, want); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		now := c.Now()
		if now == before && now < want {
			c.log.Info("The run is over", "at", now)
			return nil
		}
		behind := time.Duration(float64(time.Since(start))*speed) - (now - from)
		if slow := behind > lateAfter; slow != late {
			late = slow
			c.log.Warn("The simulation is slower than real time", "late", late, "behind", behind)
		}
	}
}

const lateAfter = 5 * time.Second
