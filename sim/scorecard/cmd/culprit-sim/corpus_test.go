// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/culprit-project/culprit/sim/jsonl"
	"github.com/culprit-project/culprit/sim/scorecard/corpus"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// A corpus is written and judged; verdicts that are worse than those before make diff fail.
func TestCorpus(t *testing.T) {
	dir := t.TempDir()
	kept, verdicts := filepath.Join(dir, "corpus"), filepath.Join(dir, "verdicts.jsonl")
	for _, args := range [][]string{
		{"corpus", "write", "--tree=", "--blind=", "--harm=none", "--only=process_killed/killed/fsdp-8/", "--dir", kept},
		{"corpus", "judge", "--dir", kept, "--out", verdicts},
		{"corpus", "judge", "--method=model", "--dir", kept, "--out", filepath.Join(dir, "model.jsonl")},
		{"corpus", "diff", verdicts, verdicts},
	} {
		if err := run(t.Context(), args); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	said, err := jsonl.Read[corpus.Verdict](verdicts)
	if err != nil || len(said) != 1 || said[0].Fate != judge.FateRight {
		t.Fatalf("%+v, %v", said, err)
	}
	said[0].Fate = judge.FateInnocent
	worse := filepath.Join(dir, "worse.jsonl")
	file, _, err := jsonl.Open[corpus.Verdict](worse, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Add(&said[0]), file.Close()); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"corpus", "diff", verdicts, worse}); !errors.Is(err, errWorse) {
		t.Errorf("a verdict that accuses an innocent instead: %v", err)
	}
	if err := run(t.Context(), []string{"corpus", "diff", worse, verdicts}); err != nil {
		t.Errorf("a verdict that is right instead: %v", err)
	}
}
