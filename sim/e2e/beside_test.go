// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/stack"
)

// TestTwoFaults: two ranks that have nothing to do with each other fail at once. Each is paged for, with its own class and cause, and
// nobody else.
func TestTwoFaults(t *testing.T) {
	t.Parallel()
	const stalled, away = 1, 4 // In two data-parallel groups.
	j := startJob(t, stack.JobConfig{
		ID: "two-faults", Rank: -1, FaultAtStep: -1,
		Args: []string{
			fmt.Sprintf("--fault=link-stall:rank=%d:step=%d", stalled, healthySteps), fmt.Sprintf("--fault=op-not-entered:rank=%d:step=%d", away, healthySteps),
		},
	})
	if _, err := j.WaitFault(waiting(t)); err != nil {
		t.Fatal(err)
	}
	j.rest()
	ctx := waiting(t)
	for want := (map[string]string{fmt.Sprint(stalled): "link-stall", fmt.Sprint(away): "op-not-entered"}); len(want) > 0; {
		for _, page := range cluster.Pages(j.Config.ID) {
			rank := page.Labels["rank"]
			if name, due := want[rank]; due {
				t.Logf("rank %s is paged for: %s", rank, page.Annotations["summary"])
				fault, _ := stack.FindFault(name)
				var r int
				_, _ = fmt.Sscan(rank, &r)
				checkPage(t, page, fault, j, r)
				delete(want, rank)
			} else if rank != "" && rank != fmt.Sprint(stalled) && rank != fmt.Sprint(away) {
				t.Fatalf("paged for an innocent, %v: %s", page.Labels, page.Annotations["summary"])
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not paged for: %v\n%s", want, j.describe(t))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// TestHangBehindTrouble: a job that was stopped for a moment, or has become slow, comes to stand still. The trigger and the verdict of
// the earlier trouble hide neither the hang nor its rank.
func TestHangBehindTrouble(t *testing.T) {
	t.Parallel()
	const (
		other, rank = 2, 5
		hangs       = healthySteps + 20 // A slow iteration takes up to a second, on a machine that others use as well.
	)
	for name, before := range map[string]string{
		"blip": "stop:for=4",
		"slow": "proxy-delay=20",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault, _ := stack.FindFault("link-stall")
			j := startJob(t, stack.JobConfig{
				ID: "behind-" + name, Fault: fault.Name, Rank: rank, FaultAtStep: hangs,
				Args: []string{fmt.Sprintf("--fault=%s:rank=%d:step=%d", before, other, healthySteps)},
			})
			j.train(t, hangs-1)
			for ctx := waiting(t); ; {
				pages := cluster.Pages(j.Config.ID)
				if i := slices.IndexFunc(pages, func(p stack.Page) bool { return p.Labels["rank"] == fmt.Sprint(rank) }); i >= 0 {
					t.Logf("paged: %s", pages[i].Annotations["summary"])
					checkPage(t, pages[i], fault, j, rank)
					return
				}
				// A rank that was stopped may have been paged for while it was.
				if i := slices.IndexFunc(pages, func(p stack.Page) bool { return p.Labels["rank"] != "" && p.Labels["rank"] != fmt.Sprint(other) }); i >= 0 {
					t.Fatalf("paged for an innocent, %v: %s", pages[i].Labels, pages[i].Annotations["summary"])
				}
				select {
				case <-ctx.Done():
					t.Fatalf("not paged for\n%s", j.describe(t))
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
}
