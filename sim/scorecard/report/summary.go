// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package report sums up the outcomes of a scorecard: figures with their intervals, beside what the papers report and what the
// design asks for, as JSON, Markdown and one page of HTML; and the floors that a run must not fall below.
package report

import (
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/baseline"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// Report is everything the scorecard has to say, as JSON.
type Report struct {
	Version  int             `json:"version"`
	Mode     string          `json:"mode"` // quick or full.
	Seed     uint64          `json:"seed"`
	Commit   string          `json:"commit"`
	Machine  string          `json:"machine"`
	Date     time.Time       `json:"date"`    // When the run began.
	Seconds  float64         `json:"seconds"` // The whole run took so long.
	Summary  Summary         `json:"summary"`
	Outcomes []judge.Outcome `json:"outcomes"`
	Drawn    []judge.Outcome `json:"drawn,omitempty"`   // Runs drawn from seeds beside the matrix; they count in a table of their own only.
	Scraped  []judge.Outcome `json:"scraped,omitempty"` // Runs at other scrape intervals; they count in the table of what a person waits for only.
	Young    []judge.Outcome `json:"young,omitempty"`   // Runs whose fault comes in the job's first half minute; they count in a table of their own only.
}

// Version is the version of the JSON form.
const Version = 1

// Summary holds the figures that floors are set on.
type Summary struct {
	// Levels are all runs by their level of evidence; everything else is of runs with kernel events.
	Levels []LevelScore `json:"levels"`

	Runs    int `json:"runs"`
	Without int `json:"without_effect"` // Faults that changed nothing, or less than the trigger's bound.

	Hang Figures `json:"hang"`
	Slow Figures `json:"slow"`
	// Below: slow by less than the triggers' bound, and asked about nevertheless.
	Below  Figures `json:"below_bound"`
	Nobody Figures `json:"nobody"` // Slow, and nobody's machine is bad: imbalance and global slowness.
	// Quiet runs: healthy and benign ones.
	NobodySpared Share `json:"nobody_not_accused"` // Of the runs with nobody to blame.
	Healthy      Share `json:"healthy_not_accused"`
	Benign       Share `json:"benign_not_accused"`
	QuietPaged   Share `json:"quiet_not_paged"`
	QuietNoFire  Share `json:"quiet_not_triggered"`

	Precision Share   `json:"precision"` // Accusations whose first-named is guilty.
	Recall    Share   `json:"recall"`    // Faults with a culprit whose verdict accuses it first.
	F1        float64 `json:"f1"`
	// F1Low and F1High come from the ends of both intervals.
	F1Low  float64 `json:"f1_low"`
	F1High float64 `json:"f1_high"`

	Methods     []MethodScore `json:"methods"` // The engine first, then each method alone, over the same runs.
	Design      []Asked       `json:"design"`  // The floors of the design beside what was measured.
	Reliability []Bin         `json:"reliability"`
	Calibration float64       `json:"calibration_error"` // Expected calibration error.
	// Uncalibrated is the error that the bare weights of evidence would have as confidences, HarmedUncalibrated that under harm.
	Uncalibrated       float64 `json:"uncalibrated_error"`
	HarmedUncalibrated float64 `json:"harmed_uncalibrated_error"`

	Harms []HarmScore `json:"harms"` // Under each harm; the last is of all together.
	// HarmedReliability and HarmedCalibration are of the verdicts under harm.
	HarmedReliability []Bin   `json:"harmed_reliability"`
	HarmedCalibration float64 `json:"harmed_calibration_error"`

	// Young are the jobs that stop in their first half minute, at all levels, and those of them in which an innocent is accused.
	Young         Share `json:"young_hang_right"`
	YoungInnocent Share `json:"young_innocent"`
}

// MethodScore is how often a method's first-named is right, or nobody is named where nobody is to blame.
type MethodScore struct {
	Method   string `json:"method"`
	Hang     Share  `json:"hang"`
	Slow     Share  `json:"slow"`
	Nobody   Share  `json:"nobody"` // Quiet runs, and slow ones that no machine is to blame for.
	All      Share  `json:"all"`
	Accusing Share  `json:"accusing"` // Naming an innocent.
}

// Figures of one kind of trouble, over the runs in which the fault had an effect.
type Figures struct {
	Runs      int     `json:"runs"`
	Triggered Share   `json:"triggered"`
	Detected  Share   `json:"detected"` // Triggered, and the verdict is neither healthy nor benign.
	Class     Share   `json:"class"`
	Cause     Share   `json:"cause"`
	Top1      Share   `json:"top1"`
	Top3      Share   `json:"top3"`
	Host      Share   `json:"host"`
	Host3     Share   `json:"host_top3"`
	Device    Share   `json:"device"`
	Device3   Share   `json:"device_top3"`
	Group     Share   `json:"group"`
	Right     Share   `json:"right"` // Class and first-named.
	Unknown   Share   `json:"unknown"`
	False     Share   `json:"false_accusation"`
	ToldAnew  Share   `json:"told_anew"`        // A trigger fired after the fault. The next three are of these runs.
	Told50    float64 `json:"told_p50_seconds"` // Fault to analyzer told, virtual time.
	Told90    float64 `json:"told_p90_seconds"`
	ToldMx    float64 `json:"told_max_seconds"`
	Latency50 float64 `json:"latency_p50_seconds"` // Fault to the verdict that is said, virtual time.
	Latency90 float64 `json:"latency_p90_seconds"`
	LatencyMx float64 `json:"latency_max_seconds"`
}

// Bin is one bar of the reliability diagram: verdicts of a confidence, and how many were right.
type Bin struct {
	From       float64 `json:"from"`
	To         float64 `json:"to"`
	Confidence float64 `json:"confidence"` // Mean.
	Right      Share   `json:"right"`
}

func figures(list []judge.Outcome) Figures {
	f := Figures{Runs: len(list)}
	f.Triggered = share(list, func(o *judge.Outcome) bool { return o.Triggered })
	f.Detected = share(list, (*judge.Outcome).Detected)
	f.Class = share(list, func(o *judge.Outcome) bool { return o.ClassRight })
	f.Cause = share(list, func(o *judge.Outcome) bool { return o.CauseRight })
	f.Top1 = share(list, func(o *judge.Outcome) bool { return o.Top1 })
	f.Top3 = share(list, func(o *judge.Outcome) bool { return o.Top3 })
	f.Host = share(list, func(o *judge.Outcome) bool { return o.HostRight })
	f.Host3 = share(list, func(o *judge.Outcome) bool { return o.HostTop3 })
	f.Device = share(list, func(o *judge.Outcome) bool { return o.DeviceRight })
	f.Device3 = share(list, func(o *judge.Outcome) bool { return o.DeviceTop3 })
	f.Group = share(list, func(o *judge.Outcome) bool { return o.GroupRight })
	f.Right = share(list, func(o *judge.Outcome) bool { return o.Right })
	f.Unknown = share(list, func(o *judge.Outcome) bool { return o.Unknown })
	f.False = share(list, func(o *judge.Outcome) bool { return o.False })
	f.ToldAnew = share(list, (*judge.Outcome).ToldAnew)
	told := collect(filter(list, (*judge.Outcome).ToldAnew), func(o *judge.Outcome) float64 { return o.Told })
	f.Told50, f.Told90, f.ToldMx = percentile(told, 0.5), percentile(told, 0.9), percentile(told, 1)
	lat := collect(filter(list, func(o *judge.Outcome) bool { return o.Triggered }), func(o *judge.Outcome) float64 { return o.Latency })
	f.Latency50, f.Latency90, f.LatencyMx = percentile(lat, 0.5), percentile(lat, 0.9), percentile(lat, 1)
	return f
}

// usual tells whether a run has the level of evidence that figures are of unless they say otherwise.
func usual(o *judge.Outcome) bool { return o.Level == string(cluster.KernelEvents) }

func (r *Report) usual() []judge.Outcome { return filter(r.Outcomes, usual) }

func summarize(every []judge.Outcome) Summary {
	all := filter(every, usual)
	effective := filter(all, func(o *judge.Outcome) bool { return o.Effect })
	quiet := filter(all, (*judge.Outcome).Quiet)
	guilty := filter(all, (*judge.Outcome).Guilty)
	nobody := filter(effective, (*judge.Outcome).NobodyGuilty)
	in := func(group string) func(*judge.Outcome) bool {
		return func(o *judge.Outcome) bool { return o.Group == group }
	}
	notAccused := func(o *judge.Outcome) bool { return !o.False }
	s := Summary{Levels: scoreLevels(every), Runs: len(all), Without: len(all) - len(effective)}
	s.Hang = figures(filter(guilty, in(matrix.GroupHang)))
	s.Slow = figures(filter(guilty, in(matrix.GroupSlow)))
	s.Below = figures(filter(all, func(o *judge.Outcome) bool { return !o.Effect && o.Group == matrix.GroupSlow && len(o.TruthRanks) > 0 }))
	s.Nobody = figures(nobody)
	s.NobodySpared = share(nobody, notAccused)
	s.Healthy = share(filter(quiet, in(matrix.GroupHealthy)), notAccused)
	s.Benign = share(filter(quiet, in(matrix.GroupBenign)), notAccused)
	s.QuietPaged = share(quiet, func(o *judge.Outcome) bool { return !o.Page })
	s.QuietNoFire = share(quiet, func(o *judge.Outcome) bool { return !o.Triggered })
	s.Precision = share(filter(effective, (*judge.Outcome).Accuses), func(o *judge.Outcome) bool { return o.Top1 && o.Guilty() })
	s.Recall = share(guilty, func(o *judge.Outcome) bool { return o.Top1 && o.Accuses() })
	if p, r := s.Precision.Value(), s.Recall.Value(); p+r > 0 {
		s.F1 = 2 * p * r / (p + r)
	}
	s.F1Low, s.F1High = f1Bounds(s.Precision, s.Recall)
	s.Methods = scoreMethods(effective)
	said := func(o *judge.Outcome) float64 { return o.Confidence }
	weighs := func(o *judge.Outcome) float64 { return o.Weight }
	s.Reliability, s.Calibration = reliability(effective, said)
	_, s.Uncalibrated = reliability(effective, weighs)
	s.Harms = scoreHarms(effective)
	harmed := asOutcomes(effective)
	s.HarmedReliability, s.HarmedCalibration = reliability(harmed, said)
	_, s.HarmedUncalibrated = reliability(harmed, weighs)
	s.Design = design(all, &s)
	return s
}

// f1Bounds combines the ends of the intervals of precision and recall: wider than an interval of F1 itself.
func f1Bounds(precision, recall Share) (low, high float64) {
	mean := func(p, r float64) float64 {
		if p+r == 0 {
			return 0
		}
		return 2 * p * r / (p + r)
	}
	return mean(precision.Low, recall.Low), mean(precision.High, recall.High)
}

// whole is the engine among the methods.
const whole = "culprit"

// scoreMethods compares the engine with each method over the runs in which there was evidence to look at.
func scoreMethods(effective []judge.Outcome) []MethodScore {
	judged := filter(effective, func(o *judge.Outcome) bool { return len(o.Methods) > 0 })
	score := func(name string, right, bad func(*judge.Outcome) bool) MethodScore {
		of := func(keep func(*judge.Outcome) bool) Share { return share(filter(judged, keep), right) }
		return MethodScore{
			Method:   name,
			Hang:     of(func(o *judge.Outcome) bool { return o.Guilty() && o.Group == matrix.GroupHang }),
			Slow:     of(func(o *judge.Outcome) bool { return o.Guilty() && o.Group == matrix.GroupSlow }),
			Nobody:   of(func(o *judge.Outcome) bool { return !o.Guilty() }),
			All:      share(judged, right),
			Accusing: share(judged, bad),
		}
	}
	out := []MethodScore{score(whole, ranked, func(o *judge.Outcome) bool { return o.False })}
	for _, m := range baseline.Methods {
		out = append(out, score(m.Name,
			func(o *judge.Outcome) bool { return o.Methods[m.Name].Right }, func(o *judge.Outcome) bool { return o.Methods[m.Name].False }))
	}
	return out
}

// ranked judges the engine as the methods are: by the first-named alone, or rightly nobody.
func ranked(o *judge.Outcome) bool {
	if !o.Guilty() {
		return !o.False
	}
	return o.Top1 && o.Accuses()
}

// reliability bins the verdicts by what they claim.
func reliability(list []judge.Outcome, claim func(*judge.Outcome) float64) (bins []Bin, calibrationError float64) {
	const n = 10
	total := 0
	for i := range n {
		b := Bin{From: float64(i) / n, To: float64(i+1) / n}
		in := filter(list, func(o *judge.Outcome) bool {
			return !o.Unknown && claim(o) > b.From && claim(o) <= b.To
		})
		if len(in) == 0 {
			continue
		}
		for k := range in {
			b.Confidence += claim(&in[k]) / float64(len(in))
		}
		b.Right = share(in, func(o *judge.Outcome) bool { return o.Holds() })
		total += len(in)
		calibrationError += float64(len(in)) * abs(b.Confidence-b.Right.Value())
		bins = append(bins, b)
	}
	if total > 0 {
		calibrationError /= float64(total)
	}
	return bins, calibrationError
}

func abs(x float64) float64 { return max(x, -x) }

// New summarises outcomes.
func New(mode string, seed uint64, commit, machine string, date time.Time, took float64, outcomes []judge.Outcome) *Report {
	r := &Report{Version: Version, Mode: mode, Seed: seed, Commit: commit, Machine: machine, Date: date, Seconds: took, Outcomes: outcomes}
	if mode != ModeBlind {
		r.Outcomes = filter(outcomes, func(o *judge.Outcome) bool { return !o.Drawn && o.Scrape == 0 && !o.Young })
		r.Young = filter(outcomes, func(o *judge.Outcome) bool { return o.Young })
		r.Scraped = filter(outcomes, func(o *judge.Outcome) bool { return o.Scrape > 0 })
		r.Drawn = filter(outcomes, func(o *judge.Outcome) bool { return o.Drawn })
	}
	r.Summary = summarize(r.Outcomes)
	r.Summary.Young = share(r.Young, func(o *judge.Outcome) bool { return o.Right && !o.False })
	r.Summary.YoungInnocent = share(r.Young, func(o *judge.Outcome) bool { return o.False })
	return r
}
