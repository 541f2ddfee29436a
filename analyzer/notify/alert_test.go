// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
)

var update = flag.Bool("update", false, "write the golden files anew")

func format() *Format {
	return &Format{
		Hang: Style{"CulpritFound", "critical"}, Slow: Style{"CulpritSlow", "warning"}, Unknown: Style{"CulpritUnknown", "info"},
		Warning: Style{"CulpritSuspected", "warning"}, MaxAlerts: 3, ExternalURL: "https://culprit.example.org/",
		Runbook: template.Must(template.New("").Parse("https://runbooks.example.org/{{ .Class }}#{{ .Cause }}")),
		Labels:  map[string]string{"team": "infra", "job_id": "not this"},
	}
}

func paged(culprits ...rca.Culprit) *incident.Incident {
	at := time.Date(2026, 11, 21, 2, 31, 0, 0, time.UTC)
	return &incident.Incident{
		ID: "abcdefghijkl", JobID: "train-7", State: incident.Open, OpenedAt: at.Add(-time.Second), VerdictAt: &at,
		Verdict: &rca.Verdict{
			Version: 1, JobID: "train-7", Class: rca.NotEntered, Code: "H1", Cause: rca.CauseProcessStopped, Culprits: culprits, Confidence: 0.971,
			Summary: "Rank 5 on node-2 is stopped and all others wait for it.", Page: true, Action: "Continue or restart it.",
			Evidence: []string{"its process is stopped", "7 ranks wait in AllReduce 100"},
			Chain: []rca.Link{
				{From: 3, To: 5, Reason: "it has not entered", Comm: "abc/8", Op: "AllReduce 100", Sure: true},
				{From: 5, To: 5, Reason: "stopped"},
			},
			Contradictions: []string{"none of note"}, Missing: []string{"exporter node-9"},
		},
	}
}

func TestAlertsGolden(t *testing.T) {
	for name, inc := range map[string]*incident.Incident{
		"one": paged(rca.Culprit{Rank: 5, Host: "node-2", GPU: "1", NIC: "mlx5_0", Pod: "trainer-2", Why: "stopped"}),
		"two": paged(rca.Culprit{Rank: 5, Host: "node-2", GPU: "1"}, rca.Culprit{Rank: -1, Group: "rail 2", Channel: -1}),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(format().Alerts(inc), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".golden.json", append(got, '\n'))
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s differs (go test -update writes it):\n%s", file, got)
	}
}

func TestNoAlert(t *testing.T) {
	for name, change := range map[string]func(*incident.Incident){
		"resolved":       func(i *incident.Incident) { i.State = incident.Resolved },
		"no verdict":     func(i *incident.Incident) { i.Verdict = nil },
		"pages nobody":   func(i *incident.Incident) { i.Verdict.Page = false },
		"benign verdict": func(i *incident.Incident) { i.Verdict.Page, i.Verdict.Class = false, rca.Benign },
	} {
		inc := paged(rca.Culprit{Rank: 5})
		change(inc)
		if got := format().Alerts(inc); got != nil {
			t.Errorf("%s: alerts %+v", name, got)
		}
	}
}

func TestPlaces(t *testing.T) {
	var sameHost, manyHosts []rca.Culprit
	for r := range 12 {
		sameHost = append(sameHost, rca.Culprit{Rank: r, Host: fmt.Sprint("h", r/6), GPU: fmt.Sprint(r % 6)})
		manyHosts = append(manyHosts, rca.Culprit{Rank: r, Host: fmt.Sprint("h", r)})
	}
	for _, tc := range []struct {
		name     string
		culprits []rca.Culprit
		want     []place
	}{
		{"nobody", nil, []place{{}}},
		{"one", []rca.Culprit{{Rank: 0, Host: "h", GPU: "1"}}, []place{{rank: "0", host: "h", gpu: "1"}}},
		{"one twice", []rca.Culprit{{Rank: 4, Host: "h"}, {Rank: 4, Host: "h", Channel: 2}}, []place{{rank: "4", host: "h"}}},
		{"a host", []rca.Culprit{{Rank: -1, Host: "h"}}, []place{{host: "h"}}},
		{
			"ranks of one process",
			[]rca.Culprit{{Rank: 4, Host: "h", GPU: "0", PID: 7}, {Rank: 5, Host: "h", GPU: "1", PID: 7}, {Rank: 5, Host: "g", GPU: "1", PID: 7}},
			[]place{{rank: "4-5", host: "h", gpu: "0-1"}, {rank: "5", host: "g", gpu: "1"}},
		},
		{
			"two faults in one process",
			[]rca.Culprit{{Rank: 4, Host: "h", PID: 7}, {Rank: 5, Host: "h", PID: 7, Class: rca.Fault, Cause: rca.CauseGPU}},
			[]place{{rank: "4", host: "h"}, {rank: "5", host: "h", class: rca.Fault, cause: rca.CauseGPU}},
		},
		{"two hosts' ranks", sameHost, []place{{rank: "0-5", host: "h0"}, {rank: "6-11", host: "h1"}}},
		{"everybody", manyHosts, []place{{}}},
		{
			"two faults",
			[]rca.Culprit{{Rank: 1, Host: "a"}, {Rank: 5, Host: "b", Class: rca.Fault, Cause: rca.CauseProcessGone, Action: "Read the log."}},
			[]place{{rank: "1", host: "a"}, {rank: "5", host: "b", class: rca.Fault, cause: rca.CauseProcessGone, action: "Read the log."}},
		},
	} {
		if got := format().places(&rca.Verdict{Culprits: tc.culprits}); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
	// However the alerts are cut, each names all.
	inc := paged(manyHosts...)
	for _, a := range format().Alerts(inc) {
		for r := range manyHosts {
			if !strings.Contains(a.Annotations["culprits"], fmt.Sprintf("rank %d on h%d", r, r)) {
				t.Errorf("rank %d is not in %q", r, a.Annotations["culprits"])
			}
		}
	}
}

// TestAlertsOfTwoFaults: each alert has its own culprit's class, cause, action and runbook.
func TestAlertsOfTwoFaults(t *testing.T) {
	inc := paged(
		rca.Culprit{Rank: 3, Host: "node-1"},
		rca.Culprit{Rank: 5, Host: "node-2", Class: rca.SlowComm, Cause: rca.CauseNetworkSend, Action: "Check its NIC."},
	)
	alerts := format().Alerts(inc)
	if len(alerts) != 2 {
		t.Fatalf("%d alerts, want 2", len(alerts))
	}
	for i, want := range []struct{ rank, cause, severity, action, runbook string }{
		{"3", "process_stopped", "critical", "Do: Continue or restart it.", "not_entered#process_stopped"},
		{"5", "network_send", "warning", "Do: Check its NIC.", "slow_comm#network_send"},
	} {
		a := alerts[i]
		if a.Labels["rank"] != want.rank || a.Labels["cause"] != want.cause || a.Labels["severity"] != want.severity ||
			!strings.Contains(a.Annotations["description"], want.action) || !strings.HasSuffix(a.Annotations["runbook_url"], want.runbook) {
			t.Errorf("alert %d has labels %v and annotations %v", i, a.Labels, a.Annotations)
		}
	}
}

// TestWarning: what does not page yet warns under another name, which no pager's route matches.
func TestWarning(t *testing.T) {
	inc := paged(rca.Culprit{Rank: 3, Host: "node-1"})
	inc.Verdict.Page, inc.Verdict.PageIn, inc.Verdict.Waited = false, 22, 8
	alerts := format().Alerts(inc)
	if len(alerts) != 1 {
		t.Fatalf("%d alerts, want 1", len(alerts))
	}
	a := alerts[0]
	if a.Labels["alertname"] != "CulpritSuspected" || a.Labels["culprit"] != "suspect" || a.Labels["severity"] != "warning" {
		t.Errorf("labels are %v", a.Labels)
	}
	if !strings.Contains(a.Annotations["description"], "have waited 30 s") {
		t.Errorf("description is %q", a.Annotations["description"])
	}
}

// TestWarningBesideAPage: a culprit that may still get on is warned of while another is paged for.
func TestWarningBesideAPage(t *testing.T) {
	alerts := format().Alerts(paged(
		rca.Culprit{Rank: 3, Host: "node-1"},
		rca.Culprit{Rank: 5, Host: "node-2", Class: rca.NotEntered, Cause: rca.CauseNotCalled, PageIn: 22},
	))
	if len(alerts) != 2 {
		t.Fatalf("%d alerts, want 2", len(alerts))
	}
	for i, want := range []struct{ rank, name, role string }{{"3", "CulpritFound", "verdict"}, {"5", "CulpritSuspected", "suspect"}} {
		if l := alerts[i].Labels; l["rank"] != want.rank || l["alertname"] != want.name || l["culprit"] != want.role {
			t.Errorf("alert %d has labels %v, want %+v", i, l, want)
		}
	}
}

func TestSeverity(t *testing.T) {
	for class, want := range map[rca.Class]string{
		rca.NotEntered: "critical", rca.Inconsistent: "critical", rca.Fault: "critical", rca.SlowCompute: "warning", rca.SlowComm: "warning",
		rca.SlowMixed: "warning", rca.Imbalance: "warning", rca.GlobalSlow: "warning", rca.Unknown: "info",
	} {
		if got := format().style(class).Severity; got != want {
			t.Errorf("%s is %s, want %s", class, got, want)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, ranks := range map[string][]int{"": nil, "3": {3}, "0-2": {2, 0, 1}, "0-1,5,7-8": {8, 7, 5, 1, 0, 0}} {
		if got := Ranges(ranks); got != want {
			t.Errorf("ranges of %v are %q, want %q", ranks, got, want)
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	inc := paged()
	for r := range 100 {
		inc.Verdict.Culprits = append(inc.Verdict.Culprits, rca.Culprit{Rank: r})
		inc.Verdict.Evidence = append(inc.Verdict.Evidence, "line")
	}
	a := format().Alerts(inc)[0].Annotations
	if !strings.Contains(a["culprits"], "and 80 more") || !strings.Contains(a["description"], "and 82 more") {
		t.Errorf("annotations are %q", a)
	}
}

// An address that answers only after a command is no use without that command.
func TestExternalCommand(t *testing.T) {
	f := format()
	inc := paged(rca.Culprit{Rank: 5, Host: "node2"})
	plain := f.Alerts(inc)[0].Annotations["description"]
	f.ExternalURL, f.ExternalCommand = "http://localhost:9851", "kubectl -n culprit port-forward pod/culprit-analyzer-0 9851"
	a := f.Alerts(inc)[0].Annotations
	want := "To see the incident, run: kubectl -n culprit port-forward pod/culprit-analyzer-0 9851\nThen open: " + a["link"] + "\n" + plain
	if a["description"] != want || a["link"] != "http://localhost:9851/incidents/"+inc.ID {
		t.Errorf("annotations are %q, want the description %q", a, want)
	}
	f.ExternalURL = ""
	if got := f.Alerts(inc)[0].Annotations["description"]; got != plain {
		t.Errorf("without a link the description is %q", got)
	}
}

// Names that processes chose are no commands where alerts arrive.
func TestNamesAreNoCommands(t *testing.T) {
	const evil = "<!channel> <@U1> <https://evil.example|Runbook> @here @bob [Runbook](https://evil.example) <at>Bob</at> https://own.example.evil"
	const dashboard = "https://grafana.example/d/jobs"
	at := time.Now()
	inc := &incident.Incident{
		ID: "a", JobID: evil, JobLabels: map[string]string{"owner": evil}, State: incident.Open, OpenedAt: at, Labels: map[string]string{"team": evil},
		Verdict: &rca.Verdict{
			Class: rca.Fault, Cause: rca.CauseGPU, Page: true, Summary: evil, Evidence: []string{evil}, Missing: []string{evil}, Contradictions: []string{evil},
			Chain:    []rca.Link{{From: 0, To: 1, Op: evil, Comm: evil, Reason: evil}},
			Culprits: []rca.Culprit{{Rank: 1, Host: evil, GPU: evil, Pod: evil, Group: evil, NIC: evil, Why: evil}},
		},
	}
	alerts := (&Format{
		MaxAlerts: 8, Labels: map[string]string{"dashboard": dashboard}, ExternalURL: "https://own.example", ExternalCommand: "ssh bastion",
	}).Alerts(inc)
	if len(alerts) != 1 {
		t.Fatalf("%d alerts", len(alerts))
	}
	for _, texts := range []map[string]string{alerts[0].Labels, alerts[0].Annotations} {
		for name, text := range texts {
			if text == dashboard || name == "link" {
				continue
			}
			for _, command := range []string{"<!", "<@", "<https:", "@here", "@bob", "](", "<at>", "https://evil", "https://own.example.evil"} {
				if strings.Contains(text, command) {
					t.Errorf("%s has %q: %s", name, command, text)
				}
			}
		}
	}
	if got := alerts[0]; got.Labels["dashboard"] != dashboard || got.Annotations["link"] != "https://own.example/incidents/a" ||
		!strings.Contains(got.Annotations["description"], "Then open: https://own.example/incidents/a\n") {
		t.Errorf("what is ours is changed: %+v", got)
	}
}
