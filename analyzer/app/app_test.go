// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"go.uber.org/goleak"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),    // Idle connections.
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), // The same.
	)
}

// analyzer is an analyzer in process.
type analyzer struct {
	t      *testing.T
	app    *App
	server *httptest.Server
	reg    *prometheus.Registry
	stop   func()
}

func quick(c *cluster, ams ...*alertmanager) *config.Config {
	cfg := config.Default()
	cfg.Prometheus.URL = c.prometheus.URL
	for _, am := range ams {
		cfg.Alertmanager.URLs = append(cfg.Alertmanager.URLs, am.server.URL)
	}
	cfg.ExternalURL = "http://culprit.example.org"
	cfg.Incidents.Grace = model.Duration(20 * time.Millisecond)
	cfg.Incidents.RetryMin = model.Duration(10 * time.Millisecond)
	cfg.Incidents.RetryMax = model.Duration(50 * time.Millisecond)
	cfg.Incidents.LookBack = model.Duration(50 * time.Millisecond)
	cfg.Analysis.ConfirmAfter = model.Duration(time.Millisecond)
	cfg.Notify.Resend = model.Duration(time.Minute)
	return cfg
}

func start(t *testing.T, cfg *config.Config, storage string) *analyzer {
	t.Helper()
	return startLogging(t, cfg, storage, promslog.NewNopLogger())
}

func startLogging(t *testing.T, cfg *config.Config, storage string, logger *slog.Logger) *analyzer {
	t.Helper()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	app, err := New(cfg, storage, logger, reg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); app.Run(ctx) }()
	a := &analyzer{t: t, app: app, reg: reg, server: httptest.NewServer(app.Handler())}
	stopped := false
	a.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-done
			a.server.Close()
		}
	}
	t.Cleanup(a.stop)
	return a
}

// alert is one alert of a notification.
type alert struct {
	status string
	labels map[string]string
	start  time.Time
}

func trouble(name string, labels ...string) alert {
	a := alert{status: "firing", start: time.Now(), labels: map[string]string{"alertname": name, "job_id": jobID, "culprit": "trigger", "kind": "hang", "severity": "none"}}
	for i := 0; i < len(labels); i += 2 {
		a.labels[labels[i]] = labels[i+1]
	}
	return a
}

func (a alert) resolved() alert {
	a.status = "resolved"
	return a
}

// push sends a notification as Alertmanager does and gives the status.
func (a *analyzer) push(truncated int, alerts ...alert) int {
	a.t.Helper()
	type wire struct {
		Status       string            `json:"status"`
		Labels       map[string]string `json:"labels"`
		Annotations  map[string]string `json:"annotations"`
		StartsAt     time.Time         `json:"startsAt"`
		EndsAt       time.Time         `json:"endsAt"`
		GeneratorURL string            `json:"generatorURL"`
	}
	body := map[string]any{
		"receiver": "culprit", "status": "firing", "version": "4", "groupKey": "{}", "truncatedAlerts": truncated,
		"groupLabels": map[string]string{"job_id": jobID}, "notification_reason": "first notification",
	}
	var list []wire
	for _, al := range alerts {
		w := wire{Status: al.status, Labels: al.labels, StartsAt: al.start}
		if al.status == "resolved" {
			w.EndsAt = time.Now()
		}
		list = append(list, w)
	}
	body["alerts"] = list
	text, err := json.Marshal(body)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.post("/api/v1/alerts", string(text), nil)
}

func (a *analyzer) post(path, body string, into any) int {
	a.t.Helper()
	resp, err := http.Post(a.server.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	return a.read(resp, into)
}

func (a *analyzer) get(path string, into any) int {
	a.t.Helper()
	resp, err := http.Get(a.server.URL + path)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.read(resp, into)
}

func (a *analyzer) read(resp *http.Response, into any) int {
	a.t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	switch into := into.(type) {
	case nil:
	case *string:
		*into = string(text)
	default:
		if err := json.Unmarshal(text, into); err != nil {
			a.t.Fatalf("%s: %v", text, err)
		}
	}
	return resp.StatusCode
}

func (a *analyzer) incidents() []incident.Incident {
	a.t.Helper()
	var out struct{ Incidents []incident.Incident }
	if code := a.get("/api/v1/incidents", &out); code != http.StatusOK {
		a.t.Fatalf("incidents: status %d", code)
	}
	return out.Incidents
}

// The whole way (X3): a trigger comes in, the culprit's page goes out, and ends with the trigger.
func TestTriggerToPage(t *testing.T) {
	c, am1, am2 := newCluster(t, 4), newAlertmanager(t), newAlertmanager(t)
	c.hang(5, nodeapi.ProcessStopped)
	a := start(t, quick(c, am1, am2), "")

	stall := trouble("NCCLStall", "rank", "3")
	begin := time.Now()
	if code := a.push(0, stall); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	for _, am := range []*alertmanager{am1, am2} {
		eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	}
	t.Logf("from trigger to page %s", time.Since(begin))
	page := am1.verdicts()[0]
	for label, want := range map[string]string{
		"alertname": "CulpritFound", "culprit": "verdict", "severity": "critical", "job_id": jobID, "rank": "5", "host": "node-2", "gpu": "1",
		"class": string(rca.NotEntered), "cause": string(rca.CauseProcessStopped),
	} {
		if got := page.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	id := page.Labels["incident"]
	if want := "http://culprit.example.org/incidents/" + id; page.Annotations["link"] != want {
		t.Errorf("link is %q, want %q", page.Annotations["link"], want)
	}
	if !strings.Contains(page.Annotations["summary"], "5") || page.Annotations["description"] == "" {
		t.Errorf("annotations are %q", page.Annotations)
	}

	// Said again, and by the other peer: nothing new.
	a.push(0, stall)
	a.push(0, stall, trouble("NCCLStall", "rank", "4"))
	eventually(t, "both triggers", func() bool { return len(a.incidents()[0].Triggers) == 2 })
	if list := a.incidents(); len(list) != 1 || list[0].ID != id {
		t.Fatalf("incidents: %+v", list)
	}

	a.push(0, stall.resolved())
	a.push(0, trouble("NCCLStall", "rank", "4").resolved())
	eventually(t, "the end", func() bool { return a.incidents()[0].State == incident.Resolved })
	for _, am := range []*alertmanager{am1, am2} {
		eventually(t, "the end of the page", func() bool { return len(am.verdicts()) == 0 })
	}
}

func TestPages(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessGone)
	a := start(t, quick(c, am), "")
	a.push(0, trouble("NCCLStall"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	id := a.incidents()[0].ID
	for path, want := range map[string]string{
		"/":                 "incidents/" + id,
		"/incidents/" + id:  `<span class="cell culprit"`,
		"/-/healthy":        "healthy",
		"/-/ready":          "ready",
		"/metrics":          fmt.Sprintf(`culprit_verdict_info{cause="process_gone",class="not_entered",gpu="1",host="node-0",incident=%q`, id),
		"/incidents/nobody": "no such incident",
	} {
		var text string
		a.get(path, &text)
		if !strings.Contains(text, want) {
			t.Errorf("%s does not contain %q:\n%s", path, want, text)
		}
	}
}

// Alerts about other alerts carry the labels of those, and are no triggers; nor is what a route sends here by mistake.
func TestOnlyTriggersAreTriggers(t *testing.T) {
	alert := func(labels ...string) webhook.Alert {
		a := webhook.Alert{Status: "firing", Labels: map[string]string{"job_id": "j", "culprit": "trigger", "kind": "hang", "severity": "none"}}
		for i := 0; i < len(labels); i += 2 {
			a.Labels[labels[i]] = labels[i+1]
		}
		return a
	}
	alerts := []webhook.Alert{
		alert("alertname", "CulpritJobStalled"),
		alert("alertname", "InfoInhibitor", "alertstate", "firing", "severity", "none"),
		alert("alertname", "InfoInhibitor", "culprit", ""),
		alert("alertname", "KubePodCrashLooping", "culprit", "", "kind", ""),
		alert("alertname", "CulpritExporterDown", "culprit", "health", "kind", ""),
		alert("alertname", "Unfinished", "kind", ""),
		alert("alertname", "Odd", "kind", "loud"),
		alert("alertname", "Mine", "alertstate", "firing"),
		alert("alertname", "CulpritFound", "culprit", "verdict"),
	}
	out, ignored := Triggers(alerts, config.Default().Labels, time.Now())
	if len(out) != 1 || out[0].Name != "CulpritJobStalled" || out[0].Kind != incident.Hang || ignored != 2 {
		t.Errorf("triggers are %+v, %d ignored", out, ignored)
	}
}
