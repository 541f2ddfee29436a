// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"os"
	"testing"
	"time"
)

func TestTriggersAt(t *testing.T) {
	for scrape, file := range map[time.Duration]string{
		time.Second: "culprit-triggers.yaml", 5 * time.Second: "culprit-triggers.yaml", 10 * time.Second: "scrape-15s/culprit-triggers.yaml",
		15 * time.Second: "scrape-15s/culprit-triggers.yaml", 30 * time.Second: "scrape-30s/culprit-triggers.yaml", time.Minute: "scrape-60s/culprit-triggers.yaml",
	} {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := TriggersAt(scrape); err != nil || !bytes.Equal(got, want) {
			t.Errorf("at %s: not %s (%v)", scrape, file, err)
		}
	}
	if _, err := TriggersAt(2 * time.Minute); err == nil {
		t.Error("rules for two minutes, which nobody wrote")
	}
}
