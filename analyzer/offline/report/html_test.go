// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// The page has all that it needs in it, and what files say is text, never markup.
func TestHTML(t *testing.T) {
	r := &diagnosis.Result{
		Verdict: rca.Verdict{
			Class: rca.NotEntered, Code: "H1", Cause: rca.CauseNotCalled, Confidence: 0.9, Summary: "Rank 1 <script>alert(1)</script> stays away.",
			Action: "Look at it.", Culprits: []rca.Culprit{{Rank: 1, Channel: -1, Why: "in the data loader"}},
		},
		Evidence: rca.Evidence{WorldSize: 2, Ranks: []rca.Rank{{ID: 0, Stack: []string{"step (train.py:3)"}}, {ID: 1}}},
		Sources:  []diagnosis.SourceVerdict{{Source: load.Source{Name: "stacks", Files: 2}, Verdict: rca.Verdict{Summary: "as above"}}},
		Files:    []load.File{{Path: "core.123", Error: "not recognised: binary data of another kind"}},
	}
	var b strings.Builder
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"stays away.", "In the data loader.", "Look at it.", "step (train.py:3)", "stacks (2): as above", "core.123", "</html>", `class="cell culprit"`} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	for _, not := range []string{"<script>", "href=", "src=", "http-equiv", "url(", "@import", "<link", "<iframe", "<object", "Triggers", "Incident"} {
		if strings.Contains(page, not) {
			t.Errorf("%q is in the page", not)
		}
	}
}
