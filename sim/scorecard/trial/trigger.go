// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

// watch is the arithmetic of the way from a node's metric to the analyzer: scrape, rule evaluation, Alertmanager.
type watch struct {
	scrape, eval, group time.Duration
}

// usual is the deployment of the latency budget: 5 s scrape and evaluation, 1 s group wait.
var usual = watch{scrape: 5 * time.Second, eval: 5 * time.Second, group: time.Second}

const (
	stallFloor   = 3 * time.Second
	stallCeiling = 120 * time.Second
	waitWindow   = 2 * time.Minute
	learnWindow  = 10 * time.Minute
)

// firesAt is when the analyzer hears of a job that makes no progress: the stall rule on the job's longest stall, with the
// threshold learned from the job's own healthy waits, as rules/culprit-triggers.yaml has it. The run stands for a job that
// has done the same for ten minutes: the waits between warm and learned, iterations without first steps and before any
// fault, are its history. False: the rule never fires.
func (w watch) firesAt(stalls []cluster.Stall, warm, learned, end time.Duration) (time.Duration, bool) {
	spans := merge(stalls, end)
	history := time.Duration(0)
	for _, s := range spans {
		if s.from >= warm && s.to <= learned {
			history = max(history, s.to-s.from)
		}
	}
	maxima := slices.Repeat([]time.Duration{history}, int(learnWindow/w.scrape))
	ended := []sample{{learned, history}} // Waits seen to end.
	last := time.Duration(0)
	for t := warm + w.scrape/3; t <= end; t += w.scrape {
		longest := time.Duration(0)
		for _, s := range spans {
			if s.from <= t && t < s.to {
				longest = max(longest, t-max(s.from, warm))
			}
		}
		if longest < last {
			ended = append(ended, sample{t, last})
		}
		last = longest
		recent := time.Duration(0)
		for _, e := range ended {
			if t-e.at <= waitWindow {
				recent = max(recent, e.value)
			}
		}
		maxima = append(maxima[1:], recent)
		if longest > threshold(maxima) {
			// The rule sees the scrape at its next evaluation.
			at := (t/w.eval + 1) * w.eval
			return at + w.group, true
		}
	}
	return 0, false
}

type sample struct {
	at, value time.Duration
}

func threshold(maxima []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(maxima))
	q := sorted[len(sorted)/4]
	return min(max(2*q, stallFloor), stallCeiling)
}

type span struct{ from, to time.Duration }

// slowAt is when the analyzer hears of a job whose iterations take longer than before: the mean over 10 s, or over a
// minute, is 1.1 times the 0.9 quantile of the healthy means, at two evaluations in a row. False: never.
func (w watch) slowAt(ends []cluster.Time, warm, learned, end time.Duration) (time.Duration, bool) {
	type window struct {
		span     time.Duration
		baseline []time.Duration
		held     int
	}
	windows := []*window{{span: 10 * time.Second}, {span: time.Minute}}
	for t := warm + 10*time.Second; t <= end; t += w.eval {
		for _, win := range windows {
			mean, ok := meanIteration(ends, t-w.scrape/2, win.span, warm)
			if !ok {
				continue
			}
			if t <= learned {
				win.baseline = append(win.baseline, mean)
				continue
			}
			base := quantile(win.baseline, 0.9)
			if base == 0 { // Too short a past for this window: the shorter one's serves.
				base = quantile(windows[0].baseline, 0.9)
			}
			if base > 0 && mean > base+base/10 {
				win.held++
			} else {
				win.held = 0
			}
			if win.held >= 2 {
				return (t/w.eval+1)*w.eval + w.group, true
			}
		}
	}
	return 0, false
}

// meanIteration is the mean duration of the iterations that ended in the span before t.
func meanIteration(ends []cluster.Time, t, span, warm time.Duration) (time.Duration, bool) {
	sum, n := time.Duration(0), 0
	for i := 1; i < len(ends); i++ {
		if e := ends[i].Duration(); e > t-span && e <= t && ends[i-1].Duration() >= warm {
			sum += e - ends[i-1].Duration()
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	return sum / time.Duration(n), true
}

func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// merge drops stalls that lie within others.
func merge(stalls []cluster.Stall, end time.Duration) []span {
	out := make([]span, 0, len(stalls))
	for _, s := range stalls {
		to := end + time.Hour
		if s.To < cluster.Never {
			to = s.To.Duration()
		}
		out = append(out, span{s.From.Duration(), to})
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	kept := out[:0]
	for _, s := range out {
		if len(kept) > 0 && s.to <= kept[len(kept)-1].to {
			continue
		}
		kept = append(kept, s)
	}
	return kept
}
