// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// benchCase is some files of one job.
type benchCase struct {
	name, source string
	paths        []string
	truth        truth
}

// cases finds all cases. notes say which there are not, and why.
func (s *settings) cases(ctx context.Context) (out []benchCase, notes []string, err error) {
	if out, err = s.texts(); err != nil {
		return nil, nil, err
	}
	recorded, err := s.recordings(ctx)
	if err != nil {
		return nil, nil, err
	}
	out = append(out, recorded...)
	if s.nvrx == "" {
		return out, []string{"Traces that NVRx publishes and faults of its injector are left out: no checkout was given (NVRX=)"}, nil
	}
	published, err := s.published()
	if err != nil {
		return nil, nil, err
	}
	out = append(out, published...)
	if len(s.pythons) == 0 {
		return out, []string{"Faults of NVRx' injector are left out: no PyTorch was given"}, nil
	}
	injected, err := s.injected(ctx)
	return append(out, injected...), []string{"GPU_ERROR and GPU_SLEEP of NVRx' injector are left out: they need a GPU"}, err
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// texts are those of bug reports.
func (s *settings) texts() ([]benchCase, error) {
	dir := filepath.Join(s.recorded, "public")
	var answers []struct {
		truth
		Name  string
		Files []string
	}
	if err := readJSON(filepath.Join(dir, "answers.json"), &answers); err != nil {
		return nil, err
	}
	var out []benchCase
	for _, a := range answers {
		c := benchCase{name: a.Name, source: "Texts of bug reports, one a class", truth: a.truth}
		for _, f := range a.Files {
			c.paths = append(c.paths, filepath.Join(dir, a.Name, f))
		}
		out = append(out, c)
	}
	return out, nil
}

// evidence is what a job leaves.
var evidence = []struct{ name, what string }{{"job.log", "log alone"}, {"dumps", "Flight Recorder dumps alone"}, {"stacks", "stacks alone"}}

// ofJob makes a case of each kind of evidence that a job has left, and one of all of it.
func ofJob(name, source, dir string, t truth) []benchCase {
	var out []benchCase
	var all []string
	for _, e := range evidence {
		path := filepath.Join(dir, e.name)
		info, err := os.Stat(path)
		if err != nil || info.Size() == 0 {
			continue
		}
		if files, err := os.ReadDir(path); info.IsDir() && (err != nil || len(files) == 0) {
			continue
		}
		all = append(all, path)
		out = append(out, benchCase{name + ", " + e.what, source + ": " + e.what, []string{path}, t})
	}
	if len(all) == 0 {
		return nil
	}
	return append(out, benchCase{name + ", all", source + ": all of it", all, t})
}

// recordings are PyTorch programs that went wrong.
func (s *settings) recordings(ctx context.Context) ([]benchCase, error) {
	var answers map[string]truth
	if err := readJSON(filepath.Join(s.recorded, "jobs", "answers.json"), &answers); err != nil {
		return nil, err
	}
	archives, err := filepath.Glob(filepath.Join(s.recorded, "jobs", "torch-*", "*.tar.gz"))
	if err != nil {
		return nil, err
	}
	var out []benchCase
	for _, archive := range archives {
		program, release := strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), filepath.Base(filepath.Dir(archive))
		dir := filepath.Join(s.work, "recordings", release, program)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		if err := exec.CommandContext(ctx, "tar", "-xzf", archive, "-C", dir).Run(); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", archive, err)
		}
		out = append(out, ofJob(release+"/"+program, "Recorded jobs", dir, answers[program])...)
	}
	return out, nil
}

// faultRanks is how NVRx writes down where it put a fault.
var faultRanks = regexp.MustCompile(`Fault ranks: \[([\d, ]+)\]`)

// published are Flight Recorder dumps in NVRx' repository, each with a log of the faults that were put in.
func (s *settings) published() ([]benchCase, error) {
	logs, err := filepath.Glob(filepath.Join(s.nvrx, "tests", "attribution", "unit", "fr_traces", "*", "fault_injection.log"))
	if err != nil || len(logs) == 0 {
		return nil, fmt.Errorf("no published traces below %s: %w", s.nvrx, err)
	}
	var out []benchCase
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil, err
		}
		m := faultRanks.FindSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("%s names no rank", log)
		}
		name := filepath.Base(filepath.Dir(log))
		dumps := filepath.Join(s.work, "published", name) // Without the log, which tells the truth.
		if err := os.MkdirAll(dumps, 0o755); err != nil {
			return nil, err
		}
		files, err := filepath.Glob(filepath.Join(filepath.Dir(log), "_dump_*"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if err := os.Symlink(f, filepath.Join(dumps, filepath.Base(f))); err != nil && !os.IsExist(err) {
				return nil, err
			}
		}
		out = append(out, benchCase{name, "Flight Recorder dumps that NVRx publishes", []string{dumps}, truth{Ranks: numbers(string(m[1]))}})
	}
	return out, nil
}
