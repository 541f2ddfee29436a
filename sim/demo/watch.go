// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/matrix"
	"github.com/culprit-project/culprit/sim/stack"
)

// watch follows what the cluster does after the fault.
type watch struct {
	timeline *timeline
	cluster  *stack.Stack
	job      *stack.Job
	fault    stack.Fault
	options  options
	binDir   string
}

// startJob starts the job and returns when it has trained for long enough, or when a fault of its start is there.
func (w *watch) startJob(ctx context.Context) error {
	o := &w.options
	cfg := stack.JobConfig{
		ID: "demo", Ranks: o.ranks, Layout: o.layout, Fault: w.fault.Name, Rank: o.rank, FaultAtStep: -1,
		Program: o.program,
	}
	on := ""
	if o.nccl.Path != "" {
		matrix.OnLibrary(&cfg, o.nccl, matrix.SHM, w.binDir)
		on = fmt.Sprintf(", on NCCL %s with played GPUs", o.nccl.Version)
	}
	job, err := w.cluster.StartJob(ctx, cfg)
	if err != nil {
		return err
	}
	w.job = job
	w.timeline.say("job demo: %d ranks on %d hosts, layout %s%s, training %d healthy steps", o.ranks, o.hosts, o.layout, on, o.warmup)
	if w.fault.StartsAtOnce() {
		if _, err := job.WaitFault(ctx); err != nil {
			return err
		}
		w.timeline.mark("fault %s at rank %d: %s", w.fault.Name, o.rank, w.fault.About)
		return nil
	}
	if err := job.WaitStep(ctx, o.warmup); err != nil {
		return err
	}
	w.timeline.say("healthy: %d steps done, pages so far: %d", job.Step(), len(w.cluster.Pages(job.Config.ID)))
	return nil
}

// untilSettled injects the fault and says whether what should come of it has come: its page, or none.
func (w *watch) untilSettled(ctx context.Context) (bool, error) {
	if w.fault.Pages() {
		return w.untilPaged(ctx)
	}
	return w.untilTrainedOn(ctx)
}

// inject starts the fault and sets the timeline's zero to its beginning.
func (w *watch) inject(ctx context.Context) error {
	at, err := w.job.Inject(ctx)
	if err != nil {
		return err
	}
	w.timeline.zero(at)
	host := w.cluster.HostOfRank(w.options.rank, w.options.ranks)
	w.timeline.mark("fault %s at rank %d (%s): %s", w.fault.Name, w.options.rank, w.cluster.HostName(host), w.fault.About)
	return nil
}

// untilPaged injects the fault and waits for the trigger, the verdict and the page.
func (w *watch) untilPaged(ctx context.Context) (bool, error) {
	if err := w.inject(ctx); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.options.timeout)
	defer cancel()
	jobID := w.job.Config.ID
	triggers := make(chan struct{})
	go func() {
		defer close(triggers)
		w.showTrigger(ctx)
	}()
	page, err := w.cluster.WaitPage(ctx, jobID)
	if errors.Is(err, context.DeadlineExceeded) {
		w.timeline.mark("nobody was paged within %s", w.options.timeout)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	<-triggers
	incident, err := w.cluster.WaitIncident(ctx, jobID, func(v *rca.Verdict) bool { return v.Page })
	if err != nil {
		return false, err
	}
	w.timeline.at(page.At, "page: %s", page.Annotations["summary"])
	w.timeline.verdict(incident.Verdict)
	named := w.fault.Named(incident.Verdict, w.options.rank)
	if named {
		w.timeline.result(true, fmt.Sprintf("named the injected rank %d, %.1f s after the fault", w.options.rank, page.At.Sub(w.timeline.start).Seconds()))
	} else {
		w.timeline.result(false, fmt.Sprintf("injected %s at rank %d, which the verdict does not name", w.fault.Name, w.options.rank))
	}
	return named, nil
}

// showTrigger waits for the first trigger that the fault raises in Alertmanager.
func (w *watch) showTrigger(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		triggers, err := w.cluster.Triggers(ctx, w.job.Config.ID)
		triggers = slices.DeleteFunc(triggers, func(a stack.Alert) bool { return a.StartsAt.Before(w.timeline.start) })
		if err == nil && len(triggers) > 0 {
			first := slices.MinFunc(triggers, func(a, b stack.Alert) int { return a.StartsAt.Compare(b.StartsAt) })
			w.timeline.at(first.StartsAt, "trigger %s", first.Labels["alertname"])
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// untilTrainedOn watches a run in which nobody may be paged: through the pause, if there is one, and on.
func (w *watch) untilTrainedOn(ctx context.Context) (bool, error) {
	jobID := w.job.Config.ID
	if w.fault.InjectedBySignal() {
		if err := w.inject(ctx); err != nil {
			return false, err
		}
	}
	until := w.job.Step() + 3*w.options.warmup
	if err := w.job.WaitStep(ctx, until); err != nil {
		return false, err
	}
	w.timeline.say("trained on to step %d", until)
	incidents, err := w.cluster.Incidents(ctx, jobID)
	if err != nil {
		return false, err
	}
	for _, i := range incidents {
		if i.Verdict != nil {
			w.timeline.verdict(i.Verdict)
		}
	}
	pages := w.cluster.Pages(jobID)
	w.timeline.result(len(pages) == 0, fmt.Sprintf("%d pages, and none were due", len(pages)))
	return len(pages) == 0, nil
}

// keepEvidence writes into a directory what the job's incidents rest on and what the exporters show. Where nothing has
// happened, the analyzer is asked to look.
func (w *watch) keepEvidence(ctx context.Context) error {
	dir, jobID := w.options.evidence, w.job.Config.ID
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the directory of the evidence: %w", err)
	}
	incidents, err := w.cluster.Incidents(ctx, jobID)
	if err == nil && len(incidents) == 0 {
		var asked stack.Incident
		asked, err = w.cluster.Analyze(ctx, jobID)
		incidents = []stack.Incident{asked}
	}
	if err != nil {
		return err
	}
	for _, i := range incidents {
		file, err := w.cluster.SaveEvidence(ctx, i.ID, dir)
		if err != nil {
			return err
		}
		w.timeline.say("evidence: %s", file)
	}
	for host := range w.options.hosts {
		if err := w.cluster.SaveMetrics(ctx, host, dir); err != nil {
			return err
		}
	}
	return nil
}
