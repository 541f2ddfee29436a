// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
)

// Outcome is how one run went.
type Outcome struct {
	Name     string `json:"name"`
	Scenario string `json:"scenario"`
	Group    string `json:"group"`
	Workload string `json:"workload"`
	Severity string `json:"severity"`
	Ranks    int    `json:"ranks"`
	Seed     uint64 `json:"seed"`

	Slowdown float64 `json:"slowdown"` // Mean iteration after the fault over before.
	// Effect: the fault had any: a hang needs the job to stand still.
	Effect bool `json:"effect"`
	// Triggered tells whether a rule fired, Latency when the analyzer heard of it, seconds after the fault.
	Triggered bool    `json:"triggered"`
	Trigger   string  `json:"trigger,omitempty"` // The rule.
	Latency   float64 `json:"latency_seconds,omitempty"`

	Class      string   `json:"class"`
	Cause      string   `json:"cause"`
	Confidence float64  `json:"confidence"`
	Page       bool     `json:"page"`
	Culprits   []int    `json:"culprits,omitempty"`
	Groups     []string `json:"groups,omitempty"` // Where no single rank is meant.
	Summary    string   `json:"summary,omitempty"`

	TruthClass string `json:"truth_class"`
	TruthRanks []int  `json:"truth_ranks,omitempty"`

	Judgement

	RanksFetched   int     `json:"ranks_fetched"`
	BytesFetched   int64   `json:"bytes_fetched"`
	AnalysisMillis float64 `json:"analysis_ms"`
	AllocMiB       float64 `json:"alloc_mib"`
	SimSeconds     float64 `json:"sim_seconds"`

	Baselines map[string]Guess `json:"baselines,omitempty"`
}

// Judgement is what the comparison of verdict and answer gives.
type Judgement struct {
	Right      bool `json:"right"` // Class and culprit, or rightly nobody.
	ClassRight bool `json:"class_right"`
	CauseRight bool `json:"cause_right"`
	Top1       bool `json:"top1"`
	Top3       bool `json:"top3"`
	HostRight  bool `json:"host_right"`
	GroupRight bool `json:"group_right"` // The culprit, or a link or group that holds it.
	Unknown    bool `json:"unknown"`
	False      bool `json:"false_accusation"` // Somebody innocent is accused.
	AllFound   bool `json:"all_found"`        // Every fault has an accused.
}

// run simulates a case, finds when the analyzer would be asked, and judges what it says with the evidence of that moment.
func (c *Case) run(ctx context.Context) (Outcome, error) {
	out, _, _, err := c.judge(ctx)
	return out, err
}

func (c *Case) judge(ctx context.Context) (Outcome, rca.Verdict, *rca.Evidence, error) {
	start := time.Now()
	out := Outcome{
		Name: c.Name, Scenario: c.Scenario, Group: c.Group, Workload: c.Workload, Severity: c.Severity, Ranks: c.Ranks,
		Seed: c.config.Seed,
	}
	rec, answer, told, err := c.watch(ctx)
	if err != nil {
		return out, rca.Verdict{}, nil, fmt.Errorf("simulating %s: %w", c.Name, err)
	}
	out.Slowdown = c.slowdown(rec, answer)
	out.Effect = len(answer.Truths) == 0 || answer.Hang || (c.Group == "slow" && (out.Slowdown > leastSlowdown || c.lasting()))
	out.Triggered, out.Trigger = told.by != "", told.by
	if out.Triggered && len(answer.Truths) > 0 {
		out.Latency = told.at.Seconds() - began(answer)
	}
	if !out.Triggered {
		if told.at = c.ask; told.at == 0 && c.lasting() {
			told.at = c.config.Until
		}
	}
	fill(&out, answer)
	if told.at == 0 {
		out.Class = string(rca.Healthy)
		out.Judgement = judge(&out, rca.Verdict{Class: rca.Healthy}, answer, rec)
		out.SimSeconds = time.Since(start).Seconds()
		return out, rca.Verdict{Class: rca.Healthy}, nil, nil
	}
	v, ev, err := c.analyze(ctx, &out, rec, told, start)
	if err != nil {
		return out, v, nil, err
	}
	out.Class, out.Cause, out.Confidence, out.Page, out.Summary = string(v.Class), string(v.Cause), v.Confidence, v.Page, v.Summary
	for _, cu := range v.Culprits {
		out.Culprits = append(out.Culprits, cu.Rank)
		if cu.Rank < 0 {
			out.Groups = append(out.Groups, strings.TrimSpace(cu.Host+" "+cu.NIC+" "+cu.Group))
		}
	}
	out.Judgement = judge(&out, v, answer, rec)
	out.Baselines = baselines(ev, answer, out.Effect)
	return out, v, ev, nil
}

// watch simulates the case for long enough to see a trigger, and no longer.
func (c *Case) watch(ctx context.Context) (*cluster.Recording, *cluster.Answer, told, error) {
	cfg := c.config
	if len(cfg.Faults) > 0 {
		cfg.Until = min(cfg.Until, firstWatch+cfg.Faults[0].At)
	}
	for {
		rec, answer, err := cluster.Run(ctx, cfg)
		if err != nil {
			return nil, nil, told{}, err
		}
		t := c.trigger(rec, answer, cfg.Until)
		if t.by != "" || cfg.Until >= c.config.Until {
			return rec, answer, t, nil
		}
		cfg.Until = c.config.Until
	}
}

// firstWatch is how long after the fault a first simulation looks for a trigger.
const firstWatch = 32 * time.Second

// told is when and by which rule the analyzer is told of a run; by is empty when no rule fires.
type told struct {
	at time.Duration
	by string
}

// Names of rules/culprit-triggers.yaml.
const (
	byStall = "CulpritJobStalled"
	bySlow  = "CulpritIterationSlow"
)

// analyze simulates the case until the analyzer is told, gathers evidence as the service does, and asks the engine.
func (c *Case) analyze(ctx context.Context, out *Outcome, seen *cluster.Recording, t told, start time.Time) (rca.Verdict, *rca.Evidence, error) {
	cfg := c.config
	cfg.Until = t.at
	rec, _, err := cluster.Run(ctx, cfg)
	if err != nil {
		return rca.Verdict{}, nil, fmt.Errorf("simulating %s until the trigger: %w", c.Name, err)
	}
	out.SimSeconds = time.Since(start).Seconds()
	g, err := gather(rec)
	if err != nil {
		return rca.Verdict{}, nil, fmt.Errorf("gathering evidence of %s: %w", c.Name, err)
	}
	v := measure(out, g.ev)
	switch {
	case standsStill(v.Class) && v.Page && (t.by != byStall || moved(seen, t.at)):
		// The service looks twice before a hang pages: what moves does not hang.
		cfg.Until += confirmAfter
		if rec, _, err = cluster.Run(ctx, cfg); err != nil {
			return v, nil, fmt.Errorf("simulating %s for a second look: %w", c.Name, err)
		}
		if g, err = gather(rec); err != nil {
			return v, nil, fmt.Errorf("gathering evidence of %s again: %w", c.Name, err)
		}
		v = measure(out, g.ev)
	case standsStill(v.Class) || v.Class == rca.Benign || t.by == byStall && v.Class != rca.Healthy:
		// Explained; or a standstill that is not understood yet.
	default:
		if err := g.lookBack(rec); err != nil {
			return v, nil, fmt.Errorf("gathering the history of %s: %w", c.Name, err)
		}
		v = measure(out, g.ev)
	}
	out.RanksFetched, out.BytesFetched = g.ranks, g.bytes
	return v, &g.ev, nil
}

// confirmAfter is analysis.confirm_after.
const confirmAfter = 300 * time.Millisecond

// standsStill reports whether a class is one of a job that stands still.
func standsStill(c rca.Class) bool {
	return c == rca.NotEntered || c == rca.Inconsistent || c == rca.Fault
}

// moved tells whether the job went on after t, so that a second look can differ from the first.
func moved(rec *cluster.Recording, t time.Duration) bool {
	ends := rec.Iterations(0)
	return len(ends) > 0 && ends[len(ends)-1].Duration() > t
}

// trigger finds when the analyzer is told of the run, that was simulated until end.
func (c *Case) trigger(rec *cluster.Recording, a *cluster.Answer, end time.Duration) told {
	warm, learned := time.Duration(0), c.config.Until/2
	if ends := rec.Iterations(0); len(ends) > 1 {
		warm = ends[1].Duration()
	}
	if len(a.Truths) > 0 && began(a) > 0 {
		learned = seconds(began(a))
	}
	var t told
	if at, ok := usual.firesAt(rec.Stalls(), warm, learned, end); ok {
		t = told{at, byStall}
	}
	if at, ok := usual.slowAt(rec.Iterations(0), warm, learned, end); ok && (t.by == "" || at < t.at) {
		t = told{at, bySlow}
	}
	return t
}

// slowdown is the mean iteration after the fault over that before it; 1 without iterations to compare.
func (c *Case) slowdown(rec *cluster.Recording, a *cluster.Answer) float64 {
	ends := rec.Iterations(0)
	if len(a.Truths) == 0 || len(ends) < 4 || began(a) == 0 {
		return 1
	}
	at := seconds(began(a))
	before, ok := meanIteration(ends, at, at, ends[1].Duration())
	after, ok2 := meanIteration(ends, c.config.Until, c.config.Until-at-before, 0)
	if !ok || !ok2 {
		return 1
	}
	return float64(after) / float64(before)
}

// leastSlowdown is the slowdown from which a fault counts as having an effect: the trigger's own bound.
const leastSlowdown = 1.1

// lasting tells whether the case's fault holds from the start of the job, so that there is no time before it.
func (c *Case) lasting() bool {
	for _, f := range c.config.Faults {
		if (f.Kind == cluster.ExpertImbalance || f.Kind == cluster.StageImbalance) && f.FromIteration == 0 {
			return true
		}
	}
	return false
}

// began is when the first fault began, seconds; 0 from the start.
func began(a *cluster.Answer) float64 {
	at := a.Truths[0].AtSeconds
	for _, t := range a.Truths {
		at = min(at, t.AtSeconds)
	}
	return at
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// measure asks the engine and notes what it cost.
func measure(out *Outcome, ev rca.Evidence) rca.Verdict {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	v := rca.Analyze(ev, rca.Options{})
	out.AnalysisMillis = float64(time.Since(start).Microseconds()) / 1000
	runtime.ReadMemStats(&after)
	out.AllocMiB = float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20)
	return v
}

func fill(out *Outcome, a *cluster.Answer) {
	out.TruthClass = "none"
	for i, t := range a.Truths {
		if i == 0 {
			out.TruthClass = t.Class
		}
		out.TruthRanks = append(out.TruthRanks, t.Ranks...)
	}
}

// innocent are the classes that accuse nobody.
func innocent(c rca.Class) bool {
	switch c {
	case rca.Healthy, rca.Benign, rca.Unknown, rca.Imbalance, rca.GlobalSlow:
		return true
	}
	return false
}

// judge compares a verdict with the sealed answer.
func judge(out *Outcome, v rca.Verdict, a *cluster.Answer, rec *cluster.Recording) Judgement {
	var j Judgement
	j.Unknown = v.Class == rca.Unknown
	accuses := len(v.Culprits) > 0 && !innocent(v.Class)
	if len(a.Truths) == 0 || !out.Effect {
		j.False = accuses
		j.ClassRight = v.Class == rca.Healthy || v.Class == rca.Benign
		if len(a.Truths) > 0 { // A fault without effect: naming it is no false accusation.
			j.False = accuses && !anyTruth(a, v.Culprits[0], rec)
		}
		j.Right = !accuses && !v.Page
		return j
	}
	j.ClassRight, j.CauseRight = classAndCause(a, v)
	nobody := true
	for _, t := range a.Truths {
		nobody = nobody && len(t.Ranks) == 0
	}
	if nobody {
		j.Top1, j.Top3, j.HostRight = !accuses, !accuses, !accuses
		j.False = accuses
		j.Right = j.ClassRight && !accuses
		return j
	}
	found := make([]bool, len(a.Truths))
	for i, c := range v.Culprits {
		hit := false
		for k, t := range a.Truths {
			if names(&t, c, rec) {
				hit, found[k] = true, true
			}
		}
		j.Top1 = j.Top1 || (i == 0 && hit)
		j.Top3 = j.Top3 || (i < 3 && hit)
		j.HostRight = j.HostRight || (i == 0 && onHost(a, c, rec))
		group := inGroup(a, c)
		j.GroupRight = j.GroupRight || (i == 0 && (hit || group))
		j.False = j.False || (accuses && !hit && !group && !(a.Truths[0].Mutual && j.Top1))
	}
	j.AllFound = !slices.Contains(found, false)
	j.Right = j.Top1 && j.ClassRight && accuses
	return j
}

func classAndCause(a *cluster.Answer, v rca.Verdict) (class, cause bool) {
	for _, t := range a.Truths {
		if slices.Contains(t.Classes, string(v.Class)) {
			class = true
			cause = cause || len(t.Causes) == 0 || slices.Contains(t.Causes, string(v.Cause))
		}
	}
	return class, cause
}

func anyTruth(a *cluster.Answer, c rca.Culprit, rec *cluster.Recording) bool {
	for _, t := range a.Truths {
		if names(&t, c, rec) {
			return true
		}
	}
	return false
}

// names tells whether a culprit is the one of the truth: its rank, or a host all of whose ranks are meant.
func names(t *cluster.Truth, c rca.Culprit, rec *cluster.Recording) bool {
	if c.Rank >= 0 {
		return slices.Contains(t.Ranks, c.Rank)
	}
	if c.Host == "" {
		return strings.Contains(c.Group, t.Place) && t.Place != ""
	}
	for _, r := range t.Ranks {
		if rec.HostName(rec.HostOf(r)) == c.Host {
			return true
		}
	}
	return false
}

// inGroup tells whether a culprit without a rank is a group or link that holds a rank of the truth.
func inGroup(a *cluster.Answer, c rca.Culprit) bool {
	if c.Rank >= 0 {
		return false
	}
	for _, word := range strings.FieldsFunc(c.Group, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.Atoi(word)
		if err != nil {
			continue
		}
		for _, t := range a.Truths {
			if slices.Contains(t.Ranks, n) {
				return true
			}
		}
	}
	return false
}

func onHost(a *cluster.Answer, c rca.Culprit, rec *cluster.Recording) bool {
	host := c.Host
	if c.Rank >= 0 && c.Rank < rec.World() {
		host = rec.HostName(rec.HostOf(c.Rank))
	}
	for _, t := range a.Truths {
		for _, r := range t.Ranks {
			if rec.HostName(rec.HostOf(r)) == host {
				return true
			}
		}
	}
	return false
}

// Run runs the cases, some at the same time, and reports each to progress, in order.
func Run(ctx context.Context, cases []Case, workers int, progress func(*Outcome)) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]chan Outcome, len(cases))
	for i := range results {
		results[i] = make(chan Outcome, 1)
	}
	slots := make(chan struct{}, max(1, workers))
	go func() {
		for i := range cases {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			go func() {
				defer func() { <-slots }()
				o, err := cases[i].run(ctx)
				if err != nil {
					cancel(err)
					return
				}
				results[i] <- o
			}()
		}
	}()
	out := make([]Outcome, 0, len(cases))
	for i := range cases {
		select {
		case o := <-results[i]:
			progress(&o)
			out = append(out, o)
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
	}
	return out, nil
}

// Line is the outcome in one line.
func (o *Outcome) Line() string {
	mark := "ok  "
	switch {
	case !o.Effect:
		mark = "n/a "
	case o.False:
		mark = "FALS"
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
		mark, o.Name, o.TruthClass, short(o.TruthRanks), o.Class, o.Cause, short(o.Culprits), o.Groups[:min(2, len(o.Groups))], o.Confidence, trig, o.AnalysisMillis, o.SimSeconds, o.Slowdown)
}

func short(r []int) []int { return r[:min(len(r), 4)] }
