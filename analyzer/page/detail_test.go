// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/layout"
)

// The last stage that is behind the one before it says where a transfer stands: it holds up those before it.
func TestFlow(t *testing.T) {
	unknown := [4]int64{-1, -1, -1, -1}
	for name, c := range map[string]struct {
		from, to [4]int64
		stage    string
	}{
		"the GPU gives nothing":  {[4]int64{12, 8, 8, 8}, [4]int64{12, 8, 8, 8}, "GPU ready"},
		"no buffer":              {[4]int64{64, 64, 8, 8}, [4]int64{8, 8, 8, 8}, "Transmitted"},
		"the network":            {[4]int64{64, 64, 64, 8}, [4]int64{64, 8, 8, 8}, "Done"},
		"not seen":               {[4]int64{64, 64, 64, 64}, [4]int64{64, 8, 8, 8}, "Received"},
		"not taken":              {[4]int64{64, 64, 64, 64}, [4]int64{64, 64, 64, 8}, "Consumed"},
		"few buffers":            {[4]int64{24, 24, 24, 16}, [4]int64{24, 16, 16, 16}, "Done"},
		"held up from behind":    {[4]int64{16, 16, 8, 8}, [4]int64{8, 8, 8, 0}, "Consumed"},
		"half of it is not seen": {unknown, [4]int64{12, 8, 8, 8}, ""},
		"the sender is not seen": {unknown, [4]int64{64, 64, 64, 8}, "Consumed"},
		"all is done":            {[4]int64{64, 64, 64, 64}, [4]int64{64, 64, 64, 64}, ""},
	} {
		f := newFlow(&incident.FlowView{Comm: "dp", Op: "AllReduce #1", Total: 64, Stuck: 5, From: incident.FlowEnd{Rank: 1, Steps: c.from}, To: incident.FlowEnd{Rank: 2, Steps: c.to}})
		got := ""
		for _, s := range f.Stages {
			if s.Behind {
				got += s.Name
			}
		}
		if got != c.stage || f.Where != behind[c.stage] {
			t.Errorf("%s: %q, %q; want %q", name, got, f.Where, c.stage)
		}
	}
	if newFlow(nil) != nil {
		t.Error("a flow of nothing")
	}
}

// Who is in an operation for the shortest time came last; lines are flush at the right, where all leave together.
func TestTimeline(t *testing.T) {
	round := incident.Round{Comm: "dp", Op: "AllReduce #9", Members: []incident.Spell{{Rank: 0, Before: 1, Inside: 2}, {Rank: 1, Before: 2, Inside: 1}, {Rank: 2, Before: -1, Inside: 1.5}}}
	tl := newTimeline([]incident.Round{round, round, {Members: round.Members[:1]}}, []int{1})
	if len(tl.Rounds) != 2 || tl.Rounds[0].Last != "rank 1" || tl.Rounds[0].Waited != "1 s" || tl.Rounds[0].Took != "1 s" {
		t.Errorf("rounds are %+v", tl.Rounds)
	}
	if len(tl.Lines) != 3 || tl.Lines[0].Label != "rank 1" || !tl.Lines[0].Last || !tl.Lines[0].Bad || tl.Lines[1].Last {
		t.Errorf("lines are %+v", tl.Lines)
	}
	for _, l := range tl.Lines {
		if end := l.Bars[len(l.Bars)-1]; end.X+end.W < tl.Width-6 || end.X+end.W > tl.Width {
			t.Errorf("%s ends at %d of %d", l.Label, end.X+end.W, tl.Width)
		}
	}
	if newTimeline(nil, nil) != nil {
		t.Error("a timeline of nothing")
	}
}

// Ranks are shown by stage and replica where the job has such, alike ones on one row.
func TestLayoutGrid(t *testing.T) {
	inc := hung(64, 21, func(rank int) string {
		if rank < 32 {
			return "stuck"
		}
		return "unseen"
	})
	l := &layout.Layout{World: 64, Axes: []layout.Axis{{Kind: layout.Tensor, Size: 4, Stride: 1, Named: true}, {Kind: layout.Data, Size: 8, Stride: 4}, {Kind: layout.Pipeline, Size: 2, Stride: 32, Named: true}}}
	g := layoutGrid(l, inc.Ranks, nil)
	if len(g.Rows) != 3 || g.Rows[0].Name != "stage 0 · replica 5" || g.Rows[2].Name != "8 rows: stage 1 · replica 0, stage 1 · replica 1, stage 1 · replica 2 … stage 1 · replica 7" || len(g.Rows[0].Cells) != 4 {
		t.Errorf("%+v", g.Rows)
	}
	inc.Layout = l
	if html := render(t, &inc, Options{}); !strings.Contains(html, "64 ranks: pipeline parallel 2 × data parallel 8 (by the shape of its communicators) × tensor parallel 4.") {
		t.Error("the page does not say how the job divides its ranks")
	}
	if layoutGrid(&layout.Layout{World: 8, Axes: l.Axes[:1]}, inc.Ranks, nil) != nil {
		t.Error("one axis is shown twice")
	}
}
