// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/rca"
)

func flowsFile(name string) string { return filepath.Join("flows", "testdata", name+".csv.gz") }

// Byte counters of flows are recognised before op tables, packed too, and their verdict is their own.
func TestFlows(t *testing.T) {
	wantVerdict(t, analyze(t, flowsFile("op-not-entered")), rca.NotEntered, rca.CauseUnknown, 4)
	code, out, _ := run(t, "", flowsFile("gpu-slow"))
	if code != ExitFound || !strings.Contains(out, "Rank 2 begins late") || !strings.Contains(out, "the volume that recurs between gaps") {
		t.Errorf("%d: %s", code, out)
	}
	if code, out, _ := run(t, "", flowsFile("healthy")); code != ExitUnknown || !strings.Contains(out, "too coarse") {
		t.Errorf("%d: %s", code, out)
	}
	r := analyze(t, put(t, t.TempDir(), "flows.csv", []byte("time_seconds,operation,rank,peer,bytes\n1,AllReduce,0,1,5\n2,AllReduce,0,1,x\n")), flowsFile("healthy"))
	if f := r.Files[0]; !strings.Contains(f.Error+r.Files[1].Error, `line 3: bytes "x"`) {
		t.Errorf("%+v", r.Files)
	}
}

// Bytes beside better evidence change nothing of its verdict, and stand beside it.
func TestFlowsBesideDumps(t *testing.T) {
	r := analyze(t, write(t, moe()), flowsFile("op-not-entered"))
	wantVerdict(t, r, rca.NotEntered, rca.CauseNotCalled, 9, 14)
	at := slices.IndexFunc(r.Sources, func(s diagnosis.SourceVerdict) bool { return s.Name == "flows" })
	if at < 0 || !slices.Equal(diagnosis.Accused(r.Sources[at].Verdict), []int{4}) || len(r.Disagreements) == 0 {
		t.Errorf("%+v, %v", r.Sources, r.Disagreements)
	}
}
