// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// What people say of a verdict is kept with the verdict that they saw, outlives a restart, and is listed once an incident.
func TestJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		store, err := NewStore(dir, promslog.NewNopLogger())
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, store)
		r.receive(t, firing("a", "train"))
		id := r.only(t).ID
		before := r.only(t)
		if err := r.Judge(id, Feedback{By: "ann", Right: true}); err != nil {
			t.Fatal(err)
		}
		if err := r.Judge(id, Feedback{By: "bob", Class: rca.Benign, Cause: rca.CauseCheckpoint, Note: " an evaluation "}); err != nil {
			t.Fatal(err)
		}
		if len(before.Feedback) != 0 {
			t.Error("a copy given away before has changed")
		}
		store.Flush()
		stored, err := store.Load()
		if err != nil {
			t.Fatal(err)
		}
		list := ListFeedback(stored)
		if len(list.Feedback) != 1 {
			t.Fatalf("%+v", list)
		}
		f := list.Feedback[0]
		if f.Incident != id || f.JobID != "train" || f.By != "bob" || f.Right || f.Note != "an evaluation" || f.At.IsZero() ||
			f.Said.Class != rca.NotEntered || f.Said.Confidence != 0.9 || len(f.Said.Culprits) != 1 || f.Said.Culprits[0].Rank != 3 {
			t.Errorf("%+v", f)
		}
	})
}

func TestJudgeRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		if err := r.Judge("aaaaaaaaaaaa", Feedback{By: "ann"}); !errors.Is(err, ErrNoIncident) {
			t.Errorf("no incident: %v", err)
		}
		r.script(func(Request) (Outcome, error) { return Outcome{}, errors.New("no answer") })
		r.receive(t, firing("a", "train"))
		if err := r.Judge(r.only(t).ID, Feedback{By: "ann"}); !errors.Is(err, ErrNoVerdict) {
			t.Errorf("no verdict: %v", err)
		}
		if err := r.Judge(r.only(t).ID, Feedback{By: "ann", Note: strings.Repeat("x", maxNote+1)}); err == nil {
			t.Error("any length is kept")
		}
	})
}

// An incident keeps so much feedback and no more.
func TestJudgeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.receive(t, firing("a", "train"))
		for range keptFeedback + 5 {
			if err := r.Judge(r.only(t).ID, Feedback{By: "ann", Right: true}); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(r.only(t).Feedback); n != keptFeedback {
			t.Errorf("%d are kept", n)
		}
	})
}
