// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/rules"
)

func TestTriggersAt(t *testing.T) {
	all, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	if all["culprit-triggers.yaml"] != string(rules.Triggers) {
		t.Error("the committed triggers are not what the mixin renders: run make generate")
	}
	for scrape, window := range map[time.Duration]string{
		time.Second: "10s", 5 * time.Second: "10s", 10 * time.Second: "1m", 15 * time.Second: "1m", 30 * time.Second: "2m", time.Minute: "4m",
	} {
		got, err := TriggersAt(scrape)
		if err != nil {
			t.Fatal(err)
		}
		if rate := `rate(culprit_nccl_bytes_total{job="culprit-exporter"}[` + window + "])"; !strings.Contains(string(got), rate) {
			t.Errorf("at %s: no %s", scrape, rate)
		}
	}
	if _, err := TriggersAt(2 * time.Minute); err == nil {
		t.Error("rules for two minutes, which the mixin does not render")
	}
}
