// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Feedback as the analyzer exports it is fitted to, beside a journal.
func TestCalibrateReadsFeedback(t *testing.T) {
	dir := t.TempDir()
	at := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	said := `{"incident":"abcdefghijkl","job_id":"train","at":"2026-11-21T02:30:00Z","by":"ann","right":false,"said":{"class":"slow_comm","cause":"pcie","culprits":[],"weight":0.8,"confidence":0.9}}`
	feedback := at("feedback.json", `{"version":1,"feedback":[`+said+`]}`)
	out := filepath.Join(dir, "calibration.json")
	if err := run(t.Context(), []string{"calibrate", at("outcomes.jsonl", ""), "--feedback", feedback, "--out", out}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := rca.ReadCalibration(f)
	if err != nil {
		t.Fatal(err)
	}
	if k := c.Families[rca.FamilySlow]; len(k) != 1 || k[0].Verdicts != 1 || k[0].Right != 0 || !strings.Contains(c.Mix, "1 verdicts on real jobs") {
		t.Errorf("%+v", c)
	}
	for name, text := range map[string]string{"newer": `{"version":2,"feedback":[]}`, "no JSON": "right"} {
		if err := run(t.Context(), []string{"calibrate", at("outcomes.jsonl", ""), "--feedback", at("bad.json", text), "--out", out}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
