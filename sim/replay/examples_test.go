// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/replay"
)

var update = flag.Bool("update", false, "record examples anew")

const examples = "../../examples"

// example is a recording in examples.
type example struct {
	name     string
	workload string
	set      [][2]string
	fault    string
	until    time.Duration
	span     time.Duration
}

var shipped = []example{
	{"stalled-nic", "gpt-16", nil, "nic_down:rank=9:at=40s", 46 * time.Second, 7 * time.Second},
	{"op-not-entered", "gpt-16", nil, "op_not_entered:rank=6:at=40s", 46 * time.Second, 7 * time.Second},
	{"deadlock", "gpt-16", nil, "deadlock:rank=10:at=40s", 46 * time.Second, 7 * time.Second},
	{"slow-gpu", "gpt-16", [][2]string{{"dp", "2"}}, "gpu_throttle:rank=5:at=30s:severity=0.5", 36 * time.Second, 10 * time.Second},
	{"slow-link", "gpt-16", nil, "switch_port_slow:rank=5:at=30s:severity=0.9", 34500 * time.Millisecond, 4600 * time.Millisecond},
	{"storage-stuck", "gpt-16", nil, "storage_stuck:rank=12:at=40s", 46 * time.Second, 7 * time.Second},
	{"checkpoint", "gpt-16", [][2]string{{"checkpoint-every", "5"}, {"checkpoint-time", "12s"}}, "", 12 * time.Second, 8 * time.Second},
	{"busy-expert", "mixtral-32", [][2]string{{"tp", "2"}, {"layers", "8"}, {"micro-batches", "2"}}, "expert_imbalance:rank=2:severity=3:iteration=8", 20 * time.Second, 2400 * time.Millisecond},
}

// Files of an example beside those of a recording.
const (
	verdictFile  = "verdict.txt"
	timelineFile = "timeline.json.gz"
	pageFile     = "README.md"
)

// What is shipped is found by today's engine as its page says, can be opened as a timeline, and is small.
func TestShippedExamples(t *testing.T) {
	entries, err := os.ReadDir(examples)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !slices.ContainsFunc(shipped, func(x example) bool { return x.name == e.Name() }) {
			t.Errorf("examples/%s is in no list", e.Name())
		}
	}
	for _, e := range shipped {
		t.Run(e.name, func(t *testing.T) {
			dir := filepath.Join(examples, e.name)
			if *update {
				e.record(t, dir)
			}
			sealed, err := replay.ReadSealed(dir)
			if err != nil {
				t.Fatal(err)
			}
			d, code := analyze(t, filepath.Join(dir, replay.NodesDir))
			v := &d.Verdict
			switch {
			case len(sealed.Answer.Truths) == 0:
				if code != offline.ExitHealthy || v.Class != rca.Benign || string(v.Cause) != sealed.Answer.Benign {
					t.Errorf("%s, %s where %s was to be seen: %s", v.Class, v.Cause, sealed.Answer.Benign, v.Summary)
				}
			default:
				truth := &sealed.Answer.Truths[0]
				if code != offline.ExitFound || !slices.Contains(truth.Classes, string(v.Class)) || !slices.Contains(truth.Causes, string(v.Cause)) {
					t.Errorf("%s, %s where %v, %v would be right: %s", v.Class, v.Cause, truth.Classes, truth.Causes, v.Summary)
				}
				if len(truth.Ranks) > 0 && (len(v.Culprits) == 0 || !slices.Contains(truth.Ranks, v.Culprits[0].Rank)) {
					t.Errorf("accused %v, injected at %v", v.Culprits, truth.Ranks)
				}
			}
			for name, text := range files(t, dir) {
				if (name == verdictFile || name == pageFile) && !bytes.Contains(text, []byte(v.Summary)) {
					t.Errorf("%s does not have the sentence %q", name, v.Summary)
				}
			}
			e.checkFiles(t, dir)
		})
	}
}

// checkFiles looks at what else is shipped with an example.
func (e *example) checkFiles(t *testing.T, dir string) {
	t.Helper()
	var total int
	all := files(t, dir)
	for _, data := range all {
		total += len(data)
	}
	if total > 200_000 {
		t.Errorf("%d bytes are too many for an example", total)
	}
	zr, err := gzip.NewReader(bytes.NewReader(all[timelineFile]))
	if err != nil {
		t.Fatalf("reading the timeline: %v", err)
	}
	var timeline struct {
		TraceEvents []struct {
			Name string   `json:"name"`
			Ph   string   `json:"ph"`
			TS   *float64 `json:"ts"`
		} `json:"traceEvents"`
	}
	if err := json.NewDecoder(zr).Decode(&timeline); err != nil {
		t.Fatalf("reading the timeline: %v", err)
	}
	spans := 0
	for _, ev := range timeline.TraceEvents {
		if ev.Ph == "X" && ev.Name != "" && ev.TS != nil {
			spans++
		}
	}
	if spans < 100 {
		t.Errorf("the timeline has %d spans", spans)
	}
	summary, _, _ := strings.Cut(string(all[verdictFile]), "\n")
	if summary == "" || !strings.Contains(string(all[pageFile]), summary) {
		t.Errorf("the page does not quote the verdict %q", summary)
	}
}

// record makes an example anew.
func (e *example) record(t *testing.T, dir string) {
	t.Helper()
	w := workload(t, e.workload)
	for _, s := range e.set {
		if err := w.Set(s[0], s[1]); err != nil {
			t.Fatal(err)
		}
	}
	cfg := replay.Config{Workload: w, Seed: 1, Until: e.until, Span: e.span}
	if e.fault != "" {
		cfg.Faults = []string{e.fault}
	}
	for _, sub := range []string{replay.NodesDir, replay.MetricsDir} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := replay.Record(t.Context(), slog.New(slog.DiscardHandler), cfg, dir); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, replay.MetricsDir)); err != nil {
		t.Fatal(err)
	}
	timeline := filepath.Join(t.TempDir(), "timeline.json")
	var out bytes.Buffer
	if code := offline.Main(t.Context(), []string{"-q", "--timeline", timeline, filepath.Join(dir, replay.NodesDir)}, &out, io.Discard); code >= offline.ExitUsage {
		t.Fatalf("analyze: exit %d", code)
	}
	data, err := os.ReadFile(timeline)
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	zw, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zw.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{timelineFile: zipped.Bytes(), verdictFile: out.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
