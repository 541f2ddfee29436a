// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/jobs"
	"github.com/culprit-project/culprit/analyzer/layout"
	"github.com/culprit-project/culprit/analyzer/rca"
)

func TestHeadline(t *testing.T) {
	gpu := func(rank int, host, gpu string) rca.Culprit {
		return rca.Culprit{Rank: rank, Host: host, GPU: gpu, NIC: "mlx5_0"}
	}
	for name, c := range map[string]struct {
		v    rca.Verdict
		want string
	}{
		"a NIC":             {rca.Verdict{Cause: rca.CauseNetworkSend, Culprits: []rca.Culprit{gpu(5, "node2", "1")}}, "node2 · GPU 1 · NIC mlx5_0"},
		"a GPU":             {rca.Verdict{Cause: rca.CauseGPU, Culprits: []rca.Culprit{gpu(5, "node2", "1")}}, "node2 · GPU 1"},
		"two GPUs":          {rca.Verdict{Culprits: []rca.Culprit{gpu(5, "node2", "1"), gpu(6, "node2", "2")}}, "node2 · GPUs 1, 2"},
		"two hosts":         {rca.Verdict{Culprits: []rca.Culprit{gpu(5, "node2", "1"), gpu(9, "node3", "1")}}, "node2, node3 · ranks 5, 9"},
		"no host":           {rca.Verdict{Culprits: []rca.Culprit{{Rank: 5}}}, "rank 5"},
		"a link":            {rca.Verdict{Culprits: []rca.Culprit{{Rank: -1, Group: "link 4->5", Host: "node2"}}}, "node2 · link 4->5"},
		"nobody":            {rca.Verdict{Class: rca.Unknown}, "No culprit is known"},
		"a checkpoint":      {rca.Verdict{Class: rca.Benign, Culprits: []rca.Culprit{gpu(0, "node2", "1")}}, "Nothing is broken"},
		"a fault of nobody": {rca.Verdict{Class: rca.Fault}, "No rank is named"},
	} {
		if got := headline(&c.v); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The card has what a person needs who was woken, and the sentence of the verdict stands once on the page.
func TestCard(t *testing.T) {
	inc := hung(8, 5, func(int) string { return "stuck" })
	since := opened.Add(-4 * time.Second)
	inc.Since, inc.Labels, inc.Workload = &since, map[string]string{"team": "research"}, &incident.Workload{Scheduler: incident.Slurm, SlurmJob: "48213", User: "1003"}
	inc.Verdict.Summary = "Rank 5 (node-0, GPU 1) does not send. 7 ranks have been waiting for it for 2.5 s."
	before := inc
	before.ID, before.OpenedAt = "before", opened.Add(-50*time.Hour)
	html := render(t, &inc, Options{Similar: []incident.Incident{before}, Silence: "https://alerts.example.org/#/silences/new", Notified: &Notified{Receivers: []string{"pager"}}})
	for _, want := range []string{
		"Critical: on-call was paged", "node-0 · GPU 1", "The local NIC or link does not deliver", "Waiting since", "2026-11-21 02:29:56 UTC", ">3 min ago<",
		"scontrol update NodeName=node-0", "team research, user 1003", "train-7, Slurm job 48213", ">pager<", "About 25 GPU-minutes: 8 GPUs stood still for 3 min.",
		"It was to blame in 1 other incident, the last 2 days ago.", `href="../?host=node-0"`, `href="https://alerts.example.org/#/silences/new"`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	_, main, _ := strings.Cut(html, "<main")
	this, _, _ := strings.Cut(main, "Other incidents")
	if n := strings.Count(this, "does not send"); n != 1 {
		t.Errorf("the sentence stands %d times", n)
	}
	if strings.Contains(main, "waiting for it for") || strings.Contains(main, "kubectl") {
		t.Error("a past duration stands in the present, or the command is one of another scheduler")
	}
	inc.Verdict.Page, inc.Verdict.PageIn = false, 20
	if html := render(t, &inc, Options{Notified: &Notified{Silenced: true}}); !strings.Contains(html, "Suspected: it pages after another 20 s without progress") || !strings.Contains(html, "Nobody: the alert is silenced.") || strings.Contains(html, "GPU-minutes") {
		t.Error("a suspicion reads like a page")
	}
}

// The graph marks the beginning, breaks where there are no samples, and has nothing to show of a job without any.
func TestChart(t *testing.T) {
	inc := hung(8, 5, func(int) string { return "stuck" })
	at := opened.Add(3 * time.Second)
	inc.VerdictAt = &at
	trend := &jobs.Trend{Unit: jobs.PerSecond}
	for s := -300; s < 300; s++ {
		if s > -200 && s < -100 {
			continue
		}
		v := 100.0
		if s >= 0 {
			v = 0
		}
		trend.Points = append(trend.Points, jobs.Point{At: opened.Add(time.Duration(s) * time.Second), Value: v})
	}
	c := newChart(trend, &inc)
	if len(c.Lines) != 2 || c.Most != "100" || len(c.Marks) != 2 || !c.Marks[0].Fault || c.Marks[0].X >= c.Marks[1].X {
		t.Fatalf("%+v", c)
	}
	if want := "Operations a second of a rank from 02:25:00 to 02:34:59 UTC: 100 before, 0 at the end, at most 100"; c.Text != want {
		t.Errorf("%q, want %q", c.Text, want)
	}
	for name, points := range map[string][]jobs.Point{"none": nil, "one": trend.Points[:1], "zeros": {{At: opened}, {At: opened.Add(time.Second)}}} {
		if newChart(&jobs.Trend{Points: points}, &inc) != nil {
			t.Errorf("%s: there is a graph", name)
		}
	}
	if unit, from, to := Around(&inc, opened.Add(time.Hour)); unit != jobs.PerSecond || from != opened.Add(-trendBefore) || to != opened.Add(trendAfter) {
		t.Errorf("%s from %s to %s", unit, from, to)
	}
	inc.Verdict.Class = rca.SlowCompute
	if unit, _, to := Around(&inc, opened.Add(time.Minute)); unit != jobs.Iteration || to != opened.Add(time.Minute) {
		t.Errorf("%s to %s", unit, to)
	}
}

// The plan has a square for each rank, within its edges, and one column for neighbours that look alike.
func TestPlan(t *testing.T) {
	axes := func(data, stages int) *layout.Layout {
		return &layout.Layout{World: 4 * data * stages, Axes: []layout.Axis{{Kind: layout.Tensor, Size: 4, Stride: 1}, {Kind: layout.Data, Size: data, Stride: 4}, {Kind: layout.Pipeline, Size: stages, Stride: 4 * data}}}
	}
	for name, c := range map[string]struct {
		l               *layout.Layout
		world           int
		squares, folded int
	}{
		"small":          {axes(2, 2), 16, 16, 0},
		"large":          {axes(1280, 2), 10240, 3 * 8, 1279},
		"without layout": {nil, 16, 16, 0},
	} {
		inc := hung(c.world, 5, func(int) string { return "stuck" })
		p := newPlan(c.l, inc.Ranks)
		if p == nil || len(p.Squares) != c.squares && name != "large" {
			t.Fatalf("%s: %+v", name, p)
		}
		if (p.Folded != "") != (c.folded > 0) || len(p.Squares) > c.squares {
			t.Errorf("%s: %q, %d squares", name, p.Folded, len(p.Squares))
		}
		culprits := 0
		for _, s := range p.Squares {
			if s.X+s.Size > p.Width || s.Y+s.Size > p.Height {
				t.Errorf("%s: a square is outside: %+v", name, s)
			}
			if s.State == "culprit" {
				culprits++
			}
		}
		if culprits != 1 {
			t.Errorf("%s: %d culprits", name, culprits)
		}
	}
	if newPlan(nil, nil) != nil {
		t.Error("a plan of nobody")
	}
}
