// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

func listing(alerts ...alert) []notify.Listed {
	var out []notify.Listed
	for _, a := range alerts {
		out = append(out, notify.Listed{Fingerprint: webhook.Fingerprint(a.labels), Labels: a.labels, StartsAt: a.start})
	}
	return out
}

// A storm: hundreds of alerts of one incident reach two analyzers by way of two Alertmanagers, in different order, several
// times, some of their ends before their beginnings' repetitions. The person on call sees one page, and it ends.
func TestStorm(t *testing.T) {
	c, am := newCluster(t, 4), newAlertmanager(t)
	c.hang(5, nodeapi.ProcessStopped)
	var storm []alert
	for i := range 400 {
		storm = append(storm, trouble("NCCLStall", "rank", fmt.Sprint(i)))
	}
	cfg := quick(c, am)
	cfg.Alertmanager.PollInterval = model.Duration(time.Hour) // What is said must do.
	one, two := start(t, cfg, ""), start(t, cfg, "")
	rnd := rand.New(rand.NewPCG(1, 2))
	shuffled := func() []alert {
		out := slices.Clone(storm)
		rnd.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
	first := shuffled()
	for _, a := range []*analyzer{one, two} {
		a.push(0, storm[0], first[0]) // The earliest is among the first.
		for part := range slices.Chunk(shuffled(), 50) {
			a.push(0, part...)
		}
		a.push(0, shuffled()...)
	}
	eventually(t, "the pages of both", func() bool {
		am.mu.Lock()
		defer am.mu.Unlock()
		return am.posts >= 2 && len(am.alerts) > 0
	})
	for _, a := range []*analyzer{one, two} {
		eventually(t, "all triggers", func() bool { list := a.incidents(); return len(list) == 1 && len(list[0].Triggers) == len(storm) })
	}
	x, y := one.incidents()[0], two.incidents()[0]
	if x.ID != y.ID {
		t.Errorf("the analyzers speak of %s and %s", x.ID, y.ID)
	}
	if pages := am.verdicts(); len(pages) != 1 || pages[0].Labels["rank"] != "5" {
		t.Errorf("%d pages: %+v", len(pages), pages)
	}

	// The ends, out of order, with late repetitions of alerts that fire still; then those again, all at once.
	for _, a := range []*analyzer{one, two} {
		order := shuffled()
		for i, al := range order {
			if i%4 == 0 && i+1 < len(order) {
				a.push(0, al.resolved(), order[i+1])
			} else {
				a.push(0, al.resolved())
			}
		}
		var all []alert
		for _, al := range shuffled() {
			all = append(all, al.resolved())
		}
		a.push(0, all...)
	}
	for _, a := range []*analyzer{one, two} {
		eventually(t, "the end", func() bool { return a.incidents()[0].State == incident.Resolved })
	}
	eventually(t, "the end of the page", func() bool { return len(am.verdicts()) == 0 })
	am.mu.Lock()
	defer am.mu.Unlock()
	if len(am.alerts) != 1 {
		t.Errorf("%d different pages were sent", len(am.alerts))
	}
}

// An analyzer that comes up while a job hangs, without what it knew, learns of it from Alertmanager and goes on with the same
// page: no notification needs to come again.
func TestCatchesUp(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessStopped)
	tr, other := trouble("NCCLStall"), trouble("NCCLOld")
	am.firing = listing(other, tr)
	a := start(t, quick(c, am), "")
	a.push(0, tr, other)
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	page := am.verdicts()[0]
	a.stop()

	am.mu.Lock()
	am.down = true // Up a little later than the analyzer.
	posts := am.posts
	am.mu.Unlock()
	cfg := quick(c, am)
	cfg.Alertmanager.PollInterval = model.Duration(5 * time.Millisecond)
	b := start(t, cfg, "")
	failed := b.app.source.WithLabelValues("alertmanager", "error")
	eventually(t, "a failure", func() bool { return testutil.ToFloat64(failed) > 0 })
	am.mu.Lock()
	am.down = false
	am.mu.Unlock()
	eventually(t, "the page to be said again", func() bool { am.mu.Lock(); defer am.mu.Unlock(); return am.posts > posts })
	if pages := am.verdicts(); len(pages) != 1 || pages[0].Labels["incident"] != page.Labels["incident"] {
		t.Errorf("pages %+v, want one of incident %s", pages, page.Labels["incident"])
	}
	if list := b.incidents(); len(list) != 1 || len(list[0].Triggers) != 2 {
		t.Errorf("incidents: %+v", list)
	}
}
