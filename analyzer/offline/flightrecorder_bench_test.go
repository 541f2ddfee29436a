// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"runtime"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder/frtest"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// BenchmarkFlightRecorder reads the dumps of a hung job of 10,240 ranks and finds the culprit. Budget: a minute, 2 GiB.
func BenchmarkFlightRecorder(b *testing.B) {
	j := frtest.Training(frtest.Layout{TP: 8, DP: 80, PP: 16, Steps: 40, Creation: 1})
	j.StopHost = map[int]int{4321: j.CallIndex(4321, "all_to_all", 15)}
	j.Ring = 200
	dir := write(b, j)
	runtime.GC()
	for b.Loop() {
		r := analyze(b, dir)
		if r.Verdict.Class != rca.NotEntered || len(r.Verdict.Culprits) != 1 || r.Verdict.Culprits[0].Rank != 4321 {
			b.Fatal(r.Verdict.Summary)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-sys")
}
