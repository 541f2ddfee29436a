// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/internal/ports"
	"github.com/culprit-project/culprit/sim/stack"
)

// hostile is what stands beside an honest cluster: exporters that lie, and anybody else who gets series into Prometheus.
type hostile struct {
	t   *testing.T
	dir string

	mu      sync.Mutex
	targets []string // Exporters that Prometheus scrapes.
	pushed  string   // Series that a Pushgateway has, or a stranger shows.
}

// lie rewrites what an exporter answers; nil: it tells the truth.
type lie func(path string, body []byte) []byte

// liar is an exporter that is compromised.
type liar struct {
	name, addr string
	lie        atomic.Pointer[lie]
}

func (l *liar) start(lie lie) { l.lie.Store(&lie) }

// exporter runs a real exporter on a folder, behind somebody who may rewrite its answers.
func (h *hostile) exporter(name, traces string) *liar {
	h.t.Helper()
	addrs, err := ports.Free(1)
	if err != nil {
		h.t.Fatal(err)
	}
	// Jobs of several users make their folders there.
	if err := errors.Join(os.MkdirAll(traces, 0o755), os.Chmod(traces, os.ModeSticky|0o777), os.Chmod(filepath.Dir(traces), os.ModeSticky|0o777)); err != nil {
		h.t.Fatal(err)
	}
	root, err := repositoryRoot()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, "bin", "culprit-exporter"), "--web.listen-address="+addrs[0], "--trace.dir="+traces, "--host-name="+name, "--no-trace.search")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	l := &liar{name: name}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: addrs[0]})
		r.Out.Header.Set("Accept-Encoding", "identity")
	}}
	proxy.ModifyResponse = func(r *http.Response) error {
		lie := l.lie.Load()
		if lie == nil {
			return nil
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(r.Body); err != nil {
			return err
		}
		body := (*lie)(r.Request.URL.Path, b.Bytes())
		r.Body, r.ContentLength = nopCloser{bytes.NewReader(body)}, int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	}
	server := httptest.NewServer(proxy)
	h.t.Cleanup(server.Close)
	l.addr = server.Listener.Addr().String()
	h.mu.Lock()
	h.targets = append(h.targets, l.addr)
	h.mu.Unlock()
	return l
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Path == "/sd" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode([]map[string]any{{"targets": append([]string{}, h.targets...)}})
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = fmt.Fprint(w, h.pushed)
}

// as gives a launcher that runs jobs as a user.
func (h *hostile) as(user int) string {
	h.t.Helper()
	if user == 0 {
		return ""
	}
	root, err := repositoryRoot()
	if err != nil {
		h.t.Fatal(err)
	}
	file := filepath.Join(h.dir, fmt.Sprintf("as-%d", user))
	text := fmt.Sprintf("#!/bin/sh\nexec setpriv --reuid=%[1]d --regid=%[1]d --clear-groups %[2]s \"$@\"\n", user, filepath.Join(root, "bin", "ringjob"))
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		h.t.Fatal(err)
	}
	return file
}

// names has an exporter call its host otherwise.
func names(of, other string, paths ...string) lie {
	return func(path string, body []byte) []byte {
		for _, p := range paths {
			if strings.HasPrefix(path, p) {
				return bytes.ReplaceAll(body, []byte(`"`+of+`"`), []byte(`"`+other+`"`))
			}
		}
		return body
	}
}

// TestLiars has real jobs watched by exporters of which some lie about their host, always or only when something is wrong; by a Pushgateway that
// passes for one; and run under one name by several users. No host, rank or user of others is named, and nobody but exporters is asked.
func TestLiars(t *testing.T) {
	if !*long {
		t.Skip("needs -e2e.long (test-e2e-long); unit tests have each of these lies by itself")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "culprit-liars-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // Other users' jobs go through it.
		t.Fatal(err)
	}
	h := &hostile{t: t, dir: dir}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	// What nobody may ask, with the exporters' password or without.
	var asked, told atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			told.Add(1)
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(evil.Close)
	t.Cleanup(func() { // After all of the cases.
		if n := asked.Load(); n > 0 {
			t.Errorf("an address of an attacker's was asked %d times, %d of them with the exporters' password", n, told.Load())
		}
	})
	evilAddr := evil.Listener.Addr().String()

	config := filepath.Join(h.dir, "analyzer.yml")
	if err := os.WriteFile(config, []byte("analysis: {patience: {at_least: 15s}}\nexporters: {http_config: {basic_auth: {username: culprit, password: secret}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pushgateway := fmt.Sprintf("{job_name: pushgateway, honor_labels: true, static_configs: [{targets: ['%s']}]}", server.Listener.Addr())
	var pushed strings.Builder
	const ours = `job="culprit-exporter"`
	fmt.Fprintf(&pushed, "culprit_exporter_build_info{%s,instance=%q,host=\"node0\",version=\"1\"} 1\nup{%[1]s,instance=%[2]q} 1\n", ours, evilAddr)
	for _, id := range []string{"pushed", "truth"} {
		for rank := range 4 {
			of := fmt.Sprintf("%s,instance=%q,job_id=%q,rank=\"%d\",owner=\"0\"", ours, evilAddr, id, rank)
			fmt.Fprintf(&pushed, "culprit_nccl_process_info{%s,host=\"node0\",uid=\"0\",world_size=\"4\",pid=\"%d\"} 1\nculprit_nccl_process_up{%[1]s} 1\n", of, 100+rank)
		}
	}
	h.pushed = pushed.String()
	s := startStack(t, stack.Config{Hosts: fewHosts, Analyzer: config, Discovery: []string{server.URL + "/sd"}, Scrapes: []string{pushgateway}})

	t.Run("pushed", func(t *testing.T) {
		t.Parallel()
		if err := s.WaitSeries(waiting(t), fmt.Sprintf("culprit_exporter_build_info{instance=%q,job=\"culprit-exporter\"}", evilAddr), 1); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			incident, err := s.Analyze(ctx, "pushed") // Of a job that nobody is known to run there may be no verdict.
			cancel()
			if err == nil && incident.Verdict != nil && (incident.Verdict.Page || len(incident.Verdict.Culprits) > 0) {
				t.Errorf("verdict on a made-up job: %+v", incident.Verdict)
			}
		}
	})

	for _, tc := range []struct {
		name  string
		names [2]string // What the exporters call their hosts.
		lies  func(l [2]*liar)
		late  bool // Only when the fault begins.
	}{
		{name: "renamed", names: [2]string{"a0", "node0"}},
		{name: "pair", names: [2]string{"node0", "node0"}},
		{name: "dotted", names: [2]string{"node0.example.org", "NODE0"}},
		{name: "late", names: [2]string{"l0", "l1"}, late: true, lies: func(l [2]*liar) { l[1].start(names("l1", "node0", "/")) }},
		{name: "answers", names: [2]string{"s0", "s1"}, lies: func(l [2]*liar) { l[1].start(names("s1", "node0", "/api")) }},
		{name: "metrics", names: [2]string{"m0", "m1"}, late: true, lies: func(l [2]*liar) { l[1].start(names("m1", "node0", "/metrics")) }},
		{name: "truth", names: [2]string{"t0", "t1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const rank = 3
			dir := filepath.Join(h.dir, tc.name)
			var l [2]*liar
			for i, name := range tc.names {
				l[i] = h.exporter(name, filepath.Join(dir, fmt.Sprintf("host%d", i)))
			}
			if tc.lies != nil && !tc.late {
				tc.lies(l)
			}
			cfg := few(0, tc.name, "stop", rank)
			cfg.Dir = dir
			j := startJobOn(t, s, cfg)
			j.train(t, healthySteps)
			if err := s.WaitSeries(waiting(t), fmt.Sprintf("culprit_nccl_process_info{job_id=%q,instance!=%q}", tc.name, evilAddr), 4); err != nil {
				t.Fatal(err)
			}
			j.inject(t)
			if tc.late {
				tc.lies(l)
			}
			page, err := s.WaitPageThat(waiting(t), tc.name, func(p *stack.Page) bool { return p.OfVerdict() })
			if err != nil {
				t.Fatalf("%v\n%s", err, j.describe(t))
			}
			incident := j.incident(t, func(v *rca.Verdict) bool { return v.Page })
			t.Logf("%v\n%s\nmissing %q", page.Labels, incident.Verdict.Summary, incident.Verdict.Missing)
			for _, p := range s.Pages(tc.name) {
				if host := strings.ToLower(p.Labels["host"]); strings.HasPrefix(host, "node0") || strings.Contains(p.Annotations["summary"], "on node0") {
					t.Errorf("paged for a host of others, %v: %s", p.Labels, p.Annotations["summary"])
				}
				if r := p.Labels["rank"]; r != "" && r != fmt.Sprint(rank) {
					t.Errorf("paged for rank %s", r)
				}
				if _, _, err := net.SplitHostPort(p.Labels["host"]); tc.name == "truth" && (p.Labels["host"] != "t1" || err == nil) {
					t.Errorf("paged for host %s", p.Labels["host"])
				}
			}
		})
	}
	// Others take the job's name: another user on its nodes or elsewhere, before it begins or when it is in trouble; or an exporter that shows
	// processes of the same user.
	type namesake struct {
		user  int
		apart bool // On hosts of its own.
		late  bool // When the fault has begun.
	}
	for _, tc := range []struct {
		name   string
		user   int
		others []namesake
		silent bool // Nobody may be named.
	}{
		{name: "first", user: 1001, others: []namesake{{user: 1002}}},
		{name: "several", user: 1001, others: []namesake{{user: 1002, apart: true, late: true}, {user: 1003, late: true}}},
		{name: "younger", others: []namesake{{apart: true, late: true}}, silent: true},
		{name: "elder", others: []namesake{{apart: true}}, silent: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const rank = 3
			dirs := [2]string{filepath.Join(h.dir, tc.name), filepath.Join(h.dir, tc.name+"-apart")}
			for i, dir := range dirs {
				for host := range fewHosts {
					h.exporter(fmt.Sprintf("%s%d%d", tc.name, i, host), filepath.Join(dir, fmt.Sprintf("host%d", host)))
				}
			}
			start := func(user int, dir, fault string) *job {
				cfg := few(0, tc.name, fault, rank)
				cfg.Dir, cfg.Launcher = dir, h.as(user)
				return startJobOn(t, s, cfg)
			}
			others := func(late bool) {
				for _, o := range tc.others {
					if o.late != late {
						continue
					}
					dir := dirs[0]
					if o.apart {
						dir = dirs[1]
					}
					j := start(o.user, dir, "")
					j.train(t, healthySteps)
					j.rest()
				}
			}
			others(false)
			if len(tc.others) > 0 && !tc.others[0].late {
				if err := s.WaitSeries(waiting(t), fmt.Sprintf("culprit_nccl_process_info{job_id=%q,instance!=%q}", tc.name, evilAddr), 4); err != nil {
					t.Fatal(err)
				}
			}
			j := start(tc.user, dirs[0], "stop")
			j.train(t, healthySteps)
			owner := fmt.Sprint(tc.user)
			if err := s.WaitSeries(waiting(t), fmt.Sprintf("job_id:culprit_nccl_launch_pause_seconds:usual{job_id=%q,owner=%q}", tc.name, owner), 1); err != nil {
				t.Fatal(err)
			}
			if _, err := j.Inject(waiting(t)); err != nil {
				t.Fatal(err)
			}
			j.rest()
			others(true)
			page, err := s.WaitPageThat(waiting(t), tc.name, func(p *stack.Page) bool {
				return p.OfVerdict() && p.Labels["owner"] == owner && (p.Labels["rank"] != "" || tc.silent)
			})
			if err != nil {
				t.Fatalf("%v\n%s", err, j.describe(t))
			}
			t.Logf("%v\n%s", page.Labels, page.Annotations["summary"])
			for _, p := range s.Pages(tc.name) {
				if r := p.Labels["rank"]; r != "" && (r != fmt.Sprint(rank) || p.Labels["host"] != tc.name+"01" || p.Labels["owner"] != owner) {
					t.Errorf("paged for an innocent, %v: %s", p.Labels, p.Annotations["summary"])
				}
			}
		})
	}
}
