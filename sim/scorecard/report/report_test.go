// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

func sampleReport() *Report {
	return New("quick", 1, "0123456789ab", "2 cores (linux/amd64, go1.26)", time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), 61.5, mixture())
}

func TestMarkdownGolden(t *testing.T) {
	var got bytes.Buffer
	if err := sampleReport().Markdown(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "report.md")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the report differs from %s; -update writes it:\n%s", path, got.String())
	}
}

// What the JSON says can be read back, and is all there.
func TestReportJSONRoundTrip(t *testing.T) {
	want := sampleReport()
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, want) {
		t.Errorf("read %+v\nwrote %+v", got.Summary, want.Summary)
	}
}

// The names in the JSON are stable: what the scorecard is asked to tell of each run, and of all.
func TestReportJSONFields(t *testing.T) {
	data, err := json.Marshal(sampleReport())
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Version  int                          `json:"version"`
		Summary  map[string]json.RawMessage   `json:"summary"`
		Outcomes []map[string]json.RawMessage `json:"outcomes"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if r.Version != Version {
		t.Errorf("version %d", r.Version)
	}
	for _, f := range []string{
		"name", "scenario", "severity", "ranks", "seed", "effect", "triggered", "latency_seconds", "class", "class_right", "cause_right", "confidence",
		"top1", "top3", "host_right", "host_top3", "device_right", "device_top3", "group_right", "unknown", "false_accusation", "innocents",
		"ranks_fetched", "bytes_fetched", "analysis_ms", "analysis_cpu_ms", "alloc_mib", "methods",
	} {
		if _, ok := r.Outcomes[0][f]; !ok {
			t.Errorf("an outcome lacks %q", f)
		}
	}
	for _, f := range []string{"hang", "slow", "nobody", "below_bound", "healthy_not_accused", "benign_not_accused", "precision", "recall", "f1", "f1_low", "f1_high", "methods", "design", "reliability", "calibration_error"} {
		if _, ok := r.Summary[f]; !ok {
			t.Errorf("the summary lacks %q", f)
		}
	}
}

// The page is one file: it loads nothing, its elements close, and what came from a run is escaped.
func TestHTMLStandsAlone(t *testing.T) {
	r := sampleReport()
	r.Outcomes[9].Name, r.Outcomes[9].Right = "<script>alert(1)</script>", false
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if bad := regexp.MustCompile(`(?i)<(script|link|iframe|img|object)|(src|href)=|url\(|@import`).FindString(text); bad != "" {
		t.Errorf("the page loads or runs something: %s", bad)
	}
	if n := strings.Count(text, "<svg"); n != 4 || strings.Count(text, "</svg>") != n {
		t.Errorf("%d plots", n)
	}
	dec := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "<!doctype html>")))
	dec.Entity = xml.HTMLEntity
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
	}
	for _, want := range []string{"Floors of the design", "Mycroft, section 7.1", "CCL-D, table 1", "CCL-D, table 2", "Pulse, tables 3 and 4", "Pulse, figures 22 to 25", "Holmes, figures 15(b) and 24", "Holmes, figures 14(a) and 16", "Reliability", "What fails"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestReportOfNothing(t *testing.T) {
	r := New("quick", 1, "c", "m", time.Time{}, 0, nil)
	for name, write := range map[string]func(io.Writer) error{"Markdown": r.Markdown, "HTML": r.HTML} {
		var b bytes.Buffer
		if err := write(&b); err != nil || b.Len() == 0 {
			t.Errorf("%s: %v, %d bytes", name, err, b.Len())
		}
		if s := b.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("%s divides by nothing", name)
		}
	}
}
