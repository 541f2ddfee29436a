// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/catalog"
	"github.com/culprit-project/culprit/sim/replay"
)

func record(t *testing.T, cfg replay.Config) (string, *replay.Sealed) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	sealed, err := replay.Record(t.Context(), slog.New(slog.DiscardHandler), cfg, dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, sealed
}

func workload(t *testing.T, name string) catalog.Workload {
	t.Helper()
	w, err := catalog.FindWorkload(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// document is what `analyze --json` prints, as far as the tests look.
type document struct {
	Verdict rca.Verdict `json:"verdict"`
	Files   []struct {
		Path, Kind, Error, Warning string
	} `json:"files"`
}

func analyze(t *testing.T, paths ...string) (document, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := offline.Main(t.Context(), append([]string{"--json", "-q"}, paths...), &out, &errs)
	var d document
	if code < offline.ExitUsage {
		if err := json.Unmarshal(out.Bytes(), &d); err != nil {
			t.Fatalf("exit %d: %v\n%s%s", code, err, out.String(), errs.String())
		}
	}
	return d, code
}

// What was injected is what `culprit-analyzer analyze` finds in the files.
func TestAnalyzeFindsWhatWasRecorded(t *testing.T) {
	for _, c := range []struct {
		fault string
		until time.Duration
		code  int
	}{
		{"nic_down:rank=9:at=20s", 50 * time.Second, offline.ExitFound},
		{"op_not_entered:rank=6:at=20s", 50 * time.Second, offline.ExitFound},
		{"process_stopped:rank=13:at=20s", 50 * time.Second, offline.ExitFound},
		{"other_size:rank=3:at=20s", 50 * time.Second, offline.ExitFound},
		{"gpu_error:rank=2:at=20s", 50 * time.Second, offline.ExitFound},
		{"gpu_throttle:rank=11:at=20s:severity=0.6", 40 * time.Second, offline.ExitFound},
		{"", 30 * time.Second, offline.ExitHealthy},
	} {
		name, _, _ := strings.Cut(c.fault, ":")
		t.Run(name, func(t *testing.T) {
			cfg := replay.Config{Workload: workload(t, "gpt-16"), Seed: 3, Until: c.until}
			if c.fault != "" {
				cfg.Faults = []string{c.fault}
			}
			dir, sealed := record(t, cfg)
			d, code := analyze(t, filepath.Join(dir, replay.NodesDir))
			if code != c.code {
				t.Errorf("exit %d, %s: %s", code, d.Verdict.Class, d.Verdict.Summary)
			}
			for _, f := range d.Files {
				if f.Error != "" || f.Warning != "" {
					t.Errorf("%s: %s %s", f.Path, f.Error, f.Warning)
				}
			}
			if len(sealed.Answer.Truths) == 0 {
				return
			}
			truth := sealed.Answer.Truths[0]
			if !slices.Contains(truth.Classes, string(d.Verdict.Class)) {
				t.Errorf("%s where %v would be right: %s", d.Verdict.Class, truth.Classes, d.Verdict.Summary)
			}
			if len(d.Verdict.Culprits) == 0 || !slices.Contains(truth.Ranks, d.Verdict.Culprits[0].Rank) {
				t.Errorf("accused %v, injected at %v: %s", d.Verdict.Culprits, truth.Ranks, d.Verdict.Summary)
			}
		})
	}
}

// files gives a directory's content by path.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		out[path], err = os.ReadFile(filepath.Join(dir, path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSameSeedWritesTheSameBytes(t *testing.T) {
	cfg := replay.Config{Workload: workload(t, "mixtral-32"), Faults: []string{"nic_bandwidth:rank=9:at=6s"}, Seed: 5, Until: 12 * time.Second}
	one, _ := record(t, cfg)
	two, _ := record(t, cfg)
	a, b := files(t, one), files(t, two)
	if len(a) != 3*4+1 {
		t.Errorf("%d files of four nodes", len(a))
	}
	for path, data := range a {
		if !bytes.Equal(data, b[path]) {
			t.Errorf("%s differs", path)
		}
	}
	cfg.Seed++
	three, _ := record(t, cfg)
	if c := files(t, three); bytes.Equal(a["nodes/node-0001.trace.jsonl.gz"], c["nodes/node-0001.trace.jsonl.gz"]) {
		t.Error("another seed writes the same bytes")
	}
	if _, err := replay.Record(t.Context(), slog.New(slog.DiscardHandler), cfg, one); err == nil {
		t.Error("a recording was written over")
	}
}

// The answer lies beside what an analysis is given, and if given, is no evidence to it.
func TestSealedAnswerIsNotRead(t *testing.T) {
	dir, sealed := record(t, replay.Config{Workload: workload(t, "gpt-16"), Faults: []string{"nic_down:rank=9:at=20s"}, Seed: 3, Until: 45 * time.Second})
	if _, code := analyze(t, filepath.Join(dir, replay.SealedFile)); code != offline.ExitData {
		t.Errorf("the sealed answer alone: exit %d, want %d", code, offline.ExitData)
	}
	alone, _ := analyze(t, filepath.Join(dir, replay.NodesDir))
	all, _ := analyze(t, filepath.Join(dir, replay.NodesDir), filepath.Join(dir, replay.SealedFile))
	seen := false
	for _, f := range all.Files {
		if strings.HasSuffix(f.Path, replay.SealedFile) {
			seen = true
			if f.Kind != "" || !strings.Contains(f.Error, "not recognised") {
				t.Errorf("the sealed answer was read as %q (%s)", f.Kind, f.Error)
			}
		}
	}
	if !seen {
		t.Error("the sealed answer is not among the files")
	}
	a, err := json.Marshal(alone.Verdict)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(all.Verdict)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("the verdict changes with the sealed answer beside the evidence")
	}
	again, err := replay.ReadSealed(dir)
	if err != nil || len(again.Answer.Truths) != 1 || !slices.Equal(again.Answer.Truths[0].Ranks, sealed.Answer.Truths[0].Ranks) {
		t.Errorf("%+v, %v", again, err)
	}
	for path, data := range files(t, dir) {
		if path != replay.SealedFile && (bytes.Contains(data, []byte(sealed.Sealed)) || bytes.Contains(data, []byte("truths"))) {
			t.Errorf("%s speaks of the answer", path)
		}
	}
}
