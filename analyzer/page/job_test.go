// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/jobs"
	"github.com/culprit-project/culprit/analyzer/layout"
	"github.com/culprit-project/culprit/analyzer/rca"
)

func running(world int) *jobs.Job {
	j := &jobs.Job{
		ID: identity.Job{ID: "train"}, At: opened, WorldSize: world, Hosts: world / 8, Iteration: 1.8, Before: 1.5, MicroBatches: 8,
		Comms:     []jobs.Comm{{Name: "dp", Size: world / 8, Nodes: world / 8, Number: 8}, {Name: "tp", Size: 8, Nodes: 1, Number: world / 8}},
		Functions: []jobs.Function{{Name: "AllReduce", Ops: 4.2, Bytes: 42e6, Seconds: 0.25, Bandwidth: 2e9, Bus: 3.9e9}, {Name: "Send", Ops: 16}},
		Parallel:  []jobs.Parallel{{Kind: layout.Data, Names: []string{"dp", "fsdp"}, Mean: 0.45, Least: 0.25}, {Kind: layout.Tensor, Names: []string{"tp"}, Mean: 0.09, Least: 0.0005}, {Names: []string{""}, Mean: 0.018}},
		Others:    0.036,
		Late:      []jobs.Share{{Rank: 9, Host: "node-1", Inside: 0.1, Median: 0.4}, {Rank: 3, Inside: 0.4, Median: 0.4001}},
		Layout:    &layout.Layout{World: world, Axes: []layout.Axis{{Kind: layout.Tensor, Size: 8, Stride: 1, Named: true}, {Kind: layout.Data, Size: world / 8, Stride: 8, Named: true}}},
	}
	for r := range world {
		j.Ranks = append(j.Ranks, incident.RankView{Rank: r, Host: fmt.Sprintf("node-%d", r/8), GPU: fmt.Sprint(r % 8), State: "moving"})
	}
	return j
}

func TestJob(t *testing.T) {
	j := running(10240)
	j.Claimed = []int{0, 7}
	j.Ranks[3].State, j.Missing = "gone", []string{"asking prometheus: connection refused"}
	inc := hung(8, 5, func(int) string { return "stuck" })
	inc.JobID = "train"
	past := inc
	past.State, past.ID = incident.Resolved, "pastpastpast"
	other := inc
	other.JobID, other.ID = "tune", "otherotherot"
	var b strings.Builder
	if err := WriteJob(&b, j, []incident.Incident{other, inc, past}, Options{Links: []Link{{"Job in Grafana", "https://grafana.example.org"}}}); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	for _, want := range []string{
		"10,240 of 10,240 ranks watched, on 1,280 hosts. 1 rank exited without orderly shutdown.", "1.8 s, 20% longer than while it was healthy in the last hour (1.5 s)",
		"data parallel 1280 × tensor parallel 8", "at most 8 an iteration", "connection refused", "rank 9 on node-1", "540 ms an iteration", "2.0 GB/s", "3.9 GB/s", "several sizes of communicators",
		"one node each", "claim 2 ranks of this job, such as rank 0. Two jobs probably have one id", "450 ms an iteration, 250 ms on the rank that waits least", "dp, fsdp", ">25%<", ">5%<", "500 µs", "no name", "36.0 ms", `href="incidents/abcdefghijkl"`, `href="incidents/pastpastpast"`, "Job in Grafana", `data-poll="15"`, "1,279 hosts: node-1,", "replica 0",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if strings.Contains(html, "otherotherot") {
		t.Error("another job's incident is on the page")
	}
	if n := compressed(t, html); n > 60_000 {
		t.Errorf("%d bytes compressed", n)
	}
}

// A job of which little is known says so.
func TestJobWithoutMuch(t *testing.T) {
	var b strings.Builder
	if err := WriteJob(&b, &jobs.Job{ID: identity.Job{ID: "train"}, At: opened, Ranks: []incident.RankView{{State: "unseen"}}, Hosts: 1}, nil, Options{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "one id") {
		t.Error("two jobs are told of where there is one")
	}
	if strings.Contains(b.String(), "arallel") {
		t.Error("parallelism of which nothing is known")
	}
	for _, want := range []string{"1 of 1 rank watched, on 1 host. 1 rank not recorded now.", "no iteration was found", "the communicators do not show"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

// The page of a job tells nothing of the past as if it were so now, and explains what seems to contradict its incident.
func TestJobAndItsIncident(t *testing.T) {
	show := func(change func(*jobs.Job, *incident.Incident)) string {
		j, inc := running(8), hung(8, 5, func(int) string { return "stuck" })
		inc.JobID = "train"
		change(j, &inc)
		var b strings.Builder
		if err := WriteJob(&b, j, []incident.Incident{inc}, Options{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		change    func(*jobs.Job, *incident.Incident)
		want, not string
	}{
		"all stand still": {func(j *jobs.Job, _ *incident.Incident) {
			for i := range j.Ranks {
				j.Ranks[i].State = "stuck"
			}
		}, "None ends now. The last took 1.8 s.", "rank 9 on node-1"},
		"it recovered from slowness": {func(j *jobs.Job, inc *incident.Incident) {
			inc.Verdict.Class, j.Iteration = rca.SlowCompute, 1.41
		}, "1.4 s, no longer slower than while it was healthy", "shorter"},
		"nobody was paged":      {func(_ *jobs.Job, inc *incident.Incident) { inc.Verdict.Page = false }, ">paged nobody<", "tag pages"},
		"nobody is late":        {func(j *jobs.Job, _ *incident.Incident) { j.Late = nil }, "No rank is late by more than 1 ms.", "Not recorded."},
		"lateness is not known": {func(j *jobs.Job, _ *incident.Incident) { j.Late, j.Functions = nil, nil }, "Not recorded.", "No rank is late"},
	} {
		if html := show(c.change); !strings.Contains(html, c.want) || strings.Contains(html, c.not) {
			t.Errorf("%s: the page lacks %q or has %q", name, c.want, c.not)
		}
	}
}

func TestJobs(t *testing.T) {
	inc := hung(8, 5, func(int) string { return "stuck" })
	inc.JobID = "b/&c"
	var b strings.Builder
	if err := WriteJobs(&b, []jobs.Listed{{ID: identity.Job{ID: "a"}, Ranks: 8}, {ID: identity.Job{ID: "b/&c"}, Ranks: 10240}, {ID: identity.Job{ID: "other"}}}, []incident.Incident{inc}, "", "", Options{}); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	if first, second := strings.Index(html, `href="job?id=b%2F%26c"`), strings.Index(html, `href="job?id=a"`); first < 0 || second < first || !strings.Contains(html, "3 of 3 running jobs") {
		t.Errorf("%s", html)
	}
	b.Reset()
	if err := WriteJobs(&b, []jobs.Listed{{ID: identity.Job{ID: "a"}}}, nil, "zzz", "", Options{}); err != nil || !strings.Contains(b.String(), "No running job matches.") {
		t.Errorf("%v, %s", err, b.String())
	}
}
