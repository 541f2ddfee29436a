// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/lab/nccl/draw"
	"github.com/culprit-project/culprit/sim/stack"
)

func TestFate(t *testing.T) {
	good := page(nil)
	innocent := page(func(s *Said) { s.Ranks = []int{1} })
	cause := page(func(s *Said) { s.Cause = rca.CauseGPU })
	nobody := page(func(s *Said) { s.Ranks, s.Host = nil, ""; s.Class, s.Cause = rca.Unknown, rca.CauseUnknown })
	host := page(func(s *Said) { s.Ranks, s.GPU = nil, "" })
	elsewhere := page(func(s *Said) { s.Ranks, s.GPU, s.Host = nil, "", "node0" })
	group := func(names ...string) []Said {
		return []Said{page(func(s *Said) { s.Ranks, s.Host, s.GPU, s.Groups = nil, "", "", names })}
	}
	paged := page(func(s *Said) { s.Ranks, s.Host, s.GPU = nil, "", "" })
	for name, x := range map[string]struct {
		duty     Duty
		still    bool // No fault had an effect.
		triggers []string
		pages    []Said
		verdicts []Said
		want     Fate
		why      string
	}{
		"named":                        {MustName, false, nil, []Said{good}, []Said{good}, FateRight, ""},
		"named without effect":         {MustName, true, nil, []Said{good}, []Said{good}, FateRight, ""},
		"wrong cause":                  {MustName, false, nil, []Said{cause}, []Said{cause}, FateWrong, "cause gpu"},
		"wrong cause, then":            {MustName, false, nil, []Said{good}, []Said{cause}, FateWrong, "verdict behind it"},
		"innocent":                     {MustName, false, nil, []Said{innocent}, nil, FateInnocent, "rank [1]"},
		"innocent where it cannot":     {MayBeSilent, false, nil, []Said{innocent}, nil, FateInnocent, "rank [1]"},
		"innocent beside":              {MustName, false, nil, []Said{good, innocent}, nil, FateInnocent, "rank [1]"},
		"innocent without effect":      {MustName, true, nil, []Said{innocent}, nil, FateInnocent, "rank [1]"},
		"its host":                     {MustName, false, nil, []Said{host}, nil, FateWider, ""},
		"another host":                 {MustName, false, nil, []Said{elsewhere}, nil, FateInnocent, "host node0"},
		"a group with it":              {MustName, false, nil, []Said{paged}, group("ranks 2, 3"), FateWider, ""},
		"a link with it":               {MustName, false, nil, []Said{paged}, group("link 3->7"), FateWider, ""},
		"its stage":                    {MustName, false, nil, []Said{paged}, group("stage 1"), FateWider, ""},
		"its host, as a group":         {MustName, false, nil, []Said{paged}, group("node1"), FateWider, ""},
		"a link without it":            {MustName, false, nil, []Said{paged}, group("link 4->5"), FateInnocent, "link 4->5"},
		"a group without it":           {MustName, false, nil, []Said{paged}, group("ranks 2, 3", "ranks 13, 30"), FateInnocent, "ranks 13, 30"},
		"another stage":                {MustName, false, nil, []Said{paged}, group("stage 3"), FateInnocent, "stage 3"},
		"nobody named":                 {MustName, false, nil, []Said{nobody}, []Said{nobody}, FateUnknown, "names nobody"},
		"nobody paged":                 {MustName, false, []string{"x"}, nil, []Said{}, FateMissed, "triggers: [x]"},
		"no effect":                    {MustName, true, nil, nil, nil, FateNone, ""},
		"nobody named where it may be": {MayBeUnknown, false, []string{"x"}, []Said{nobody}, nil, FateUnnamed, ""},
		"no trigger where one is due":  {MayBeUnknown, false, nil, nil, nil, FateMissed, ""},
		"silence where it may be":      {MayBeSilent, false, nil, nil, nil, FateUnnamed, ""},
		"healthy":                      {Nobody, false, nil, nil, nil, FateRight, ""},
		"healthy, paged":               {Nobody, false, nil, []Said{good}, nil, FateInnocent, "for nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := stack.FindFault("link-stall")
			s := &Seen{Fault: f, Duty: x.duty, Rank: 3, Host: "node1", GPU: "1", Stage: 1, Triggers: x.triggers, Pages: x.pages, Verdicts: x.verdicts}
			if got, _, why := s.fate(!x.still); got != x.want || !strings.Contains(why, x.why) {
				t.Errorf("%s: %s; want %s: %s", got, why, x.want, x.why)
			}
		})
	}
}

// TestPace: whether a fault had an effect is seen by the steps around it.
func TestPace(t *testing.T) {
	zero := time.Unix(1000, 0)
	hang, slow, short := draw.Job{Group: draw.Hang, When: draw.Middle}, draw.Job{Group: draw.Slow, When: draw.Middle}, draw.Job{Group: draw.Hang, When: draw.Middle, For: 2}
	for name, x := range map[string]struct {
		job   draw.Job
		ends  []float64 // Of steps, in seconds from the fault.
		until float64
		want  bool
	}{
		"stands still":        {hang, []float64{-2, -1, 0.5}, 30, true},
		"goes on":             {hang, []float64{-2, -1, 0.5, 2, 3, 4, 5}, 6, false},
		"short, seen":         {short, []float64{-2, -1.5, -1, 2, 2.5, 3}, 3.5, true},
		"short, without":      {short, []float64{-2, -1.5, -1, -0.5, 0, 0.5, 1}, 1.5, false},
		"slow":                {slow, []float64{-3, -2, -1, 1, 3, 5, 7}, 8, true},
		"as fast as before":   {slow, []float64{-3, -2, -1, 0.1, 1.1, 2.1, 3.1}, 3.5, false},
		"no step ends any":    {slow, []float64{-3, -2, -1}, 30, true},
		"slow steps are long": {hang, []float64{-20, -10, -1, 9}, 19, false},
	} {
		var ends []time.Time
		for _, s := range x.ends {
			ends = append(ends, zero.Add(time.Duration(s*float64(time.Second))))
		}
		p := paceOf(ends, zero, zero.Add(time.Duration(x.until*float64(time.Second))))
		if got := p.hasEffect(&x.job); got != x.want {
			t.Errorf("%s: %v (%+v)", name, got, p)
		}
	}
}

// TestDrawnDuties: what a drawn job's source must name; each exception is meant.
func TestDrawnDuties(t *testing.T) {
	base := draw.Job{Release: "2.28.9", Ranks: 8, Hosts: 4, Inside: "net", Watch: draw.Plugin, When: draw.Middle, Fault: "gpu-freeze"}
	for name, x := range map[string]struct {
		change func(*draw.Job)
		level  Level
		duty   Duty
	}{
		"kernels":                     {func(*draw.Job) {}, Kernels, MustName},
		"none in 2.31":                {func(j *draw.Job) { j.Release = "2.31.2" }, Steps, MustName},
		"none in 2.27":                {func(j *draw.Job) { j.Release = "2.27.7" }, Steps, MustName},
		"hooks":                       {func(j *draw.Job) { j.Watch = draw.Hooks }, Calls, MayBeUnknown},
		"inside a host":               {func(j *draw.Job) { j.Inside = "shm" }, Kernels, MayBeUnknown},
		"nobody inside":               {func(j *draw.Job) { j.Inside, j.Hosts = "shm", 8 }, Kernels, MustName},
		"no kernel after a Broadcast": {func(j *draw.Job) { j.Inside, j.Release, j.Broadcast, j.Fault = "shm", "2.30.7", 1, "kernel-stall" }, Steps, MayBeUnknown},
		"no Broadcast":                {func(j *draw.Job) { j.Inside, j.Release, j.Fault = "shm", "2.30.7", "kernel-stall" }, Kernels, MustName},
		"first, plugin":               {func(j *draw.Job) { j.When = draw.First }, Kernels, MayBeSilent},
		"first, both":                 {func(j *draw.Job) { j.When, j.Watch = draw.First, draw.Both }, Kernels, MayBeUnknown},
		"last":                        {func(j *draw.Job) { j.When = draw.Last }, Kernels, MustName},
		"ends by itself":              {func(j *draw.Job) { j.For = 2 }, Kernels, MayBeSilent},
		"graphs":                      {func(j *draw.Job) { j.Graphs = true }, Kernels, MustName},
		"graphs by calls":             {func(j *draw.Job) { j.Graphs, j.Watch = true, draw.Hooks }, Calls, MayBeSilent},
		"healthy":                     {func(j *draw.Job) { j.Fault = "none" }, Kernels, Nobody},
		"an evaluation":               {func(j *draw.Job) { j.Fault = "eval=5" }, Kernels, Nobody},
		"a pause, graphs":             {func(j *draw.Job) { j.Fault, j.Graphs, j.Watch = "checkpoint=5", true, draw.Hooks }, Calls, Nobody},
		"slow, calls":                 {func(j *draw.Job) { j.Fault, j.Watch = "gpu-slow=3", draw.Hooks }, Calls, MayBeSilent},
		"slow, one, chain":            {func(j *draw.Job) { j.Fault, j.Watch = "gpu-slow=3", draw.Chain }, Kernels, MustName},
	} {
		j := base
		x.change(&j)
		f, ok := faultOfDrawn(&j)
		if !ok {
			t.Fatalf("%s: no fault %s", name, j.Fault)
		}
		if got := dutyOfDrawn(&j, f); got != x.duty || LevelOf(&j) != x.level {
			t.Errorf("%s: duty %d at %s, want %d at %s", name, got, LevelOf(&j), x.duty, x.level)
		}
	}
}

// TestEveryDrawnFaultIsKnown: there is an answer that is right for whatever is drawn.
func TestEveryDrawnFaultIsKnown(t *testing.T) {
	for _, j := range draw.Jobs(11, 500, []string{"2.30.7", "2.32.3"}) {
		f, ok := faultOfDrawn(&j)
		if !ok {
			t.Fatalf("nobody knows what is right for %s", j.Fault)
		}
		if f.Pages() != (j.Group == draw.Hang || j.Group == draw.Slow) || f.Slow != (j.Group == draw.Slow) {
			t.Errorf("%s is drawn as %s", j.Fault, j.Group)
		}
	}
}

func TestReportDrawn(t *testing.T) {
	job := func(n int, release string, watch draw.Watch, fault string) draw.Job {
		group := draw.Hang
		if fault == "none" {
			group = draw.Healthy
		}
		return draw.Job{Seed: 7, Number: n, Release: release, Ranks: 8, Hosts: 4, DP: 8, TP: 1, PP: 1, Watch: watch, When: draw.Middle, Fault: fault, Rank: 2, Group: group}
	}
	results := []Drawn{
		{Job: job(2, "2.32.3", draw.Hooks, "none"), Fate: FateRight},
		{Job: job(0, "2.30.7", draw.Plugin, "link-stall"), Fate: FateRight, PageSeconds: 4.5},
		{Job: job(1, "2.30.7", draw.Both, "gpu-freeze"), Fate: FateRight},
		{Job: job(1, "2.30.7", draw.Both, "gpu-freeze"), Fate: FateInnocent, Why: "paged for rank [4]", Evidence: "/e"},
	}
	var text strings.Builder
	if !ReportDrawn(&text, LatestDrawn(results, "")) {
		t.Error("nothing is wrong")
	}
	for _, want := range []string{
		"| 2.32.3 | 1    | 1     |", "| 2.30.7 | 2    | 1     |       |         |        |         |       | 1        |           |        | 4.5               | 4.5     |",
		"| kernels  | 2 ", "| calls    | 1 ", "| hang: gpu-freeze | 1 ", "| healthy          | 1 ", "| all              | 3 ",
		"innocent 7-1/2.30.7/kernels/gpu-freeze (dp8, 8 ranks on 4 hosts, fault at rank 2): paged for rank [4]\n  evidence: /e\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
	if ReportDrawn(&text, results[:2]) {
		t.Error("something is wrong")
	}
}
