// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// timedOutLog is what gloo's ranks say that waited in a barrier for one that says nothing.
func timedOutLog(world, absent int, label func(rank int) string) string {
	var b strings.Builder
	for r := range world {
		fmt.Fprintf(&b, "%s[Gloo] Rank %d is connected to %d peer ranks. Expected number of connected peer ranks is : %d\n", label(r), r, world-1, world-1)
	}
	for step := range 30 {
		fmt.Fprintf(&b, "%sstep %d: loss 2.31\n", label(0), step)
	}
	for r := range world {
		if r == absent {
			continue
		}
		for _, l := range []string{
			"Traceback (most recent call last):",
			`  File "/job/train.py", line 100, in save_checkpoint`,
			"    dist.barrier()",
			`  File "/opt/venv/lib/python3/site-packages/torch/distributed/distributed_c10d.py", line 4888, in barrier`,
			"    work.wait()",
			"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 20000ms for recv operation to complete",
		} {
			fmt.Fprintf(&b, "%s%s\n", label(r), l)
		}
	}
	return b.String()
}

func own(rank int) string { return fmt.Sprintf("[rank%d]: ", rank) }

func each(text string, wrap func(line string) string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(wrap(strings.TrimSuffix(line, "\n")))
	}
	return b.String()
}

// interleaved gives the lines of all ranks in turns.
func interleaved(text string) string {
	byRank := map[string][]string{}
	most := 0
	for line := range strings.Lines(text) {
		label, _, _ := strings.Cut(line, ":")
		byRank[label] = append(byRank[label], line)
		most = max(most, len(byRank[label]))
	}
	var b strings.Builder
	for i := range most {
		for r := range len(byRank) {
			if lines := byRank[fmt.Sprintf("[rank%d]", r)]; i < len(lines) {
				b.WriteString(lines[i])
			}
		}
	}
	return b.String()
}

// Each host's log is a file of its own.
func TestLogsOfHosts(t *testing.T) {
	byHost := [2]strings.Builder{}
	for line := range strings.Lines(timedOutLog(4, 2, own)) {
		host := 0
		if strings.HasPrefix(line, "[rank2]") || strings.HasPrefix(line, "[rank3]") {
			host = 1
		}
		byHost[host].WriteString(line)
	}
	ev := Evidence([]*Log{parse(t, byHost[0].String()), parse(t, byHost[1].String())}, nil, 0).Evidence
	if v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2, Incident: true}); v.Class != rca.NotEntered || !slices.Equal(ranksOf(v), []int{2}) {
		t.Errorf("%s %v: %s", v.Class, ranksOf(v), v.Summary)
	}
}

// Whatever stands around the lines, the same is read.
func TestWrapped(t *testing.T) {
	plainLog := timedOutLog(4, 2, own)
	for name, text := range map[string]string{
		"plain":   plainLog,
		"colours": each(plainLog, func(l string) string { return "\x1b[36m" + l + "\x1b[0m\n" }),
		"CRLF":    strings.ReplaceAll(plainLog, "\n", "\r\n"),
		"docker": each(plainLog, func(l string) string {
			s, _ := json.Marshal(l + "\n")
			return fmt.Sprintf(`{"log":%s,"stream":"stderr","time":"2026-11-22T10:00:00.1Z"}`+"\n", s)
		}),
		"CRI": each(plainLog, func(l string) string {
			if len(l) > 40 {
				return "2026-11-22T10:00:00.123456789Z stderr P " + l[:33] + "\n2026-11-22T10:00:00.123456790Z stderr F " + l[33:] + "\n"
			}
			return "2026-11-22T10:00:00.123456789Z stderr F " + l + "\n"
		}),
		"kubectl":                      each(plainLog, func(l string) string { return "[pod/trainer-0/pytorch] 2026-11-22T10:00:00.123Z " + l + "\n" }),
		"Ray":                          each(plainLog, func(l string) string { return "(RayTrainWorker pid=4711, ip=10.0.0.7) " + l + "\n" }),
		"torchrun --tee":               timedOutLog(4, 2, func(r int) string { return fmt.Sprintf("[default%d]:%s", r, own(r)) }),
		"torchrun --tee without ranks": timedOutLog(4, 2, func(r int) string { return fmt.Sprintf("[default%d]:", r) }),
		"Slurm --label":                timedOutLog(4, 2, func(r int) string { return fmt.Sprintf("%d: ", r) }),
		"mpirun":                       timedOutLog(4, 2, func(r int) string { return fmt.Sprintf("[1,%d]<stderr>:", r) }),
		"interleaved writers":          interleaved(plainLog),
		"a terminal of 80 columns": each(plainLog, func(l string) string {
			var b strings.Builder
			for ; len(l) > 80; l = l[80:] {
				b.WriteString(l[:80] + "\n")
			}
			return b.String() + l + "\n"
		}),
	} {
		t.Run(name, func(t *testing.T) {
			l := parse(t, text)
			ev := Evidence([]*Log{l}, nil, 0).Evidence
			v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2, Incident: true})
			if v.Class != rca.NotEntered || !slices.Equal(ranksOf(v), []int{2}) || v.Op != "barrier" {
				t.Errorf("%s %v %q: %s", v.Class, ranksOf(v), v.Op, v.Summary)
			}
		})
	}
}

// A label that is not the rank says nothing: tasks that start several ranks, local ranks of several hosts.
func TestLabelsThatAreNoRanks(t *testing.T) {
	text := timedOutLog(4, 2, func(r int) string { return fmt.Sprintf("%d: %s", r/2, own(r)) })
	ev := Evidence([]*Log{parse(t, text)}, nil, 0).Evidence
	if v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2}); !slices.Equal(ranksOf(v), []int{2}) {
		t.Errorf("%v: %s", ranksOf(v), v.Summary)
	}
}

// Ray leaves out what other processes say alike: who is behind such a line is not silent.
func TestRepeated(t *testing.T) {
	text := timedOutLog(8, 5, own)
	i := strings.Index(text, "[rank3]: Traceback")
	text = text[:i] + "(RayTrainWorker pid=9) RuntimeError: Timed out waiting 20000ms for recv operation to complete [repeated 5x across cluster]\n"
	r := Evidence([]*Log{parse(t, text)}, nil, 0)
	ev, notes := r.Evidence, r.Notes
	v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2, Incident: true})
	if v.Class != rca.Unknown || len(ranksOf(v)) > 0 || !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "5 lines") }) {
		t.Errorf("%s %v: %s, %q", v.Class, ranksOf(v), v.Summary, notes)
	}
}

// Of a log of any length only what is of use is kept.
func TestSieve(t *testing.T) {
	noise := bytes.Repeat([]byte("step 812: loss 2.31, 1.12 it/s, data 0.002 s, forward 0.1 s\n"), 80_000)
	interesting := []byte(timedOutLog(4, 2, own))
	text := slices.Concat(interesting[:300], noise, interesting[300:], noise)
	kept, cut, err := grammar.Sieve(bytes.NewReader(text))
	if err != nil || cut || len(kept) > 1<<20+256<<10+2*len(interesting)+200*100 {
		t.Fatalf("%d of %d bytes, cut %v, %v", len(kept), len(text), cut, err)
	}
	ev := Evidence([]*Log{parse(t, string(kept))}, nil, 0).Evidence
	if v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2}); !slices.Equal(ranksOf(v), []int{2}) {
		t.Errorf("%v: %s", ranksOf(v), v.Summary)
	}
}
