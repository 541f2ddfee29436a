// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// list is a long list with steps of one to eleven minutes.
func list() []Step {
	var steps []Step
	for i := range 23 {
		steps = append(steps, Step{Name: fmt.Sprintf("test-%d", i), Time: time.Duration(1+i*7%11) * time.Minute})
	}
	return steps
}

func names(steps []Step) []string {
	var all []string
	for _, s := range steps {
		all = append(all, s.Name)
	}
	return all
}

// TestSliceOfUnknownMachine has ten landings in a row on machines that keep nothing.
func TestSliceOfUnknownMachine(t *testing.T) {
	for first := range 20 {
		ran := map[string]int{}
		for landing := range Slices {
			for _, s := range Slice(list(), first+landing, State{}) {
				ran[s.Name]++
			}
		}
		for _, s := range list() {
			if ran[s.Name] != 1 {
				t.Errorf("landings %d to %d run %s %d times", first, first+Slices-1, s.Name, ran[s.Name])
			}
		}
	}
}

// TestSliceOfKnownMachine has ten landings in a row on a machine that remembers, with any number of commits between them.
func TestSliceOfKnownMachine(t *testing.T) {
	state := State{"make-test": {Last: time.Unix(1, 0), OK: true}}
	ran := map[string]int{}
	for landing := range Slices {
		slice := Slice(list(), landing*Slices, state)
		if took := total(slice); landing > 0 && took > total(list())/Slices+11*time.Minute {
			t.Errorf("landing %d takes %s: %v", landing, took, names(slice))
		}
		for _, s := range slice {
			ran[s.Name]++
			state[s.Name] = Record{Last: time.Unix(int64(100+landing), 0), OK: true}
		}
	}
	for _, s := range list() {
		if ran[s.Name] == 0 {
			t.Errorf("%s never ran", s.Name)
		}
	}
}

func TestSliceRunsWhatFailed(t *testing.T) {
	state := State{"test-3": {Last: time.Unix(9, 0)}, "test-4": {Last: time.Unix(9, 0), OK: true}}
	slice := Slice(list(), 5, state)
	if slice[0].Name != "test-3" || slices.Contains(names(slice), "test-4") || len(slice) < 2 {
		t.Errorf("the slice is %v", names(slice))
	}
}

func TestFailedFirst(t *testing.T) {
	steps := []Step{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	got := names(FailedFirst(steps, State{"c": {}, "b": {OK: true}, "d": {}}))
	if want := []string{"c", "d", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// newRunner is one whose output and notes can be looked at.
func newRunner(t *testing.T) (*Runner, *bytes.Buffer) {
	t.Helper()
	dir, out := t.TempDir(), &bytes.Buffer{}
	return &Runner{
		Root: dir, Out: out, Env: os.Environ(), Logs: filepath.Join(dir, "logs"), StateFile: filepath.Join(dir, "deep", "state.json"),
		Tree: "tree", Interval: time.Hour,
	}, out
}

// TestNotesSideBySide: steps that end at the same time are all noted.
func TestNotesSideBySide(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	const steps = 32
	var g sync.WaitGroup
	for i := range steps {
		g.Go(func() {
			if err := note(file, strconv.Itoa(i), Record{OK: true}); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	if state, err := Load(file); err != nil || len(state) != steps {
		t.Errorf("%d of %d steps are noted, %v", len(state), steps, err)
	}
}

func TestRun(t *testing.T) {
	r, out := newRunner(t)
	// Each of the two waits for the other: they run side by side.
	meet := func(mine, other string) string {
		return "touch " + mine + "; while [[ ! -e " + other + " ]]; do sleep 0.01; done; echo met " + other
	}
	err := r.Run(t.Context(), []Step{
		{Name: "waits", Lane: Waits, Script: meet("w", "c")},
		{Name: "computes", Lane: Computes, Script: meet("c", "w")},
		{Name: "alone", Lane: Alone, Script: "printf 'no newline at the end'"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"waits | met c\n", "computes | met w\n", "alone | no newline at the end\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if log, err := os.ReadFile(filepath.Join(r.Logs, "waits.log")); err != nil || string(log) != "met c\n" {
		t.Errorf("the log of a step: %q, %v", log, err)
	}
	state, err := Load(r.StateFile)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(state)); !slices.Equal(got, []string{"alone", "computes", "waits"}) || !state["alone"].OK || state["alone"].Tree != "tree" {
		t.Errorf("noted: %v", state)
	}
}

func TestRunFails(t *testing.T) {
	steps := []Step{{Name: "breaks", Script: "echo why; false"}, {Name: "next", Script: "touch next"}}
	for _, keepGoing := range []bool{false, true} {
		r, out := newRunner(t)
		r.KeepGoing = keepGoing
		if err := r.Run(t.Context(), steps); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "breaks") {
			t.Errorf("a run with a step that fails: %v", err)
		}
		if _, err := os.Stat(filepath.Join(r.Root, "next")); (err == nil) != keepGoing {
			t.Errorf("keep going %v: the next step: %v", keepGoing, err)
		}
		if !keepGoing && !strings.Contains(out.String(), "LEFT OUT: next, another one failed") {
			t.Errorf("it does not say what it left out:\n%s", out)
		}
		if state, err := Load(r.StateFile); err != nil || !state.failed("breaks") {
			t.Errorf("noted: %v, %v", state, err)
		}
	}
}

func TestRunLeavesOut(t *testing.T) {
	r, out := newRunner(t)
	r.Budget = time.Minute
	err := r.Run(t.Context(), []Step{
		{Name: "must", Always: true, Time: time.Hour, Script: "true"},
		{Name: "long", Time: time.Hour, Script: "touch long"},
		{Name: "short", Time: time.Second, Script: "touch short"},
		{Name: "root", Time: time.Second, Script: "touch root", Prepare: func(context.Context) error { return fmt.Errorf("%w: root", ErrCannot) }},
		{Name: "slow", Time: time.Minute - 10*time.Millisecond, Script: "touch slow", Prepare: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, ran := range map[string]bool{"long": false, "short": true, "root": false, "slow": false} {
		if _, err := os.Stat(filepath.Join(r.Root, name)); (err == nil) != ran {
			t.Errorf("%s ran: %v, want %v", name, err == nil, ran)
		}
		if left := strings.Contains(out.String(), "LEFT OUT: "+name+", "); left == ran {
			t.Errorf("%s left out: %v\n%s", name, left, out)
		}
	}
}

func TestRunPrepareFails(t *testing.T) {
	r, _ := newRunner(t)
	err := r.Run(t.Context(), []Step{{Name: "broken", Script: "true", Prepare: func(context.Context) error { return errors.New("does not compile") }}})
	if !errors.Is(err, ErrFailed) {
		t.Errorf("a step that cannot be built: %v", err)
	}
}

func TestRunInterrupted(t *testing.T) {
	r, _ := newRunner(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(r.Root, "begun")); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	err := r.Run(ctx, []Step{{Name: "hangs", Script: "touch begun; while :; do sleep 0.01; done"}})
	if err == nil {
		t.Error("an interrupted run has passed")
	}
	if state, err := Load(r.StateFile); err != nil || len(state) != 0 {
		t.Errorf("an interrupted step was noted: %v, %v", state, err)
	}
}

func TestLoadBroken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a broken state: %v", err)
	}
}
