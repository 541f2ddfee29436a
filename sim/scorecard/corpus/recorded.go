// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/rca/words"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/replay"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// answersFile says what was wrong in the recordings beside and below it, by their names.
const answersFile = "answers.json"

// answer is what was wrong in a recording.
type answer struct {
	Ranks []int  `json:"ranks,omitempty"` // Those at fault; none: nobody is.
	Class string `json:"class,omitempty"` // Empty: any.
	Cause string `json:"cause,omitempty"` // Empty: any.
}

// Recorded adds what is recorded in a tree of this project: incidents of jobs on the real NCCL library and on a real GPU, what real jobs
// of PyTorch left, and the examples.
func (w *Writer) Recorded(ctx context.Context, root string) error {
	data := filepath.Join(root, "analyzer", "offline", "testdata")
	for _, set := range []string{"nccl", "gpu"} {
		if err := w.incidents(filepath.Join(data, set), set); err != nil {
			return err
		}
	}
	if err := w.programs(ctx, filepath.Join(data, "jobs")); err != nil {
		return err
	}
	return w.examples(ctx, filepath.Join(root, "examples"))
}

// incidents adds what the service kept of incidents.
func (w *Writer) incidents(dir, set string) error {
	answers, err := readAnswers(dir)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil {
		return err
	}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("opening an incident: %w", err)
		}
		r, err := kept.Read(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
		a, ok := answers[name]
		if !ok {
			return fmt.Errorf("%s does not say what was wrong in %s", answersFile, path)
		}
		if err := w.add(set+"/"+name, set, a.sealed(nil), r); err != nil {
			return err
		}
	}
	return nil
}

// kinds are what of a recording of a program is analysed together.
var kinds = [][]string{{"dumps"}, {"stacks"}, {"dumps", "stacks"}}

// programs adds what real jobs left behind, by kind.
func (w *Writer) programs(ctx context.Context, dir string) error {
	answers, err := readAnswers(dir)
	if err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "torch-*", "*.tar.gz"))
	if err != nil {
		return err
	}
	for _, path := range archives {
		program := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
		if err := inUnpacked(path, func(at string) error {
			for _, kind := range kinds {
				r, err := analysed(ctx, at, kind)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				if r == nil {
					continue
				}
				name := filepath.Base(filepath.Dir(path)) + "/" + program + "/" + strings.Join(kind, "+")
				a, ok := answers[name]
				if !ok {
					a, ok = answers[program]
				}
				if !ok {
					return fmt.Errorf("%s does not say what was wrong in %s", answersFile, name)
				}
				if err := w.add(name, "jobs", a.sealed(processes(at)), r); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// examples adds the recordings of simulated jobs that explain the project.
func (w *Writer) examples(ctx context.Context, dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "*", replay.NodesDir))
	if err != nil {
		return err
	}
	for _, nodes := range found {
		at := filepath.Dir(nodes)
		sealed, err := replay.ReadSealed(at)
		if err != nil {
			return err
		}
		r, err := analysed(ctx, at, []string{replay.NodesDir})
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if err := w.add("examples/"+filepath.Base(at), "examples", sealed.Answer, r); err != nil {
			return err
		}
	}
	return nil
}

func readAnswers(dir string) (map[string]answer, error) {
	text, err := os.ReadFile(filepath.Join(dir, answersFile))
	if err != nil {
		return nil, fmt.Errorf("opening the answers: %w", err)
	}
	var out map[string]answer
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("reading the answers in %s: %w", dir, err)
	}
	return out, nil
}

func (w *Writer) add(name, set string, a *cluster.Answer, r *kept.Record) error {
	return w.Add(Case{Name: name, Set: set, Group: groupOf(a), Effect: true, Answer: a, Where: placesSeen(&r.Evidence)}, r)
}

// processes names the processes of a recorded program by their ranks, as stacks without a rank do: they were started in that order.
func processes(at string) []string {
	entries, err := os.ReadDir(filepath.Join(at, "stacks"))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, "process "+strings.TrimSuffix(e.Name(), ".txt"))
	}
	return out
}

// sealed gives an answer in the simulator's form: one truth a rank.
func (a *answer) sealed(processes []string) *cluster.Answer {
	out := &cluster.Answer{}
	for _, rank := range a.Ranks {
		t := cluster.Truth{Class: cmp.Or(a.Class, "any"), Classes: []string{a.Class}, Ranks: []int{rank}}
		if a.Cause != "" {
			t.Causes = []string{a.Cause}
		}
		if a.Class == "" {
			t.Classes = nil
			for _, c := range words.Classes() {
				t.Classes = append(t.Classes, string(c))
			}
		}
		if rank < len(processes) {
			t.Place = processes[rank]
		}
		out.Truths = append(out.Truths, t)
	}
	return out
}

// groupOf sorts a recording by the class of its answer.
func groupOf(a *cluster.Answer) string {
	switch {
	case len(a.Truths) == 0:
		return matrix.GroupHealthy
	case strings.HasPrefix(a.Truths[0].Class, "slow_"), slices.Contains([]string{"imbalance", "global_slow"}, a.Truths[0].Class):
		return matrix.GroupSlow
	}
	return matrix.GroupHang
}

// maxFile is what a file of a recording may have, unpacked.
const maxFile = 64 << 20

// analysed makes a record of files below a directory; nil: there are none that the engine decides on.
func analysed(ctx context.Context, at string, below []string) (*kept.Record, error) {
	var paths []string
	for _, b := range below {
		if entries, err := os.ReadDir(filepath.Join(at, b)); err == nil && len(entries) > 0 {
			paths = append(paths, filepath.Join(at, b))
		}
	}
	if len(paths) < len(below) {
		return nil, nil
	}
	l := load.Loader{MaxFile: maxFile, Progress: load.NewProgress(io.Discard, false)}
	files, err := l.Load(ctx, paths)
	if err != nil {
		return nil, err
	}
	if files.Understood() == 0 {
		return nil, nil
	}
	r := diagnosis.Diagnose(files, diagnosis.Options{})
	if len(r.Evidence.Ranks) == 0 {
		return nil, nil
	}
	return kept.New(time.Time{}, r.Options, r.Evidence, kept.Context{}, r.Verdict), nil
}

// inUnpacked unpacks an archive for as long as f takes.
func inUnpacked(path string, f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "corpus-")
	if err != nil {
		return fmt.Errorf("making a directory for a recording: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := unpack(path, dir); err != nil {
		return fmt.Errorf("unpacking %s: %w", path, err)
	}
	return f(dir)
}

func unpack(path, dir string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(r, maxFile))
		if err != nil {
			return err
		}
		name := filepath.Clean(h.Name)
		if err := errors.Join(root.MkdirAll(filepath.Dir(name), 0o750), root.WriteFile(name, text, 0o600)); err != nil {
			return err
		}
	}
}
