// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tool is a way to find out what was wrong.
type tool struct {
	name  string
	lacks func(s *settings) string // Why it cannot run here; empty: it can.
	run   func(ctx context.Context, s *settings, c benchCase) (answer, error)
}

var tools = []tool{
	{"culprit", func(*settings) string { return "" }, culprit},
	{"fr_trace", func(s *settings) string { return missing(s.newest, "no PyTorch was given") }, ofDumps(frTrace)},
	{"NVRx fr_attribution", func(s *settings) string { return missing(s.nvrx, "no checkout was given (NVRX=)") }, ofDumps(nvrx)},
	{"NVRx log analysis", func(*settings) string {
		return "it asks a language model over the network, with a key"
	}, nil},
	{"first error (grep)", func(*settings) string { return "" }, firstError},
}

func missing(path, why string) string {
	if path == "" {
		return why
	}
	return ""
}

// patience bounds a tool on one case.
const patience = 2 * time.Minute

// output runs a program and gives what it prints. A program that fails has printed why.
func output(ctx context.Context, env []string, name string, args ...string) (stdout, stderr string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), errs.String(), exit.ExitCode(), ctx.Err()
	}
	return out.String(), errs.String(), 0, err
}

func culprit(ctx context.Context, s *settings, c benchCase) (answer, error) {
	const nothingRead = 65
	out, _, code, err := output(ctx, nil, s.analyzer, append([]string{"analyze", "--json"}, c.paths...)...)
	if err != nil || code == nothingRead {
		return answer{}, err
	}
	var doc struct {
		Verdict struct {
			Class, Summary string
			Culprits       []struct {
				Rank, PID int
				Group     string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		return answer{}, err
	}
	a := answer{read: true, text: doc.Verdict.Summary}
	for _, k := range doc.Verdict.Culprits {
		rank := k.Rank
		if rank < 0 && strings.HasPrefix(k.Group, "process ") {
			rank = place(c, k.PID)
		}
		if rank >= 0 && doc.Verdict.Class != "unknown" {
			a.ranks = append(a.ranks, rank)
		}
	}
	slices.Sort(a.ranks)
	return a, nil
}

// place gives the rank of a process of which only its number is known: processes were started in the order of ranks.
func place(c benchCase, pid int) int {
	for _, path := range c.paths {
		if files, err := filepath.Glob(filepath.Join(path, "*.txt")); err == nil {
			if i := slices.Index(files, filepath.Join(path, strconv.Itoa(pid)+".txt")); i >= 0 {
				return i
			}
		}
	}
	return -1
}

// dumpsOf gives the folder of Flight Recorder dumps among the files, and what all their names begin with; empty for none.
func dumpsOf(c benchCase) (dir, prefix string) {
	for _, path := range c.paths {
		files, _ := os.ReadDir(path)
		for _, f := range files {
			if m := dumpName.FindStringSubmatch(f.Name()); m != nil {
				return path, m[1]
			}
		}
	}
	return "", ""
}

var dumpName = regexp.MustCompile(`^(.*?(?:dump|rank|trace)\w*?_)\d+$`)

// ofDumps makes a tool of one that reads Flight Recorder dumps and nothing else. A folder that is part of several cases is read once.
func ofDumps(read func(ctx context.Context, s *settings, dir, prefix string) (answer, error)) func(context.Context, *settings, benchCase) (answer, error) {
	known := map[string]answer{}
	return func(ctx context.Context, s *settings, c benchCase) (answer, error) {
		dir, prefix := dumpsOf(c)
		if a, ok := known[dir]; ok || dir == "" {
			return a, nil
		}
		a, err := read(ctx, s, dir, prefix)
		known[dir] = a
		return a, err
	}
}

// frTrace is PyTorch's own analysis of dumps.
func frTrace(ctx context.Context, s *settings, dir, prefix string) (answer, error) {
	out, errs, code, err := output(ctx, nil, s.newest, "-m", "torch.distributed.flight_recorder.fr_trace", dir, "-p", prefix, "--allow-incomplete-ranks")
	if err != nil || code != 0 {
		return answer{}, err
	}
	a := answer{read: true, text: out + errs}
	for _, m := range blamed.FindAllString(a.text, -1) {
		a.ranks = union(a.ranks, ranksIn(m))
	}
	return a, nil
}

// blamed are the words in which fr_trace says whose fault it is.
var blamed = regexp.MustCompile(`[Mm]issing ranks: \{[\d, ]+\}|Culprit ranks? [\d, ]+`)

// nvrx is the attribution of NVIDIA's Resiliency Extension by dumps, without its language model.
func nvrx(ctx context.Context, s *settings, dir, prefix string) (answer, error) {
	out, _, code, err := output(ctx, []string{"PYTHONPATH=" + filepath.Join(s.nvrx, "src")}, "python3", "-m",
		"nvidia_resiliency_ext.attribution.trace_analyzer.fr_attribution", "--fr-path", dir, "-p", prefix+"*", "--emit-stdout")
	if err != nil || code != 0 {
		return answer{}, err
	}
	a := answer{read: true, text: out}
	for line := range strings.Lines(out) {
		if i := strings.LastIndex(line, "|"); i >= 0 && line[0] >= '0' && line[0] <= '9' {
			a.ranks = union(a.ranks, numbers(line[i:]))
		}
	}
	return a, nil
}

// anError is what a person looks for first.
var anError = regexp.MustCompile(`(?i)error|exception|fatal|traceback`)

// firstError takes the first line of an error for the cause, and the rank in it for the culprit.
func firstError(_ context.Context, _ *settings, c benchCase) (answer, error) {
	var a answer
	for _, path := range c.paths {
		text, err := os.ReadFile(path)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			continue // A folder, or no text.
		}
		a.read = true
		for line := range strings.Lines(string(text)) {
			if anError.MatchString(line) {
				return answer{true, ranksIn(line), line}, nil
			}
		}
	}
	return a, nil
}

var aRank = regexp.MustCompile(`(?i)(?:^|[^\w])\[?ranks?\b?[ :=]*\{?(\d+(?:, ?\d+)*)`)

// ranksIn gives the ranks that a line names first.
func ranksIn(line string) []int {
	if m := aRank.FindStringSubmatch(line); m != nil {
		return numbers(m[1])
	}
	return nil
}

func numbers(s string) []int {
	var out []int
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func union(a, b []int) []int {
	a = append(a, b...)
	slices.Sort(a)
	return slices.Compact(a)
}
