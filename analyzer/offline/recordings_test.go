// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// RECORDINGS names a directory of recordings that were made just now; without it the committed ones are judged.
const recordingsVar = "RECORDINGS"

// answer is what was wrong in a recording, as answers.json beside it says.
type answer struct {
	Ranks []int // Those at fault; none: no single rank is.
	Class rca.Class
	Cause rca.Cause
}

// answersOf reads what was wrong in the recordings of a directory below testdata, by their names.
func answersOf(t *testing.T, dir string) map[string]answer {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", dir, "answers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]answer
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// unseen are programs and evidence in which no expert could tell who it is.
var unseen = map[string]string{
	// The recorder of gloo has none of it.
	"dumps": "store monitored_barrier monitored_barrier_all detail_op detail_shape detail_absent new_group pipeline receive opposite_order load_checkpoint breakpoint_left imports init",
	// All ranks time out alike, or the launcher ends those that would say more.
	"log": "opposite_order wrong_group uneven_batches wrong_shape wrong_op monitored_barrier_all fsdp ddp_skips_backward",
	// All stand in communication, or the job is over.
	"stacks":       "opposite_order uneven_batches wrong_group wrong_shape wrong_op killed segfault aborted bus_error exits returns_early exception out_of_memory detail_op detail_shape monitored_barrier_all",
	"faulthandler": "opposite_order uneven_batches wrong_group wrong_shape wrong_op killed segfault aborted bus_error exits returns_early exception out_of_memory detail_op detail_shape monitored_barrier_all gil",
	"all":          "opposite_order wrong_group wrong_shape uneven_batches wrong_op monitored_barrier_all",
}

// misled are recordings that show less than there is, and look like another fault: the ranks named are all that have not called the
// operation that the others wait in.
var misled = map[string]string{
	// Rank 3 waits for rank 0 in a first receive. NCCL's recorder has an operation only when its communicator is made.
	"dumps": "torch-2.11.0-nccl/receive",
}

// doubted are recordings of which all evidence together rightly says less than one part of it: stacks show that the rank that has not
// called may itself wait for another.
const doubted = "torch-2.11.0-nccl/opposite_order torch-2.11.0-nccl/wrong_group"

const (
	judgedRight   = "right"
	judgedWider   = "wider" // It names several, the guilty among them, or suspects them.
	judgedUnknown = "unknown"
	judgedWrong   = "WRONG"
	judgedNotRead = "NOT READ"
	judgedNone    = "-" // There is no such evidence.
)

// Real jobs that went wrong, judged by what each kind of evidence alone and all together make of them.
func TestRecordings(t *testing.T) {
	dir := os.Getenv(recordingsVar)
	if dir == "" {
		dir = filepath.Join("testdata", "jobs")
	}
	archives, err := filepath.Glob(filepath.Join(dir, "torch-*", "*.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no recordings below %s: %v", dir, err)
	}
	guilty := answersOf(t, "jobs")
	kinds := []string{"log", "dumps", "stacks", "faulthandler", "all"}
	var table strings.Builder
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "PROGRAM\t%s\n", strings.ToUpper(strings.Join(kinds, "\t")))
	good, possible := 0, 0
	for _, archive := range archives {
		program := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		name := filepath.Base(filepath.Dir(archive)) + "/" + program
		answer, known := guilty[program]
		want := answer.Ranks
		if !known {
			t.Fatalf("%s: a program that nobody judges", program)
		}
		at := unpack(t, archive)
		fmt.Fprint(tw, name)
		rank := map[string]int{judgedRight: 3, judgedWider: 2, judgedUnknown: 1}
		best := 0
		for _, kind := range kinds {
			got, summary := judge(t, at, kind, want)
			fmt.Fprintf(tw, "\t%s", got)
			if (got == judgedWrong || got == judgedNotRead) && !slices.Contains(strings.Fields(misled[kind]), name) {
				t.Errorf("%s, %s: %s: %s", program, kind, got, summary)
			}
			expert := len(want) > 0 && got != judgedNone && !slices.Contains(strings.Fields(unseen[kind]), program)
			if expert {
				possible++
			}
			if expert && (got == judgedRight || got == judgedWider) {
				good++
			}
			if kind != "all" {
				best = max(best, rank[got])
			} else if rank[got] < best && !slices.Contains(strings.Fields(doubted), name) {
				t.Errorf("%s: all evidence together is worse than some of it: %s: %s", program, got, summary)
			}
		}
		fmt.Fprintln(tw)
	}
	_ = tw.Flush()
	t.Logf("\n%s%d of %d that an expert could tell are right or wider", table.String(), good, possible)
	const floor = 0.85
	if float64(good) < floor*float64(possible) {
		t.Errorf("only %d of %d", good, possible)
	}
}

// judge analyzes one kind of evidence of a recording.
func judge(t *testing.T, at, kind string, want []int) (judged, summary string) {
	t.Helper()
	paths := map[string][]string{
		"log": {"job.log"}, "dumps": {"dumps"}, "stacks": {"stacks"}, "faulthandler": {"faulthandler"}, "all": {"job.log", "dumps", "stacks"},
	}[kind]
	paths = slices.Clone(paths)
	for i := range paths {
		paths[i] = filepath.Join(at, paths[i])
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return !holds(p) })
	if len(paths) == 0 {
		return judgedNone, ""
	}
	l := load.Loader{MaxFile: 64 << 20, Progress: load.NewProgress(io.Discard, false)}
	got, err := l.Load(t.Context(), paths)
	if err != nil {
		t.Fatal(err)
	}
	if got.Understood() == 0 {
		// A log that was recognised and says nothing of communication is read.
		if slices.ContainsFunc(got.Files, func(f load.File) bool { return f.Kind == "" }) && len(want) > 0 {
			return judgedNotRead, got.Files[0].Line()
		}
		return judgedUnknown, ""
	}
	v := diagnosis.Diagnose(got, diagnosis.Options{}).Verdict
	named := accusedRanks(at, v)
	fine := v.Class == rca.Healthy || v.Class == rca.Benign
	switch {
	case slices.Equal(named, want) && !fine && (len(want) > 0 || v.Class == rca.Unknown), len(want) == 0 && fine:
		return judgedRight, v.Summary
	case fine, slices.ContainsFunc(named, func(r int) bool { return !slices.Contains(want, r) }):
		return judgedWrong, v.Summary
	case len(named) > 0, suspects(v, want):
		return judgedWider, v.Summary
	}
	return judgedUnknown, v.Summary
}

// accusedRanks gives the ranks that a verdict accuses. Processes without a known rank were started in the order of the ranks.
func accusedRanks(at string, v rca.Verdict) []int {
	named := diagnosis.Accused(v)
	if v.Class == rca.Unknown {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(at, "stacks", "*.txt"))
	for _, c := range v.Culprits {
		if c.Rank < 0 && strings.HasPrefix(c.Group, "process ") {
			if i := slices.Index(files, filepath.Join(at, "stacks", strconv.Itoa(c.PID)+".txt")); i >= 0 {
				named = append(named, i)
			}
		}
	}
	slices.Sort(named)
	return named
}

// suspects says that the guilty are among those that an undecided verdict suspects, by rank or by process.
func suspects(v rca.Verdict, want []int) bool {
	text := v.Summary
	for _, c := range v.Culprits {
		text += " " + c.Group
	}
	return len(v.Culprits) > 0 && !slices.ContainsFunc(want, func(r int) bool {
		return !slices.Contains(strings.FieldsFunc(text, func(c rune) bool { return c < '0' || c > '9' }), strconv.Itoa(r))
	})
}

func holds(path string) bool {
	some := false
	_ = filepath.WalkDir(path, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil && info.Size() > 0 {
				some = true
			}
		}
		return nil
	})
	return some
}

func unpack(t *testing.T, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		if !filepath.IsLocal(h.Name) {
			t.Fatalf("%s: not below its directory", h.Name)
		}
		to := filepath.Join(dir, h.Name)
		data, err := io.ReadAll(io.LimitReader(r, 64<<20))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o750)
		}
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
