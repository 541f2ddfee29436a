// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/lab/nccl/draw"
	"github.com/culprit-project/culprit/sim/stack"
)

// Level is how much a job's sources show.
type Level string

// Levels, the most first.
const (
	Kernels Level = "kernels" // When kernels start and stop, and each step of a transfer.
	Steps   Level = "steps"   // Each step of a transfer.
	Calls   Level = "calls"   // Calls alone.
)

// Levels are all of them.
var Levels = []Level{Kernels, Steps, Calls}

// LevelOf gives the level of a drawn job.
func LevelOf(j *draw.Job) Level {
	switch s := sightOfDrawn(j); {
	case s.Kernels:
		return Kernels
	case s.Plugin:
		return Steps
	}
	return Calls
}

func sightOfDrawn(j *draw.Job) Sight {
	mode, inside := Net, j.Inside == "shm" && j.Ranks > j.Hosts
	if inside && j.Broadcast > 0 { // Some releases report no kernel after it.
		mode = SHM
	}
	s := SightOf(Case{Version: j.Release, Mode: mode})
	s.Plugin, s.Inside = j.Watch != draw.Hooks, inside
	s.Kernels = s.Kernels && s.Plugin
	s.Calls = j.Watch == draw.Hooks || j.Watch == draw.Both
	return s
}

// dutyOfDrawn gives what must come of a drawn job, if its fault has an effect.
func dutyOfDrawn(j *draw.Job, f stack.Fault) Duty {
	s := sightOfDrawn(j)
	duty := s.Duty(f)
	switch {
	case duty == Nobody:
	case j.Graphs && !s.Plugin:
		// A replay makes no call.
		return MayBeSilent
	case j.For > 0:
		// It may be over before anybody can be sure.
		return MayBeSilent
	case j.When == draw.First && !s.Calls && duty == MustName:
		// The first operation connects before it is launched: the plugin is told of it only when all members have come.
		return MayBeSilent
	case j.When == draw.First && duty == MustName:
		return MayBeUnknown
	}
	return duty
}

// faultOfDrawn gives what is right for the fault of a drawn job.
func faultOfDrawn(j *draw.Job) (stack.Fault, bool) {
	if j.Kind() == "eval" {
		return stack.Fault{Name: j.Fault, About: "the rank evaluates on its GPU while the others wait (benign)"}, true
	}
	return stack.FindFault(j.Fault)
}

// Drawn is what came of a drawn job.
type Drawn struct {
	draw.Job
	Fate        Fate    `json:"fate"`
	PageSeconds float64 `json:"page_seconds,omitempty"` // From the fault to the first right page.
	Why         string  `json:"why,omitempty"`
	Duty        Duty    `json:"duty"`
	Step        float64 `json:"step_seconds"` // The median before the fault.
	// Slowdown is a step's time after the fault over before; 0: there was no step after it.
	Slowdown float64  `json:"slowdown"`
	Build    string   `json:"build"`
	Commit   string   `json:"commit"`
	Ended    string   `json:"ended"` // When, in RFC 3339.
	Seconds  float64  `json:"seconds"`
	CPU      float64  `json:"cpu_seconds"` // Of all processes, where no other job ran beside it.
	Load     float64  `json:"load"`
	Triggers []string `json:"triggers,omitempty"`
	Pages    []Said   `json:"pages,omitempty"`
	Verdicts []Said   `json:"verdicts,omitempty"`
	Evidence string   `json:"evidence,omitempty"`
}

// Name tells the job from all others, and what it is about.
func (d *Drawn) Name() string { return DrawnName(&d.Job) }

// DrawnName is the name of a drawn job.
func DrawnName(j *draw.Job) string {
	return fmt.Sprintf("%s/%s/%s/%s", j.ID(), j.Release, LevelOf(j), j.Kind())
}

// How long drawn jobs train and are watched.
const (
	drawnSlowSteps = 60
	drawnQuiet     = 40 * time.Second
	drawnNamed     = 30 * time.Second
	drawnPatience  = 20 * time.Second
	// A job got slow if its steps take so many times as long as before, and stands still if none ends for so long.
	leastSlowdown   = 1.25
	leastStandstill = 4 * time.Second
)

// RunDrawn runs a drawn job on the cluster, which has as many hosts as the job. The error says that the context ended.
func (r *Runner) RunDrawn(ctx context.Context, j draw.Job, lib nccl.Library) (Drawn, error) {
	start := time.Now()
	d := Drawn{Job: j}
	fault, ok := faultOfDrawn(&j)
	if !ok {
		return d, fmt.Errorf("no fault %q", j.Fault)
	}
	d.Duty = dutyOfDrawn(&j, fault)
	perHost := j.Ranks / j.Hosts
	w := &watch{
		cluster: r.Cluster, jobID: "drawn-" + j.ID(),
		seen: Seen{
			Fault: sightOfDrawn(&j).shown(fault), Duty: d.Duty, Rank: j.Rank, With: drawnFellows(&j, fault),
			Host: r.Cluster.HostName(j.Rank / perHost), GPU: strconv.Itoa(j.Rank % perHost), Stage: j.Rank / (j.TP * j.DP),
		},
		atOnce: fault.StartsAtOnce() || j.When != draw.Middle, warmupSteps: j.Warmup, quiet: drawnQuiet, named: drawnNamed, patience: drawnPatience,
	}
	if fault.Slow {
		w.warmupSteps, w.warmup = drawnSlowSteps, slowWarmup
	}
	cfg := stack.JobConfig{
		ID: w.jobID, Ranks: j.Ranks, Layout: j.Layout(), RanksPerProcess: j.PerProcess,
		Fault: j.Fault, Rank: j.Rank, FaultAtStep: -1, Args: j.Flags(), Env: j.Env(),
	}
	onLibrary(&cfg, lib, r.BinDir, j.Watch != draw.Hooks, j.Watch == draw.Hooks || j.Watch == draw.Both)
	if j.Watch == draw.Chain {
		r.chain(&cfg)
	}
	err := w.run(ctx, cfg)
	if ctx.Err() != nil {
		w.stop()
		return d, ctx.Err()
	}
	d.Triggers, d.Pages, d.Verdicts = w.seen.Triggers, w.seen.Pages, w.seen.Verdicts
	if err != nil {
		d.Fate, d.Why = FateBroken, err.Error()
	} else {
		p := paceOf(w.job.StepTimes(), w.zero, time.Now())
		d.Step, d.Slowdown = p.before.Seconds(), p.slowdown()
		d.Fate, d.PageSeconds, d.Why = w.seen.fate(p.hasEffect(&j))
	}
	if d.Fate.Failed() {
		var kept error
		if d.Evidence, kept = r.keep(ctx, w, d.Name(), &d); kept != nil {
			d.Why += "\n(not all evidence was kept: " + kept.Error() + ")"
		}
	}
	w.stop()
	d.Seconds, d.Load, d.Ended = time.Since(start).Seconds(), load(), time.Now().UTC().Format(time.RFC3339)
	return d, nil
}

// drawnFellows gives the ranks that a fault befalls beside its own: what happens to a process happens to all its ranks.
func drawnFellows(j *draw.Job, f stack.Fault) []int {
	if f.Kind() != "stop" && f.Kind() != "kill" {
		return nil
	}
	var out []int
	first := j.Rank - j.Rank%j.PerProcess
	for rank := first; rank < first+j.PerProcess; rank++ {
		if rank != j.Rank {
			out = append(out, rank)
		}
	}
	return out
}

// pace is how a job's steps went around the moment of its fault.
type pace struct {
	before, after time.Duration // Medians of a step's time; 0: there was none.
	longest       time.Duration // Between two ends of steps after the fault, or from the last one until now.
}

func paceOf(ends []time.Time, zero, now time.Time) pace {
	var p pace
	var before, after []time.Duration
	for i := 1; i < len(ends); i++ {
		took := ends[i].Sub(ends[i-1])
		if ends[i].Before(zero) {
			before = append(before, took)
			continue
		}
		after, p.longest = append(after, took), max(p.longest, took)
	}
	if len(ends) > 0 {
		p.longest = max(p.longest, now.Sub(ends[len(ends)-1]))
	}
	p.before, p.after = median(before), median(after)
	return p
}

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// slowdown is how many times as long steps take after the fault as before; 0: not known.
func (p pace) slowdown() float64 {
	if p.before == 0 || p.after == 0 {
		return 0
	}
	return p.after.Seconds() / p.before.Seconds()
}

// hasEffect says whether the job stood still, or got slow. A fault of the first or the last step has no steps around it.
func (p pace) hasEffect(j *draw.Job) bool {
	stands := leastStandstill
	if j.For > 0 {
		stands = time.Duration(j.For / 2 * float64(time.Second))
	}
	switch {
	case j.When != draw.Middle || j.BeforeTraining():
		return true
	case j.Group == draw.Slow:
		return p.slowdown() >= leastSlowdown || p.longest > 10*p.before
	}
	return p.longest >= stands && p.longest > 2*p.before
}
