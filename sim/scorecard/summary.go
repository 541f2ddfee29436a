// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

// Report is everything the scorecard has to say, as JSON.
type Report struct {
	Version  int       `json:"version"`
	Mode     string    `json:"mode"` // quick or full.
	Seed     uint64    `json:"seed"`
	Commit   string    `json:"commit"`
	Machine  string    `json:"machine"`
	Seconds  float64   `json:"seconds"` // The whole run took so long.
	Summary  Summary   `json:"summary"`
	Outcomes []Outcome `json:"outcomes"`
}

// ReportVersion is the version of the JSON form.
const ReportVersion = 1

// Summary holds the figures that floors are set on.
type Summary struct {
	Runs    int `json:"runs"`
	Without int `json:"without_effect"` // Faults that changed nothing, or less than the trigger's bound.

	Hang   Figures `json:"hang"`
	Slow   Figures `json:"slow"`
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

	Baselines   map[string]Share `json:"baselines"`          // Right, over the same runs.
	BaselineBad map[string]Share `json:"baselines_accusing"` // Accusing an innocent.
	Reliability []Bin            `json:"reliability"`
	Calibration float64          `json:"calibration_error"` // Expected calibration error.
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
	Group     Share   `json:"group"`
	Right     Share   `json:"right"` // Class and first-named.
	Unknown   Share   `json:"unknown"`
	False     Share   `json:"false_accusation"`
	Latency50 float64 `json:"latency_p50_seconds"` // Fault to analyzer told, virtual time.
	Latency90 float64 `json:"latency_p90_seconds"`
	LatencyMx float64 `json:"latency_max_seconds"`
}

// Bin is one bar of the reliability diagram: verdicts of a confidence, and how many were right.
type Bin struct {
	From, To   float64
	Confidence float64 // Mean.
	Right      Share
}

func figures(list []Outcome) Figures {
	f := Figures{Runs: len(list)}
	f.Triggered = share(list, func(o *Outcome) bool { return o.Triggered })
	f.Detected = share(list, detected)
	f.Class = share(list, func(o *Outcome) bool { return o.ClassRight })
	f.Cause = share(list, func(o *Outcome) bool { return o.CauseRight })
	f.Top1 = share(list, func(o *Outcome) bool { return o.Top1 })
	f.Top3 = share(list, func(o *Outcome) bool { return o.Top3 })
	f.Host = share(list, func(o *Outcome) bool { return o.HostRight })
	f.Group = share(list, func(o *Outcome) bool { return o.GroupRight })
	f.Right = share(list, func(o *Outcome) bool { return o.Right })
	f.Unknown = share(list, func(o *Outcome) bool { return o.Unknown })
	f.False = share(list, func(o *Outcome) bool { return o.False })
	lat := collect(filter(list, func(o *Outcome) bool { return o.Triggered }), func(o *Outcome) float64 { return o.Latency })
	f.Latency50, f.Latency90, f.LatencyMx = percentile(lat, 0.5), percentile(lat, 0.9), percentile(lat, 1)
	return f
}

func detected(o *Outcome) bool {
	return o.Class != "healthy" && o.Class != "benign" && o.Class != ""
}

func quietGroup(o *Outcome) bool { return o.Group == "healthy" || o.Group == "benign" }

// nobodyGuilty: something is wrong and no machine is to blame.
func nobodyGuilty(o *Outcome) bool { return !quietGroup(o) && len(o.TruthRanks) == 0 }

func summarize(all []Outcome) Summary {
	effective := filter(all, func(o *Outcome) bool { return o.Effect })
	quiet := filter(all, quietGroup)
	guilty := filter(effective, func(o *Outcome) bool { return !quietGroup(o) && len(o.TruthRanks) > 0 })
	s := Summary{Runs: len(all), Without: len(all) - len(effective), Baselines: map[string]Share{}, BaselineBad: map[string]Share{}}
	s.Hang = figures(filter(guilty, func(o *Outcome) bool { return o.Group == "hang" }))
	s.Slow = figures(filter(guilty, func(o *Outcome) bool { return o.Group == "slow" }))
	s.Nobody = figures(filter(effective, nobodyGuilty))
	notAccused := func(o *Outcome) bool { return !o.False }
	s.NobodySpared = share(filter(effective, nobodyGuilty), notAccused)
	s.Healthy = share(filter(quiet, func(o *Outcome) bool { return o.Group == "healthy" }), notAccused)
	s.Benign = share(filter(quiet, func(o *Outcome) bool { return o.Group == "benign" }), notAccused)
	s.QuietPaged = share(quiet, func(o *Outcome) bool { return !o.Page })
	s.QuietNoFire = share(quiet, func(o *Outcome) bool { return !o.Triggered })
	accused := filter(effective, accuses)
	s.Precision = share(accused, func(o *Outcome) bool { return o.Top1 && !nobodyGuilty(o) })
	s.Recall = share(guilty, func(o *Outcome) bool { return o.Top1 && accuses(o) })
	if p, r := s.Precision.Value(), s.Recall.Value(); p+r > 0 {
		s.F1 = 2 * p * r / (p + r)
	}
	judged := filter(effective, func(o *Outcome) bool { return len(o.Baselines) > 0 })
	for _, name := range baselineNames {
		s.Baselines[name] = share(judged, func(o *Outcome) bool { return o.Baselines[name].Right })
		s.BaselineBad[name] = share(judged, func(o *Outcome) bool { return o.Baselines[name].False })
	}
	s.Baselines["culprit"] = share(judged, ranked)
	s.BaselineBad["culprit"] = share(judged, func(o *Outcome) bool { return o.False })
	s.Reliability, s.Calibration = reliability(effective)
	return s
}

// ranked judges the engine as the baselines are: by the first-named rank alone, or rightly nobody.
func ranked(o *Outcome) bool {
	if quietGroup(o) || nobodyGuilty(o) {
		return !o.False
	}
	return o.Top1
}

func accuses(o *Outcome) bool {
	switch o.Class {
	case "healthy", "benign", "unknown", "imbalance", "global_slow", "":
		return false
	}
	return len(o.Culprits) > 0
}

// reliability bins the verdicts by the confidence they claim.
func reliability(list []Outcome) (bins []Bin, calibrationError float64) {
	const n = 10
	total := 0
	for i := range n {
		b := Bin{From: float64(i) / n, To: float64(i+1) / n}
		in := filter(list, func(o *Outcome) bool {
			return o.Confidence > 0 && !o.Unknown && o.Confidence > b.From && o.Confidence <= b.To
		})
		if len(in) == 0 {
			continue
		}
		for k := range in {
			b.Confidence += in[k].Confidence / float64(len(in))
		}
		b.Right = share(in, func(o *Outcome) bool { return o.Right && !o.False })
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

// NewReport summarises outcomes.
func NewReport(mode string, seed uint64, commit, machine string, took float64, outcomes []Outcome) *Report {
	return &Report{
		Version: ReportVersion, Mode: mode, Seed: seed, Commit: commit, Machine: machine, Seconds: took,
		Summary: summarize(outcomes), Outcomes: outcomes,
	}
}
