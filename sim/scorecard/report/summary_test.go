// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// some makes outcomes of a kind, of which so many are right.
func some(group, scenario, workload, severity string, ranks, n, right int) []judge.Outcome {
	out := make([]judge.Outcome, n)
	for i := range out {
		ok := i < right
		o := &out[i]
		*o = judge.Outcome{
			Name: fmt.Sprintf("%s/%s/%s/%d", scenario, severity, workload, i+1), Scenario: scenario, Group: group, Workload: workload, Severity: severity,
			Ranks: ranks, Seed: uint64(i + 1), Effect: true, Triggered: true, Trigger: "CulpritJobStalled", Told: 4 + float64(i), Latency: 10 + float64(i), Slowdown: 1.5,
			Said: judge.Said{Class: "fault", Cause: "gpu", Confidence: 0.9, Row: "gpu_stopped", Culprits: []int{3}}, TruthClass: "fault", TruthRanks: []int{3}, RanksFetched: ranks, BytesFetched: 1 << 20, Level: "kernels",
			AnalysisMS: 2, AnalysisCPU: 1.5, AllocMiB: 3, SimSeconds: 0.5,
			Methods: map[string]judge.Guess{"ccl-d": {Rank: 3, Right: ok}, "mycroft": {Rank: -1}, "ras": {Rank: 1, False: true}},
		}
		o.Judgement = judge.Judgement{Right: ok, ClassRight: ok, CauseRight: ok, Top1: ok, Top3: ok, HostRight: ok, HostTop3: ok, DeviceRight: ok, DeviceTop3: ok, GroupRight: ok, AllFound: ok, False: !ok}
		if !ok {
			o.Culprits, o.Innocents = []int{7}, 1
		}
		if o.Quiet() {
			o.Class, o.Culprits, o.TruthClass, o.TruthRanks, o.Confidence, o.Triggered = "healthy", nil, "none", nil, 0.8, false
			if !ok {
				o.Class, o.Culprits = "slow_comm", []int{7}
			}
		}
	}
	return out
}

// mixture is a small matrix with some of everything.
func mixture() []judge.Outcome {
	noEffect := some(matrix.GroupSlow, "nic_bandwidth", "gpt-64", "50%", 64, 1, 1)
	noEffect[0].Name, noEffect[0].Effect, noEffect[0].Triggered = "nic_bandwidth/50%/gpt-64/9", false, false
	nobody := some(matrix.GroupSlow, "stage_imbalance", "gpt-64", "sudden", 64, 2, 2)
	for i := range nobody {
		nobody[i].TruthRanks, nobody[i].Culprits, nobody[i].Class, nobody[i].TruthClass = nil, nil, "imbalance", "imbalance"
	}
	return slices.Concat(
		some(matrix.GroupHang, "nic_down", "gpt-32", "dead", 32, 10, 10), some(matrix.GroupHang, "gpu_error", "gpt-2048", "dead", 2048, 4, 3),
		some(matrix.GroupSlow, "nic_bandwidth", "gpt-32", "50%", 32, 10, 8), some(matrix.GroupSlow, "gpu_throttle", "gpt-8192", "50%", 8192, 2, 2),
		some(matrix.GroupSlow, "gpu_throttle", "gpt-64", matrix.Spikes, 64, 2, 1), noEffect, nobody,
		some(matrix.GroupHealthy, "healthy", "gpt-64", "none", 64, 5, 5), some(matrix.GroupBenign, "checkpoint_one", "gpt-64", "20 s", 64, 4, 3),
	)
}

func TestSummarize(t *testing.T) {
	s := summarize(mixture())
	check := func(name string, got Share, hits, of int) {
		t.Helper()
		if got.Hits != hits || got.Of != of {
			t.Errorf("%s: %d of %d, want %d of %d", name, got.Hits, got.Of, hits, of)
		}
	}
	if s.Runs != 40 || s.Without != 1 {
		t.Errorf("%d runs, %d without effect", s.Runs, s.Without)
	}
	check("hangs right", s.Hang.Right, 13, 14)
	check("slow top-1", s.Slow.Top1, 11, 14)
	check("nobody spared", s.NobodySpared, 2, 2)
	check("healthy", s.Healthy, 5, 5)
	check("benign", s.Benign, 3, 4)
	check("asked below the bound", s.Below.Top1, 1, 1)
	// 28 runs with a culprit accuse, and the benign one that should not; 24 rightly.
	check("precision", s.Precision, 24, 29)
	check("recall", s.Recall, 24, 28)
	p, r := 24.0/29, 24.0/28
	if want := 2 * p * r / (p + r); math.Abs(s.F1-want) > 1e-9 || s.F1Low >= s.F1 || s.F1High <= s.F1 {
		t.Errorf("F1 = %g in %g to %g, want %g inside", s.F1, s.F1Low, s.F1High, want)
	}
	if s.Hang.Latency50 != 13 || s.Hang.LatencyMx != 19 {
		t.Errorf("latency p50 %g, max %g", s.Hang.Latency50, s.Hang.LatencyMx)
	}
	// A verdict that an open incident came to has a time, but no trigger told of the fault.
	open := some(matrix.GroupHang, "nic_down", "gpt-32", "dead", 32, 4, 4)
	open[0].Told, open[1].Told = 0, 0
	if f := figures(open); f.ToldAnew.Hits != 2 || f.Told50 != 6 || f.ToldMx != 7 || f.Latency50 != 11 {
		t.Errorf("told anew %v, p50 %g, max %g, verdict p50 %g; want 2 of 4, 6, 7 and 11", f.ToldAnew, f.Told50, f.ToldMx, f.Latency50)
	}
	if m := s.Methods[0]; m.Method != whole || m.Hang.Hits != 13 || m.Nobody.Hits != 10 {
		t.Errorf("the whole: %+v", m)
	}
	if i := slices.IndexFunc(s.Methods, func(m MethodScore) bool { return m.Method == "ras" }); s.Methods[i].Accusing.Hits != 39 {
		t.Errorf("ras: %+v", s.Methods[i])
	}
}

func TestReliability(t *testing.T) {
	list := some(matrix.GroupHang, "gpu_error", "gpt-64", "dead", 64, 10, 6)
	list[9].Unknown = true // Says nothing.
	bins, calibrationError := reliability(list, func(o *judge.Outcome) float64 { return o.Confidence })
	if len(bins) != 1 || bins[0].Right.Hits != 6 || bins[0].Right.Of != 9 {
		t.Fatalf("bins %+v", bins)
	}
	if want := 0.9 - 6.0/9; math.Abs(calibrationError-want) > 1e-9 {
		t.Errorf("calibration error %g, want %g", calibrationError, want)
	}
}
