// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package stall notices on the node that a job has stopped, and posts the trigger that the rules would fire: CulpritJobStalled, to
// Alertmanager, with the same labels. The rules see a job once a scrape, after which they are evaluated; the exporter sees its own
// ranks several times a second. Whatever goes wrong here, the rules fire as before.
package stall

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule is the stall trigger of mixin/rules/stall.libsonnet, from which mixin/generate.sh writes rule.json.
type Rule struct {
	Alert       string            `json:"alert"`
	Labels      map[string]string `json:"labels"`
	Summary     string            `json:"summary"`
	Description string            `json:"description"` // With the job's id and the value as Prometheus's templates have them.
	RunbookURL  string            `json:"runbook_url"`

	Interval  Seconds `json:"interval_seconds"`   // Between evaluations.
	Floor     Seconds `json:"floor_seconds"`      // Nothing shorter is a stall.
	Factor    float64 `json:"factor"`             // So many times the usual longest wait is one,
	Ceiling   Seconds `json:"ceiling_seconds"`    // and never more than this.
	FirstStep Seconds `json:"first_step_seconds"` // The same before anything has completed.
	Window    Seconds `json:"window_seconds"`     // The longest wait in it,
	History   Seconds `json:"history_seconds"`    // over so long,
	Quantile  float64 `json:"quantile"`           // is exceeded for all but this share.
}

// Seconds is a duration in seconds.
type Seconds float64

// Duration gives it as Go has durations.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

//go:embed rule.json
var ruleFile []byte

// Shipped gives the rule as the mixin's defaults have it.
func Shipped() (*Rule, error) {
	var r Rule
	if err := json.Unmarshal(ruleFile, &r); err != nil {
		return nil, fmt.Errorf("reading the stall trigger: %w", err)
	}
	return &r, nil
}

// describe fills the description's templates.
func (r *Rule) describe(job string, stall float64) string {
	return strings.NewReplacer(
		"{{ $labels.job_id }}", job,
		"{{ $value | humanizeDuration }}", time.Duration(stall*float64(time.Second)).Round(100*time.Millisecond).String(),
	).Replace(r.Description)
}

// Waits are what a job's own waits come to, evaluated as the rules' records are.
type Waits struct {
	rule *Rule
	at   time.Time // Of the last evaluation.
	// stall and ranks are those of the last evaluation.
	stall float64
	ranks int
	ended []sample // Waits that ended by themselves, within the window.
	usual []sample // The longest of them at each evaluation, over the history.
	limit float64
}

// NewWaits makes those of a job of which nothing has been seen.
func NewWaits(rule *Rule) *Waits { return &Waits{rule: rule, limit: float64(rule.FirstStep)} }

// Limit is how long a stall may last, in seconds: what the rules record as job_id:culprit_nccl_stall_seconds:threshold.
func (w *Waits) Limit() float64 { return w.limit }

type sample struct {
	at      time.Time
	seconds float64
}

// Evaluate takes the longest stall of the job's ranks on this node, of how many, and whether an operation has ever completed. It does
// what the records of mixin/rules/stall.libsonnet do, once an interval.
func (w *Waits) Evaluate(now time.Time, stall float64, ranks int, completed bool) {
	if now.Sub(w.at) < w.rule.Interval.Duration() && !w.at.IsZero() {
		return
	}
	if stall < w.stall && ranks >= w.ranks {
		w.ended = append(w.ended, sample{now, w.stall})
	}
	w.at, w.stall, w.ranks = now, stall, ranks
	w.ended = since(w.ended, now.Add(-w.rule.Window.Duration()))
	switch {
	case len(w.ended) > 0:
		longest := slices.MaxFunc(w.ended, cmpSeconds)
		w.usual = append(w.usual, sample{now, longest.seconds})
	case stall < float64(w.rule.Floor) && completed:
		w.usual = append(w.usual, sample{now, 0})
	}
	w.usual = since(w.usual, now.Add(-w.rule.History.Duration()))
	w.limit = float64(w.rule.FirstStep)
	if completed && len(w.usual) > 0 {
		w.limit = min(max(w.rule.Factor*quantile(w.usual, w.rule.Quantile), float64(w.rule.Floor)), float64(w.rule.Ceiling))
	}
}

// since drops what lies before a moment.
func since(list []sample, start time.Time) []sample {
	return slices.Delete(list, 0, countBefore(list, start))
}

func countBefore(list []sample, start time.Time) int {
	for i := range list {
		if list[i].at.After(start) {
			return i
		}
	}
	return len(list)
}

func cmpSeconds(a, b sample) int { return cmp.Compare(a.seconds, b.seconds) }

// quantile is PromQL's quantile_over_time: between two samples it interpolates.
func quantile(list []sample, q float64) float64 {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, cmpSeconds)
	rank := q * float64(len(sorted)-1)
	low := int(rank)
	high := min(low+1, len(sorted)-1)
	weight := rank - float64(low)
	return sorted[low].seconds*(1-weight) + sorted[high].seconds*weight
}
