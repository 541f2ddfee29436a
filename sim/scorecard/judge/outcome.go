// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// Outcome is how one run went.
type Outcome struct {
	Name     string `json:"name"` // scenario/severity/workload/seed
	Scenario string `json:"scenario"`
	Group    string `json:"group"` // hang, slow, healthy or benign.
	Workload string `json:"workload"`
	Severity string `json:"severity"`
	Ranks    int    `json:"ranks"`
	Seed     uint64 `json:"seed"`
	Level    string `json:"level"`           // Of evidence.
	Drawn    bool   `json:"drawn,omitempty"` // From a seed, not from the matrix.
	// Scrape is the interval in seconds where the matrix has the same run at its own; else 0.
	Scrape float64 `json:"scrape_seconds,omitempty"`

	// Young: the fault came in the job's first half minute, and the matrix has the same run of a job that has settled.
	Young bool `json:"young,omitempty"`

	Slowdown float64 `json:"slowdown"` // Mean iteration after the fault over before.
	// Effect: the fault had any: a hang needs the job to stand still, slowness iterations longer by 10%.
	Effect bool `json:"effect"`
	// Triggered tells whether a rule fired. Then, in seconds of virtual time after the fault: Told, when the analyzer first
	// heard of it, 0 never, because an incident was open already and no rule fired anew; Latency, when the verdict was first said;
	// Paged, when it paged, 0 never. Scrape, rule evaluation, group wait and the service's own patience are in them; what analyses
	// take is in AnalysisMS.
	Triggered bool    `json:"triggered"`
	Trigger   string  `json:"trigger,omitempty"` // The rule.
	Told      float64 `json:"told_seconds,omitempty"`
	Latency   float64 `json:"latency_seconds,omitempty"`
	Paged     float64 `json:"paged_seconds,omitempty"`

	Said

	TruthClass     string `json:"truth_class"`
	TruthRanks     []int  `json:"truth_ranks,omitempty"`
	TruthComponent string `json:"truth_component,omitempty"`
	TruthPlace     string `json:"truth_place,omitempty"`

	Judgement

	RanksFetched int     `json:"ranks_fetched"`
	BytesFetched int64   `json:"bytes_fetched"`
	AnalysisMS   float64 `json:"analysis_ms"`     // Wall time of the engine, all its looks together.
	AnalysisCPU  float64 `json:"analysis_cpu_ms"` // CPU time of it.
	// AllocMiB is what the engine allocated in the look that took longest, an upper bound of its memory. Measured where nothing
	// else ran, of a sample of the runs; 0 not measured.
	AllocMiB   float64 `json:"alloc_mib,omitempty"`
	SimSeconds float64 `json:"sim_seconds"`
	Seconds    float64 `json:"seconds"` // The whole run, wall time, beside whatever ran at the same time.

	// Search is the progressive search over a job of more than 64 hosts.
	Search *Search `json:"search,omitempty"`

	// Harmed are the verdicts on the same moment with worse evidence.
	Harmed []Harmed `json:"harmed,omitempty"`

	// Methods are what simple and single methods say of the same evidence.
	Methods map[string]Guess `json:"methods,omitempty"`
}

// NewOutcome is of a case that has not been run yet.
func NewOutcome(c *matrix.Case) Outcome {
	o := Outcome{
		Name: c.Name, Scenario: c.Scenario, Group: c.Group, Workload: c.Workload, Severity: c.Severity, Ranks: c.Ranks,
		Seed: c.Seed, Level: string(c.Level), Drawn: c.Drawn, Young: c.Young,
	}
	if c.Rescraped {
		o.Scrape = c.Scrape.Seconds()
	}
	return o
}

// Tell notes what is true.
func (o *Outcome) Tell(a *cluster.Answer) {
	o.TruthClass, o.TruthRanks = "none", nil
	for i, t := range a.Truths {
		if i == 0 {
			o.TruthClass, o.TruthComponent, o.TruthPlace = t.Class, t.Component, t.Place
		}
		o.TruthRanks = append(o.TruthRanks, t.Ranks...)
	}
}

// Search is how the progressive search went over a job that is too large to ask everybody.
type Search struct {
	Hosts int `json:"hosts"` // Asked,
	Of    int `json:"of"`    // of so many.
	// Same: with all states known the engine says the same class and first-named. Only of standstills.
	Same bool `json:"same"`
	// Whole is how many bytes all states would have been.
	Whole int64 `json:"whole_bytes"`
}

// Said is what the engine has said.
type Said struct {
	Class      string   `json:"class"`
	Cause      string   `json:"cause"`
	Confidence float64  `json:"confidence"`
	Weight     float64  `json:"weight"` // Of the evidence, before calibration.
	Page       bool     `json:"page"`
	Row        string   `json:"row,omitempty"` // Of the engine's tables: the one that decided.
	Culprits   []int    `json:"culprits,omitempty"`
	Groups     []string `json:"groups,omitempty"` // Where no single rank is meant.
	Summary    string   `json:"summary,omitempty"`
}

// SaidBy is what of a verdict is kept.
func SaidBy(v *rca.Verdict) Said {
	s := Said{
		Class: string(v.Class), Cause: string(v.Cause), Confidence: v.Confidence, Weight: v.Weight, Page: v.Page, Row: v.Row, Summary: v.Summary,
	}
	for i := range v.Culprits {
		c := &v.Culprits[i]
		s.Culprits = append(s.Culprits, c.Rank)
		if c.Rank < 0 {
			s.Groups = append(s.Groups, strings.TrimSpace(c.Host+" "+c.NIC+" "+c.Group))
		}
	}
	return s
}

// Quiet: nothing is wrong.
func (o *Outcome) Quiet() bool {
	return o.Group == matrix.GroupHealthy || o.Group == matrix.GroupBenign
}

// NobodyGuilty: something is wrong and no machine is to blame.
func (o *Outcome) NobodyGuilty() bool { return !o.Quiet() && len(o.TruthRanks) == 0 }

// Guilty: something is wrong that a machine or process is to blame for, and it had an effect.
func (o *Outcome) Guilty() bool { return o.Effect && !o.Quiet() && len(o.TruthRanks) > 0 }

// Accuses: the verdict blames somebody.
func (o *Outcome) Accuses() bool {
	return o.Class != "" && !innocent(rca.Class(o.Class)) && len(o.Culprits) > 0
}

// ToldAnew: a rule fired after the fault. Otherwise the verdict, if there is one, comes from an incident that was open already.
func (o *Outcome) ToldAnew() bool { return o.Triggered && o.Told > 0 }

// Detected: the verdict says that something is wrong.
func (o *Outcome) Detected() bool {
	return o.Class != string(rca.Healthy) && o.Class != string(rca.Benign) && o.Class != ""
}

// Line is the outcome in one line.
func (o *Outcome) Line() string {
	mark := "ok  "
	switch {
	case o.False:
		mark = "FALS"
	case !o.Effect:
		mark = "n/a "
	case o.Unknown:
		mark = "unkn"
	case !o.Right:
		mark = "MISS"
	}
	trig := "-"
	if o.Triggered {
		trig = strconv.FormatFloat(o.Latency, 'f', 1, 64)
	}
	return fmt.Sprintf("%s %-50s truth=%s%v said=%s/%s%v%v conf=%.2f trig=%s an=%.1fms sim=%.2fs slow=%.2f",
		mark, o.Name, o.TruthClass, Short(o.TruthRanks), o.Class, o.Cause, Short(o.Culprits), o.Groups[:min(2, len(o.Groups))], o.Confidence, trig, o.AnalysisMS, o.SimSeconds, o.Slowdown)
}

// Short is the beginning of a list of ranks, for a line of text.
func Short(r []int) []int { return r[:min(len(r), 4)] }
