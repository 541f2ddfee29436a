// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// levels of evidence, and what makes a job's sources tell no more.
var levels = []struct {
	level  rca.Level
	abi    int    // Of the profiler interface.
	events string // For the shim.
}{
	{rca.LevelKernels, 6, "all"},
	{rca.LevelSteps, 7, "default"},
	{rca.LevelLaunches, 4, "default"},
	{rca.LevelCalls, 6, "coll,p2p,groupapi,collapi,p2papi"},
}

// everyLevel are the levels at which calls and processes are seen: all.
var everyLevel = []rca.Level{rca.LevelKernels, rca.LevelSteps, rca.LevelLaunches, rca.LevelCalls}

// levelFaults are faults at which a job stands still, and the levels that must name the rank. Elsewhere nobody may be named: all ranks
// have called alike, and where the data stands is not seen.
var levelFaults = []struct {
	fault string
	names []rca.Level
	short []rca.Level // The levels at which it is run without -e2e.long.
}{
	{"op-not-entered:comm=dp", everyLevel, []rca.Level{rca.LevelCalls}},
	// The rank sits in front of a transfer of its pipeline. The program enqueues whole steps, so others have called later operations of
	// other communicators by then.
	{"op-not-entered:comm=pp", everyLevel, []rca.Level{rca.LevelLaunches}},
	// An AllReduce of one element over all ranks, as loops call it once in a while.
	{"op-not-entered:comm=world", everyLevel, []rca.Level{rca.LevelKernels}},
	{"stop", everyLevel, []rca.Level{rca.LevelCalls}},
	{"kill", everyLevel, []rca.Level{rca.LevelLaunches}},
	{"link-stall", everyLevel[:3], nil},
	{"gpu-freeze", everyLevel[:3], []rca.Level{rca.LevelSteps}},
}

// TestLevelsOfEvidence: whatever little a job's sources tell, the page names the faulty rank or nobody, and so does every verdict.
func TestLevelsOfEvidence(t *testing.T) {
	t.Parallel()
	for i, l := range levels {
		for j, f := range levelFaults {
			if !*long && !slices.Contains(f.short, l.level) {
				continue
			}
			name := fmt.Sprintf("%s-%s", l.level, strings.NewReplacer(":", "-", "=", "-").Replace(f.fault))
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rank := (1 + 3*i + 2*j) % ranks
				fault, ok := stack.FindFault(strings.SplitN(f.fault, ":", 2)[0])
				if !ok {
					t.Fatalf("no fault %s", f.fault)
				}
				j := startJob(t, stack.JobConfig{
					ID: "level-" + name, Fault: f.fault, Rank: rank, FaultAtStep: -1, ABI: l.abi,
					Env: append(cluster.PluginEnv(), "CULPRIT_EVENTS="+l.events),
				})
				j.train(t, healthySteps)
				j.inject(t)
				if slices.Contains(f.names, l.level) {
					// On a machine without a free processor the first page may say that exporters have not answered.
					j.page(t)
					j.incident(t, func(v *rca.Verdict) bool { return v.Page && fault.Named(v, rank) })
				} else if _, err := cluster.WaitPage(waiting(t), j.Config.ID); err != nil {
					t.Fatalf("%v\n%s", err, j.describe(t))
				}
				accusesNobodyElse(t, j.Config.ID, rank, l.level)
			})
		}
	}
}

// accusesNobodyElse: of all pages and verdicts about a job none names another rank. One of class unknown may tell what it has seen of
// others.
func accusesNobodyElse(t *testing.T, jobID string, rank int, level rca.Level) {
	t.Helper()
	for _, p := range cluster.Pages(jobID) {
		if r := p.Labels["rank"]; r != "" && r != fmt.Sprint(rank) {
			t.Errorf("paged for an innocent, %v: %s", p.Labels, p.Annotations["summary"])
		}
	}
	incidents, err := cluster.Incidents(t.Context(), jobID)
	if err != nil || len(incidents) == 0 {
		t.Fatalf("%d incidents, %v", len(incidents), err)
	}
	for _, incident := range incidents {
		v := incident.Verdict
		if v == nil {
			continue
		}
		if v.Level != level {
			t.Errorf("evidence of level %q, want %q", v.Level, level)
		}
		if v.Class != rca.Unknown && slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool { return c.Rank != rank }) {
			t.Errorf("a verdict names an innocent: %s", v.Summary)
		}
	}
}
