// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// namesakes are jobs of one name, by their owners, under one Prometheus.
type namesakes map[string]*cluster

func newNamesakes(t *testing.T, owners ...string) namesakes {
	n := namesakes{}
	for _, owner := range owners {
		c := newCluster(t, 2)
		c.labels = func(int) map[string]string { return map[string]string{"owner": owner, "uid": owner} }
		n[owner] = c
	}
	return n
}

// own says in the exporters' answers whose processes they are.
func (n namesakes) own() {
	for owner, c := range n {
		c.change(func() {
			for _, p := range c.processes {
				p.UID = owner
			}
		})
	}
}

var ownerMatcher = regexp.MustCompile(`owner=~"([0-9]+)\|"`)

// prometheus answers for one owner where a query is about one, and else for all.
func (n namesakes) prometheus(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := ownerMatcher.FindStringSubmatch(r.FormValue("query")); m != nil && n[m[1]] != nil {
			n[m[1]].query(w, r)
			return
		}
		type data struct {
			ResultType string            `json:"resultType"`
			Result     []json.RawMessage `json:"result"`
		}
		all := struct {
			Status string `json:"status"`
			Data   data   `json:"data"`
		}{"success", data{"vector", []json.RawMessage{}}}
		for _, c := range n {
			one, part := httptest.NewRecorder(), all
			part.Data = data{}
			c.query(one, r)
			if err := json.Unmarshal(one.Body.Bytes(), &part); err != nil {
				t.Error(err)
			}
			all.Data.Result = append(all.Data.Result, part.Data.Result...)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(all)
	}))
	t.Cleanup(s.Close)
	return s
}

// Users ran jobs under the name of another user's job before it came, on nodes of their own. When that one hangs, its culprit is named all
// the same, and the page says who else has the name.
func TestJobsOfOneName(t *testing.T) {
	n, am := newNamesakes(t, "1001", "1002", "1003"), newAlertmanager(t)
	n["1002"].hang(1, nodeapi.ProcessGone)
	n.own()
	cfg := quick(n["1002"], am)
	cfg.Prometheus.URL = n.prometheus(t).URL
	a := start(t, cfg, "")
	a.push(0, trouble("CulpritJobStalled", "owner", "1002"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	page := am.verdicts()[0]
	if page.Labels["alertname"] != "CulpritFound" || page.Labels["rank"] != "1" || page.Labels["owner"] != "1002" {
		t.Errorf("the page is %v", page.Labels)
	}
	if !strings.Contains(page.Annotations["description"], "users 1001 and 1002 and 1003 run jobs of this name; this is the job of user 1002") {
		t.Errorf("the page does not say who else has the name: %s", page.Annotations["description"])
	}
	inc := a.incidents()[0]
	if inc.JobLabels["owner"] != "1002" || len(inc.Verdict.Culprits) != 1 || inc.Verdict.Culprits[0].Rank != 1 {
		t.Errorf("the incident is %+v", inc)
	}
	var html string
	a.get("/incidents/"+inc.ID, &html)
	if !strings.Contains(html, "owner 1002") || !strings.Contains(html, "users 1001 and 1002 and 1003") {
		t.Error("the incident's page does not tell whose job it is")
	}
}

// Jobs of one name and two users hang at once. Each has its own page, with its own rank.
func TestTwoOwnersInTrouble(t *testing.T) {
	n, am := newNamesakes(t, "1001", "1002"), newAlertmanager(t)
	n["1001"].hang(0, nodeapi.ProcessStopped)
	n["1002"].hang(1, nodeapi.ProcessGone)
	n.own()
	cfg := quick(n["1002"], am)
	cfg.Prometheus.URL = n.prometheus(t).URL
	a := start(t, cfg, "")
	a.push(0, trouble("CulpritJobStalled", "owner", "1002"), trouble("CulpritJobStalled", "owner", "1001"))
	want := map[string]string{"1001": "0", "1002": "1"}
	eventually(t, "both pages", func() bool {
		got := map[string]string{}
		for _, v := range am.verdicts() {
			got[v.Labels["owner"]] = v.Labels["rank"]
		}
		return maps.Equal(got, want)
	})
	if list := a.incidents(); len(list) != 2 {
		t.Errorf("%d incidents", len(list))
	}
}

// A rule of the site's own tells no owner, and several have the name. It pages, and names the users.
func TestTriggerWithoutOwner(t *testing.T) {
	n, am := newNamesakes(t, "1001", "1002"), newAlertmanager(t)
	n["1002"].hang(1, nodeapi.ProcessGone)
	n.own()
	cfg := quick(n["1002"], am)
	cfg.Prometheus.URL = n.prometheus(t).URL
	cfg.Analysis.Patience = config.Patience{AtLeast: model.Duration(time.Millisecond), Factor: 1, AtMost: model.Duration(time.Millisecond)}
	a := start(t, cfg, "")
	a.push(0, trouble("TheirOwnRule"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	page := am.verdicts()[0]
	if page.Labels["alertname"] != "CulpritUnknown" || page.Labels["rank"] != "" || page.Labels["host"] != "" {
		t.Errorf("the page is %v", page.Labels)
	}
	for _, text := range []string{page.Annotations["summary"], page.Annotations["description"]} {
		if !strings.Contains(text, "users 1001 and 1002 run processes of this name") {
			t.Errorf("the users are not named: %s", text)
		}
	}
}

// Where one user has the name, it is that one's job: the incident is the one that the shipped rules open.
func TestOwnerIsFoundForATrigger(t *testing.T) {
	n, am := newNamesakes(t, "1002"), newAlertmanager(t)
	n["1002"].hang(1, nodeapi.ProcessGone)
	n.own()
	cfg := quick(n["1002"], am)
	cfg.Prometheus.URL = n.prometheus(t).URL
	a := start(t, cfg, "")
	eventually(t, "the job to be known", func() bool {
		return len(a.app.current.Load().diagnoser.Gatherer.Directory.Owners(identity.Job{ID: jobID})) == 1
	})
	a.push(0, trouble("TheirOwnRule"), trouble("CulpritJobStalled", "owner", "1002"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	if list := a.incidents(); len(list) != 1 || list[0].JobLabels["owner"] != "1002" || len(list[0].Triggers) != 2 {
		t.Errorf("incidents are %+v", list)
	}
}

// A target that is no exporter shows ranks of the job, with a password to be got. It is never asked, and its ranks count for nothing.
func TestStrangersAreNotAsked(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessGone)
	var asked atomic.Int64
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, password, sent := r.BasicAuth(); sent {
			t.Errorf("the stranger has the password %q", password)
		}
	}))
	t.Cleanup(stranger.Close)
	at := strings.TrimPrefix(stranger.URL, "http://")
	// Prometheus has its series beside those of the exporters.
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		if strings.Contains(query, "culprit_nccl_process_info") && !strings.Contains(query, `job="culprit-exporter"`) && !strings.Contains(query, "unless") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"1"],"metric":{"job":"annotated","job_id":"` + jobID +
				`","rank":"1","host":"node-0","instance":"` + at + `","world_size":"4","pid":"7"}}]}}`))
			return
		}
		c.query(w, r)
	}))
	t.Cleanup(prometheus.Close)
	cfg := quick(c, am)
	cfg.Prometheus.URL = prometheus.URL
	cfg.Exporters.HTTPConfig.BasicAuth = &promconfig.BasicAuth{Username: "analyzer", Password: "secret"}
	a := start(t, cfg, "")
	a.push(0, trouble("CulpritJobStalled"), trouble("CulpritJobStalled", "instance", at))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	if got := am.verdicts()[0].Labels["rank"]; got != "1" {
		t.Errorf("the page names rank %s", got)
	}
	var html string
	a.get("/job?id="+jobID, &html)
	if n := asked.Load(); n != 0 {
		t.Errorf("the stranger was asked %d times", n)
	}
}

// Every selector says whose series it reads: those of our exporters, or what the rules record.
func TestQueriesReadOurSeriesAlone(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessGone)
	a := start(t, quick(c, am), "")
	a.push(0, trouble("CulpritJobStalled"), trouble("CulpritIterationSlow", "kind", "slow"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	var html string
	a.get("/job?id="+jobID, &html)
	a.get("/jobs", &html)
	c.mu.Lock()
	defer c.mu.Unlock()
	checkSelectors(t, c.queries)
	all := config.Default().Prometheus.Queries
	for _, text := range []string{all.Triggers, all.Evaluated, all.Slowdown, all.LongestWait, all.LongestPause, all.Waits, all.Kernels, all.RunDelay, all.Pace, all.Started} {
		query, err := config.QueryBefore(text, `x="y"`, time.Minute, 0)
		if err != nil {
			query, err = config.QueryOver(text, `x="y"`, time.Minute)
		}
		if err != nil {
			t.Fatal(err)
		}
		checkSelectors(t, []string{query})
	}
}

// A target can give any label but those of the scrape configuration. Facts about a host come from targets that cannot choose which host that
// is, or from the scrape job of the exporter that says so.
func TestFactsAreNotAnybodys(t *testing.T) {
	for _, q := range config.Default().Prometheus.NodeEvidence {
		text, err := q.Fill([]string{"node-0"})
		if err != nil {
			t.Fatal(err)
		}
		bound := `{job=~".*dcgm.*",Hostname=`
		if q.Host == "instance" {
			bound = "{instance="
		}
		if got := strings.Count(text, bound); got == 0 || got != strings.Count(text, "{") {
			t.Errorf("%s of %s: %s reads anybody's series", q.Kind, q.Component, text)
		}
	}
}

var selectors = regexp.MustCompile(`((?:job_id:)?culprit_[a-z_:]+|ALERTS[A-Z_]*)(\{[^}]*\})?`)

func checkSelectors(t *testing.T, queries []string) {
	t.Helper()
	for _, query := range queries {
		for _, m := range selectors.FindAllStringSubmatch(query, -1) {
			want := `job="culprit-exporter"`
			if strings.HasPrefix(m[1], "job_id:") || strings.HasPrefix(m[1], "ALERTS") {
				want = `job=""`
			}
			if !strings.Contains(m[2], want) {
				t.Errorf("%s%s reads anybody's series: %s", m[1], m[2], query)
			}
		}
	}
}

// An exporter gives the name of another host, always or only while it is asked in an incident. That host is not named, and nothing is done
// to it; the page says why.
func TestClaimedHostIsNotNamed(t *testing.T) {
	for _, tc := range []struct {
		name      string
		told      bool // Its series have the name, too,
		silent    bool // or none.
		liars     int
		wantTexts []string
	}{
		{"in all that it shows", true, false, 1, []string{"host node-0: the exporters at"}},
		{"several", true, false, 2, []string{"host node-0: the exporters at"}},
		{"to the analyzer alone", false, false, 1, nil},
		{"to the analyzer alone, and its series have none", false, true, 1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, am, r := newCluster(t, 3), newAlertmanager(t), newReceiver(t)
			c.hang(2, nodeapi.ProcessStopped) // On the liar's host, node-1.
			at := func(n int) string { return strings.TrimPrefix(c.nodes[n].server.URL, "http://") }
			hosts := map[int]string{}
			c.change(func() {
				for n := 1; n <= tc.liars; n++ {
					for _, p := range c.processes[n*ranksPerNode : (n+1)*ranksPerNode] {
						p.Host = "node-0"
					}
					hosts[n] = "node-0"
					switch {
					case tc.silent:
						hosts[n] = ""
					case !tc.told:
						hosts[n] = c.nodes[n].name
					}
				}
				c.labels = func(rank int) map[string]string {
					if told, lies := hosts[rank/ranksPerNode]; lies {
						return map[string]string{"host": told}
					}
					return nil
				}
				if tc.told {
					for n := 0; n <= tc.liars; n++ {
						c.claims = append(c.claims, map[string]string{"host": "node-0", "instance": at(n)})
					}
				}
			})
			cfg := withActions(quick(c, am), r)
			a := start(t, cfg, t.TempDir())
			a.push(0, trouble("CulpritJobStalled"))
			eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
			page := am.verdicts()[0]
			if host := page.Labels["host"]; page.Labels["rank"] != "2" || host == "node-0" || strings.Contains(page.Annotations["culprits"], "on node-0") {
				t.Errorf("the page is %v: %s", page.Labels, page.Annotations["culprits"])
			}
			for _, text := range tc.wantTexts {
				if !strings.Contains(page.Annotations["description"], text) {
					t.Errorf("the page does not say %q: %s", text, page.Annotations["description"])
				}
				if v := a.incidents()[0].Verdict; !slices.ContainsFunc(v.Missing, func(m string) bool { return strings.Contains(m, text) }) {
					t.Errorf("missing is %q", v.Missing)
				}
			}
			if v := a.incidents()[0].Verdict; v.Cause != rca.CauseProcessStopped {
				t.Errorf("the cause is %s", v.Cause)
			}
			a.stop()
			for _, req := range r.requests() {
				if slices.Contains(req.Hosts, "node-0") {
					t.Errorf("an action on %v", req.Hosts)
				}
			}
		})
	}
}

// Of two analyzers with one folder only one runs, until it ends.
func TestOneAnalyzerAFolder(t *testing.T) {
	c, storage := newCluster(t, 1), t.TempDir()
	first := start(t, quick(c), storage)
	if _, err := hold(storage); err == nil || !strings.Contains(err.Error(), "--storage.path") {
		t.Errorf("a second one: %v", err)
	}
	first.stop()
	var free *lock
	var err error
	if free, err = hold(storage); err != nil {
		t.Fatalf("after its end: %v", err)
	}
	var wg sync.WaitGroup
	var got atomic.Int64
	free.release()
	for range 8 {
		wg.Go(func() {
			if l, err := hold(storage); err == nil {
				got.Add(1)
				t.Cleanup(l.release)
			}
		})
	}
	wg.Wait()
	if got.Load() != 1 {
		t.Errorf("%d of eight have the folder", got.Load())
	}
}
