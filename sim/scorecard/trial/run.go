// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package trial performs the scorecard's runs: it simulates a job until the rules would tell the analyzer, gathers what the
// nodes would serve at that moment as the service does, asks the engine, and has the verdict judged.
package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/baseline"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// trial is a case on its way.
type trial struct {
	*matrix.Case
	out     judge.Outcome
	lab     *lab
	meter   *meter
	verdict rca.Verdict
	ev      *rca.Evidence
	past    usage   // Before the fault, in a large job.
	all     *course // Of the whole run, where nothing begins to go wrong.
	harmed  []hurt
}

// run simulates a case, finds when the analyzer would be asked, and judges what it says with the evidence of that moment.
func run(ctx context.Context, c *matrix.Case, m *meter) (*trial, error) {
	t := &trial{Case: c, out: judge.NewOutcome(c), lab: newLab(ctx, c.Config, m.rest), meter: m, verdict: rca.Verdict{Class: rca.Healthy}}
	start := time.Now()
	if err := t.perform(); err != nil {
		return t, fmt.Errorf("%s: %w", c.Name, err)
	}
	t.out.Seconds = time.Since(start).Seconds()
	return t, nil
}

// leastWatch is for how long after the fault iterations are measured.
const leastWatch = 32 * time.Second

// perform lets the job run until somebody asks, as often as that happens before there is an answer.
func (t *trial) perform() error {
	asked := false
	for next, err := t.listen(0); ; next, err = t.listen(next.at) {
		if err != nil {
			return err
		}
		if next.by == "" {
			break
		}
		asked, t.out.Triggered, t.out.Trigger = true, true, next.by
		if len(t.lab.answer.Truths) > 0 {
			t.out.Latency = next.at.Seconds() - began(t.lab.answer)
		}
		if err := t.ask(next); err != nil {
			return err
		}
		// The service is asked again by whatever fires next, as long as it has found nothing.
		if c := t.verdict.Class; c != rca.Healthy && c != rca.Unknown {
			break
		}
	}
	if at := t.askUnbidden(); !asked && at > 0 {
		if err := t.ask(told{at: at}); err != nil {
			return err
		}
	}
	if err := t.askHarmed(); err != nil {
		return err
	}
	end := t.Config.Until
	if len(t.Config.Faults) > 0 {
		end = min(end, t.Config.Faults[0].At+leastWatch)
	}
	return t.finish(end)
}

// listen lets the run go on to the next time at which a rule has fired, after a moment.
func (t *trial) listen(after time.Duration) (told, error) {
	if !t.Begins() {
		if err := t.learn(); err != nil {
			return told{}, err
		}
		next := t.trigger(t.all, t.Config.Until, after)
		if next.by == "" || next.at > t.Config.Until {
			return told{}, nil
		}
		if t.lab.sim != nil && t.lab.sim.Now() > next.at {
			// What is usual was learned from the whole run, which is begun anew where something fires.
			t.lab = t.lab.again()
		}
		return next, t.lab.until(next.at)
	}
	if t.past == nil {
		if err := t.rememberWaits(); err != nil {
			return told{}, err
		}
	}
	now := after
	for now < t.Config.Until {
		now = min(max(now, t.Config.Faults[0].At)+usual.eval, t.Config.Until)
		if err := t.lab.until(now); err != nil {
			return told{}, err
		}
		if next := t.trigger(t.lab.course(), now, after); next.by != "" && next.at <= t.Config.Until {
			return next, t.lab.until(next.at)
		}
	}
	return told{}, nil
}

// learn runs the whole of a job in which nothing begins to go wrong, for what is usual in it.
func (t *trial) learn() error {
	if t.all != nil {
		return nil
	}
	if err := t.lab.until(t.Config.Until); err != nil {
		return err
	}
	t.all = t.lab.course()
	return nil
}

// rememberWaits keeps what ranks of a large job wait for while all is well.
func (t *trial) rememberWaits() error {
	if err := t.lab.until(t.Config.Faults[0].At); err != nil {
		return err
	}
	t.past = usage{}
	if t.lab.rec.Hosts() <= backAll || t.Config.Faults[0].At == 0 {
		return nil
	}
	t.past = usageOf(t.lab.rec)
	return nil
}

// askUnbidden is when somebody asks although nothing triggers, as a person would who finds the job slow; 0 never.
func (t *trial) askUnbidden() time.Duration {
	switch {
	case t.Case.Ask > 0:
		return t.Case.Ask
	case t.Lasting():
		return t.Config.Until
	case t.Group == matrix.GroupSlow:
		return t.lab.sim.Now()
	}
	return 0
}

// finish measures the fault's effect and judges.
func (t *trial) finish(end time.Duration) error {
	if err := t.lab.until(end); err != nil {
		return err
	}
	rec, answer := t.lab.rec, t.lab.answer
	t.out.Tell(answer)
	t.out.Said = judge.SaidBy(&t.verdict)
	t.out.Slowdown = t.slowdown(rec, answer)
	t.out.Effect = len(answer.Truths) == 0 || answer.Hang || (t.Group == matrix.GroupSlow && (t.out.Slowdown > leastSlowdown || t.Lasting()))
	t.out.Judgement = judge.Judge(&t.verdict, answer, t.out.Effect, rec)
	for i := range t.harmed {
		h := &t.harmed[i]
		t.out.Harmed = append(t.out.Harmed, judge.JudgeHarmed(h.harm, h.liar, &h.verdict, answer, t.out.Effect, rec))
	}
	t.out.SimSeconds = t.lab.spent.Seconds()
	if t.ev != nil {
		t.out.Methods = map[string]judge.Guess{}
		for name, rank := range baseline.Accused(t.ev, &t.verdict) {
			t.out.Methods[name] = judge.NewGuess(rank, answer, t.out.Effect)
		}
	}
	return nil
}

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

// trigger finds when the analyzer is told of the run next after a moment; now is how far the run has come.
func (t *trial) trigger(p *course, now, after time.Duration) told {
	ends := p.ends
	warm, learned := time.Duration(0), t.Config.Until/2
	if len(ends) > 1 {
		warm = ends[1].Duration()
	}
	if t.Begins() {
		if learned = seconds(began(p.answer)); learned == 0 {
			learned = now // It begins with an iteration that has not come yet.
		}
	}
	var next told
	if at, ok := usual.firesAt(p.stalls, warm, learned, now); ok && at > after {
		next = told{at, byStall}
	}
	if at, ok := usual.slowAt(ends, warm, learned, now); ok && at > after && (next.by == "" || at < next.at) {
		next = told{at, bySlow}
	}
	return next
}

// slowdown is the mean iteration after the fault over that before it; 1 without iterations to compare.
func (t *trial) slowdown(rec *cluster.Recording, a *cluster.Answer) float64 {
	ends := rec.Iterations(0)
	if len(a.Truths) == 0 || len(ends) < 4 || began(a) == 0 {
		return 1
	}
	at := seconds(began(a))
	before, ok := meanIteration(ends, at, at, ends[1].Duration())
	after, ok2 := meanIteration(ends, t.Config.Until, t.Config.Until-at-before, 0)
	if !ok || !ok2 {
		return 1
	}
	return float64(after) / float64(before)
}

// leastSlowdown is the slowdown from which a fault counts as having an effect: the trigger's own bound.
const leastSlowdown = 1.1

// began is when the first fault began, seconds; 0 from the start.
func began(a *cluster.Answer) float64 {
	at := a.Truths[0].AtSeconds
	for _, t := range a.Truths {
		at = min(at, t.AtSeconds)
	}
	return at
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
