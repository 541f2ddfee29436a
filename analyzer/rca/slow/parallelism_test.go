// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestP8ParallelismOfNamelessCommunicators: the verdict says what communicators are for that no framework named (Pulse figure 5).
func TestP8ParallelismOfNamelessCommunicators(t *testing.T) {
	job := func() rca.Evidence {
		j := rcatest.NewSlowJob(4, 2, 2)
		slow := j.At(1, 2, 1)
		j.Compute = func(r, _ int) float64 { return pick(r == slow, 1.5, 1.0) }
		return j.Evidence()
	}
	const want = "By what they carry, communicators without names serve data parallelism: 4 of 4 ranks, tensor parallelism: 8 of 2 ranks, pipeline parallelism: 8 of 2 ranks."
	ev := job()
	for i := range ev.Comms {
		ev.Comms[i].Name = ""
	}
	if v := verdictOf(ev, rca.Options{}); !slices.Contains(v.Evidence, want) {
		t.Errorf("%s\nevidence %q lacks %q", v.Summary, v.Evidence, want)
	}
	ev = job()
	for i := range ev.Comms {
		ev.Comms[i].Name = "mesh_" + string(ev.Comms[i].ID)
	}
	if v := verdictOf(ev, rca.Options{}); slices.ContainsFunc(v.Evidence, func(s string) bool { return strings.Contains(s, "without names") }) {
		t.Errorf("all have names, and the evidence is %q", v.Evidence)
	}
}
