// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestReasoning: --explain names the row that the verdict is said by, also where that is a doubt, and what was mended before.
func TestReasoning(t *testing.T) {
	r := &diagnosis.Result{Verdict: rca.Verdict{Row: "all_hosts_busy", Repairs: []rca.Repair{{Step: "lost_records", Changed: 12, Left: 3}, {Step: "pauses", Changed: 2}}}}
	full := printed(t, r, Style{Explain: true})
	for _, want := range []string{"said by the row all_hosts_busy\n", "lost_records: 12 pieces of work mended; 3 could not be\n", "pauses: 2 pieces of work mended\n"} {
		if !strings.Contains(full, want) {
			t.Errorf("lacks %q:\n%s", want, full)
		}
	}
	if short := printed(t, r, Style{}); strings.Contains(short, "all_hosts_busy") {
		t.Errorf("without --explain:\n%s", short)
	}
}
