// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/incident"
)

// Sizes of the timeline, in units of its own.
const (
	lineLabel  = 90 // Room for a rank's name.
	lineHeight = 22
	lineGap    = 4
	mostLines  = 10
	mostDrawn  = 4 // Operations.
)

// Timeline shows the last operations of a slow job: who came last, and how long the others waited for it.
type Timeline struct {
	Comm          string
	Width, Height int
	Lines         []timeline
	Rounds        []roundRow // Newest first.
	Scale         string
}

// timeline is one rank's row of the drawing.
type timeline struct {
	Label     string
	Y, TextY  int
	Bars      []bar
	Last, Bad bool
}

// bar is a spell before an operation or inside it.
type bar struct {
	X, W     int
	Inside   bool
	Critical bool // The others wait for it: on the critical path.
}

// roundRow is one operation in words.
type roundRow struct {
	Op, Last, Waited, Took string
}

func newTimeline(rounds []incident.Round, accused []int) *Timeline {
	rounds = slices.DeleteFunc(slices.Clone(rounds), func(r incident.Round) bool { return len(r.Members) < 2 })
	if len(rounds) == 0 {
		return nil
	}
	t := &Timeline{Width: graphWidth, Comm: rounds[0].Comm}
	for _, r := range slices.Backward(rounds) {
		last, first := ends(r.Members)
		t.Rounds = append(t.Rounds, roundRow{
			Op: r.Op, Last: fmt.Sprintf("rank %d", last.Rank), Waited: seconds(first.Inside - last.Inside), Took: seconds(last.Inside),
		})
	}
	t.draw(rounds[max(0, len(rounds)-mostDrawn):], accused)
	return t
}

// ends gives who came last into an operation, and who first: its members leave it together, so the last is in it for the shortest time.
func ends(members []incident.Spell) (last, first incident.Spell) {
	byInside := func(a, b incident.Spell) int {
		return cmp.Or(cmp.Compare(a.Inside, b.Inside), cmp.Compare(a.Rank, b.Rank))
	}
	return slices.MinFunc(members, byInside), slices.MaxFunc(members, byInside)
}

func (t *Timeline) draw(rounds []incident.Round, accused []int) {
	newest := rounds[len(rounds)-1].Members
	order := slices.Clone(newest)
	rank := func(s incident.Spell) int {
		if slices.Contains(accused, s.Rank) {
			return 0
		}
		return 1
	}
	slices.SortFunc(order, func(a, b incident.Spell) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Inside, b.Inside), cmp.Compare(a.Rank, b.Rank))
	})
	order = order[:min(len(order), mostLines)]
	longest := 0.0
	for _, o := range order {
		longest = max(longest, span(rounds, o.Rank))
	}
	if longest == 0 {
		return
	}
	last, _ := ends(newest)
	scale := float64(t.Width-lineLabel-2) / longest
	for i, o := range order {
		line := timeline{Label: fmt.Sprintf("rank %d", o.Rank), Y: i * (lineHeight + lineGap), Last: o.Rank == last.Rank, Bad: slices.Contains(accused, o.Rank)}
		line.TextY = line.Y + 15
		// Operations end together: lines are flush at the right.
		at := longest - span(rounds, o.Rank)
		for k := range rounds {
			s, ok := spell(&rounds[k], o.Rank)
			latest, _ := ends(rounds[k].Members)
			if !ok {
				continue
			}
			for _, part := range []struct {
				length float64
				inside bool
			}{{max(0, s.Before), false}, {s.Inside, true}} {
				if w := int(part.length * scale); w > 0 {
					line.Bars = append(line.Bars, bar{X: lineLabel + int(at*scale), W: w, Inside: part.inside, Critical: o.Rank == latest.Rank})
				}
				at += part.length
			}
		}
		t.Lines = append(t.Lines, line)
	}
	t.Height = len(t.Lines)*(lineHeight+lineGap) - lineGap + 1
	t.Scale = seconds(longest)
}

func spell(r *incident.Round, rank int) (incident.Spell, bool) {
	i := slices.IndexFunc(r.Members, func(s incident.Spell) bool { return s.Rank == rank })
	if i < 0 {
		return incident.Spell{}, false
	}
	return r.Members[i], true
}

// span is how long some rounds took on a rank.
func span(rounds []incident.Round, rank int) float64 {
	sum := 0.0
	for i := range rounds {
		if s, ok := spell(&rounds[i], rank); ok {
			sum += max(0, s.Before) + s.Inside
		}
	}
	return sum
}
