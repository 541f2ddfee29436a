// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// LevelScore is how verdicts fare at one level of evidence.
type LevelScore struct {
	Level string `json:"level"`
	Runs  int    `json:"runs"`
	Hang  Share  `json:"hang_right"`
	Slow  Share  `json:"slow_right"` // With a machine to blame.
	// Half is Slow at the severity that the floors are set at.
	Half  Share `json:"slow_half_right"`
	Quiet Share `json:"quiet_not_paged"`
	// Unknown is how many of the faults are answered with unknown, Innocent how many of all verdicts accuse an innocent.
	Unknown  Share `json:"unknown"`
	Innocent Share `json:"innocent"`
	// What a person waits for until somebody is accused, seconds after the fault.
	HangLatency50 float64 `json:"hang_latency_p50_seconds"`
	HangLatency90 float64 `json:"hang_latency_p90_seconds"`
	SlowLatency50 float64 `json:"slow_latency_p50_seconds"`
	SlowLatency90 float64 `json:"slow_latency_p90_seconds"`
	Calibration   float64 `json:"calibration_error"`
}

// scoreLevels gives the score of each level that was run.
func scoreLevels(all []judge.Outcome) []LevelScore {
	var out []LevelScore
	for _, l := range cluster.Levels {
		at := filter(all, func(o *judge.Outcome) bool { return o.Level == string(l) })
		if len(at) > 0 {
			out = append(out, scoreLevel(string(l), at))
		}
	}
	return out
}

func scoreLevel(name string, at []judge.Outcome) LevelScore {
	effective := filter(at, func(o *judge.Outcome) bool { return o.Effect })
	guilty := func(group string) []judge.Outcome {
		return filter(effective, func(o *judge.Outcome) bool { return o.Guilty() && o.Group == group })
	}
	hang, slow := guilty(matrix.GroupHang), guilty(matrix.GroupSlow)
	right := func(o *judge.Outcome) bool { return o.Right && !o.False }
	s := LevelScore{
		Level: name, Runs: len(at), Hang: share(hang, right), Slow: share(slow, right),
		Half:     share(filter(slow, func(o *judge.Outcome) bool { return o.Severity == matrix.HalfSeverity }), right),
		Quiet:    share(filter(at, (*judge.Outcome).Quiet), func(o *judge.Outcome) bool { return !o.Page }),
		Unknown:  share(append(slices.Clip(hang), slow...), func(o *judge.Outcome) bool { return o.Unknown }),
		Innocent: share(at, func(o *judge.Outcome) bool { return o.False }),
	}
	waits := func(list []judge.Outcome) []float64 {
		return collect(filter(list, func(o *judge.Outcome) bool { return o.Triggered && o.Accuses() }), func(o *judge.Outcome) float64 { return o.Latency + o.AnalysisMS/1000 })
	}
	s.HangLatency50, s.HangLatency90 = percentile(waits(hang), 0.5), percentile(waits(hang), 0.9)
	s.SlowLatency50, s.SlowLatency90 = percentile(waits(slow), 0.5), percentile(waits(slow), 0.9)
	_, s.Calibration = reliability(effective, func(o *judge.Outcome) float64 { return o.Confidence })
	return s
}

// meant is what NCCL gives a level by default.
var meant = map[string]string{
	string(cluster.KernelEvents): "NCCL 2.28.3 to 2.30: calls, proxy steps, kernels",
	string(cluster.ProxySteps):   "NCCL 2.31 and later, or kernel events off: calls, proxy steps",
	string(cluster.Launches):     "NCCL 2.24 to 2.27: proxy steps, launches instead of calls",
	string(cluster.Calls):        "preloaded hooks alone: calls, no ends",
}

func (r *Report) levelTable() table {
	t := table{
		title: "By level of evidence",
		note: "What the job's NCCL lets the shim see. Every other table is of runs with kernel events; at the other levels the jobs named *" +
			levelJobs(r.Outcomes) + "* were run. *Right*: class and first-named, and no innocent beside them. *An innocent*: of all verdicts. Seconds are from the fault to the first verdict that accuses, analysis included.",
		head: []string{"level", "what there is", "runs", "hangs right", "slow right", "slow at 50% right", "quiet not paged", "unknown", "an innocent", "hang p50 / p90", "slow p50 / p90"},
	}
	for i := range r.Summary.Levels {
		s := &r.Summary.Levels[i]
		t.rows = append(t.rows, []string{
			s.Level, meant[s.Level], strconv.Itoa(s.Runs), s.Hang.String(), s.Slow.String(), s.Half.String(), s.Quiet.String(), s.Unknown.Short(), s.Innocent.String(),
			fmt.Sprintf("%.1f / %.1f s", s.HangLatency50, s.HangLatency90), fmt.Sprintf("%.1f / %.1f s", s.SlowLatency50, s.SlowLatency90),
		})
	}
	return t
}

// levelJobs names the workloads that were run at other levels than kernel events.
func levelJobs(all []judge.Outcome) string {
	names, _ := groupBy(filter(all, func(o *judge.Outcome) bool { return !usual(o) }), func(o *judge.Outcome) string { return o.Workload })
	return levelNames(names)
}

func levelNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	var text strings.Builder
	text.WriteString(names[0])
	for _, n := range names[1:] {
		text.WriteString(", " + n)
	}
	return text.String()
}

// levelMeasures are the figures of a level that floors can be set on.
func levelMeasures(s *LevelScore, to map[string]float64) {
	to[s.Level+"_hang_right"], to[s.Level+"_slow_right"], to[s.Level+"_slow_half_right"] = s.Hang.Value(), s.Slow.Value(), s.Half.Value()
	to[s.Level+"_quiet_not_paged"], to[s.Level+"_innocent"], to[s.Level+"_calibration_error"] = s.Quiet.Value(), s.Innocent.Value(), s.Calibration
}
