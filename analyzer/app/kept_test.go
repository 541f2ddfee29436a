// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// The evidence outlives the job and the analyzer's restart, and gives the verdict of the page again (X12).
func TestEvidenceOutlivesTheJob(t *testing.T) {
	c, am := newCluster(t, 4), newAlertmanager(t)
	c.hang(5, nodeapi.ProcessRunning)
	cfg := quick(c, am)
	cfg.Analysis.Patience.AtMost, cfg.Analysis.Patience.AtLeast = model.Duration(time.Hour), model.Duration(time.Hour)
	storage := t.TempDir()
	a := start(t, cfg, storage)
	stall := trouble("NCCLStall", "rank", "3")
	a.push(0, stall)
	eventually(t, "a verdict", func() bool { l := a.incidents(); return len(l) == 1 && l[0].Verdict != nil })
	a.push(0, stall.resolved())
	eventually(t, "the end", func() bool { return a.incidents()[0].State == incident.Resolved })
	id := a.incidents()[0].ID
	eventually(t, "a page that leads to the evidence, once that is written", func() bool {
		var text string
		a.get("/incidents/"+id, &text)
		return strings.Contains(text, "evidence.tar.gz")
	})
	a.stop()

	a = start(t, cfg, storage)
	resp, err := http.Get(a.server.URL + "/api/v1/incidents/" + id + "/evidence.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	archive, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(resp.Header.Get("Content-Disposition"), id) {
		t.Fatal(resp.StatusCode, resp.Header, err)
	}
	file := filepath.Join(t.TempDir(), "evidence.tar.gz")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	l := load.Loader{MaxFile: 1 << 28, Progress: load.NewProgress(io.Discard, false)}
	got, err := l.Load(t.Context(), []string{file})
	if err != nil {
		t.Fatal(err)
	}
	var inc struct {
		Verdict json.RawMessage `json:"verdict"`
	}
	if code := a.get("/api/v1/incidents/"+id, &inc); code != http.StatusOK {
		t.Fatal(code)
	}
	again, err := json.Marshal(diagnosis.Diagnose(got, diagnosis.Options{}).Verdict)
	if err != nil || !bytes.Equal(again, inc.Verdict) || !bytes.Contains(again, []byte(`"page_in_seconds"`)) {
		t.Errorf("%v: the archive gives\n%s\nthe page has\n%s", err, again, inc.Verdict)
	}
	var trace struct {
		Events []struct {
			Name string `json:"name"`
		} `json:"traceEvents"`
	}
	if code := a.get("/api/v1/incidents/"+id+"/timeline.json", &trace); code != http.StatusOK || len(trace.Events) == 0 || trace.Events[0].Name != "process_name" {
		t.Errorf("timeline: %d, %+v", code, trace)
	}
	if code := a.get("/api/v1/incidents/nobody/timeline.json", nil); code != http.StatusNotFound {
		t.Errorf("timeline of nobody: status %d", code)
	}
	if code := a.get("/api/v1/incidents/nobody/evidence.tar.gz", nil); code != http.StatusNotFound {
		t.Errorf("of nobody: status %d", code)
	}
}
