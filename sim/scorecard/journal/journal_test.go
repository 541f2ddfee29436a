// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// outcomesNamed are runs with something of everything that a journal keeps.
func outcomesNamed(names ...string) []judge.Outcome {
	out := make([]judge.Outcome, len(names))
	for i, name := range names {
		out[i] = judge.Outcome{
			Name: name, Ranks: 64, Seed: 1, Effect: true, Said: judge.Said{Class: "fault", Confidence: 0.9, Culprits: []int{i}}, TruthRanks: []int{3},
			Judgement: judge.Judgement{Right: i == 3}, Methods: map[string]judge.Guess{"ras": {Rank: 1, False: true}},
			Harmed: []judge.Harmed{{Harm: "liar", Said: judge.Said{Class: "unknown"}, Judgement: judge.Judgement{Unknown: true}}},
		}
	}
	return out
}

func TestJournalGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outcomes.jsonl")
	all := outcomesNamed("a/dead/gpt-64/1", "b/dead/gpt-64/1", "c/50%/gpt-64/1", "healthy/none/gpt-64/1")
	j, entries, err := Open(path, true)
	if err != nil || len(entries) != 0 {
		t.Fatalf("a new journal: %v, %d entries", err, len(entries))
	}
	for i := range 3 {
		if err := j.Add(&Entry{Commit: "abc", Outcome: all[i]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// Killed in the middle of a line.
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(whole, `{"commit":"abc","outc`...), 0o600); err != nil {
		t.Fatal(err)
	}
	j, entries, err = Open(path, true)
	if err != nil || len(entries) != 3 {
		t.Fatalf("going on: %v, %d entries", err, len(entries))
	}
	if !reflect.DeepEqual(entries[1].Outcome, all[1]) {
		t.Errorf("read %+v\nwrote %+v", entries[1].Outcome, all[1])
	}
	if err := j.Add(&Entry{Commit: "abd", Outcome: all[3]}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if entries, err = Read(path); err != nil || len(entries) != 4 {
		t.Fatalf("read again: %v, %d entries", err, len(entries))
	}
	cases := []matrix.Case{{Name: all[3].Name}, {Name: all[0].Name}, {Name: "new"}}
	have, left := Remaining(cases, entries, "abc")
	if len(have) != 1 || have[0].Name != all[0].Name || len(left) != 2 || left[0].Name != all[3].Name {
		t.Errorf("have %d, left %+v: what another commit ran is to be run again", len(have), left)
	}
	again, entries, err := Open(path, false)
	if err != nil || len(entries) != 0 {
		t.Fatalf("starting anew: %v, %d entries", err, len(entries))
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestJournalRefusesWhatItIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outcomes.jsonl")
	if err := os.WriteFile(path, []byte("no journal\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path, true); err == nil {
		t.Error("something else is overwritten")
	}
	if _, err := Read(path); err == nil {
		t.Error("something else is read")
	}
	if _, err := Read(path + ".gone"); err == nil {
		t.Error("a missing journal is read")
	}
}

func TestLatestCounts(t *testing.T) {
	all := outcomesNamed("a/dead/gpt-64/1", "b/dead/gpt-64/1", "c/50%/gpt-64/1", "healthy/none/gpt-64/1")
	first, second := all[0], all[0]
	second.Class = "later"
	outcomes, commits := Latest([]Entry{{Commit: "a", Outcome: first}, {Commit: "a", Outcome: all[1]}, {Commit: "b", Outcome: second}})
	if len(outcomes) != 2 || outcomes[0].Class != "later" || !reflect.DeepEqual(commits, []string{"b", "a"}) {
		t.Errorf("%d outcomes of %v, the first %q", len(outcomes), commits, outcomes[0].Class)
	}
	sorted := InOrder(outcomes, []matrix.Case{{Name: all[1].Name}, {Name: all[0].Name}})
	if sorted[0].Name != all[1].Name || outcomes[0].Name != all[0].Name {
		t.Errorf("in order %q, %q", sorted[0].Name, sorted[1].Name)
	}
}

func TestProgress(t *testing.T) {
	start := time.Unix(1000, 0)
	p := NewProgress([]matrix.Case{{Ranks: 64}, {Ranks: 64}, {Ranks: 64}, {Ranks: 512}}, start)
	if left := p.Left(start.Add(time.Second)); left != 0 {
		t.Errorf("knows %v from nothing", left)
	}
	p.Done(&judge.Outcome{Ranks: 64, Seconds: 2 * usualSeconds[64]})
	// Two more that take twice the usual, and a larger one that may as well, two at a time.
	want := time.Duration((2*usualSeconds[64] + usualSeconds[512]) / usualSeconds[64] * float64(time.Second))
	if left := p.Left(start.Add(time.Second)); (left - want).Abs() > time.Millisecond {
		t.Errorf("%v left, want %v", left, want)
	}
	p.Done(&judge.Outcome{Ranks: 512, Seconds: 4 - 2*usualSeconds[64]})
	if left := p.Left(start.Add(4 * time.Second)); (left - time.Duration(4*usualSeconds[64]*float64(time.Second))).Abs() > time.Millisecond {
		t.Errorf("%v left, want that of two runs of 64 ranks", left)
	}
	p = NewProgress([]matrix.Case{{Ranks: 64}, {Ranks: 64}, {Ranks: 512}}, start)
	p.Done(&judge.Outcome{Ranks: 64, Seconds: 3})
	p.Done(&judge.Outcome{Ranks: 512, Seconds: 9})
	if got, want := p.Line(start.Add(6*time.Second)), "2 of 3 runs in 6s, about 2s left; 64 ranks: 1 of 2, 3.0 s each"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

// A size that is not among the usual ones takes as long as the nearest, by proportion.
func TestUsualSeconds(t *testing.T) {
	for ranks, want := range map[int]float64{2048: usualSeconds[2048], 3072: usualSeconds[2048] * 1.5, 4: usualSeconds[8] / 2} {
		if got := usualOf(ranks); got != want {
			t.Errorf("%d ranks: %g s, want %g", ranks, got, want)
		}
	}
}
