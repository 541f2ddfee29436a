// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Sizes of the drawing, in units of its own: a box is two lines of text, and who waits for it stands below it, further in.
const (
	graphWidth = 760
	boxHeight  = 44
	boxGap     = 12
	indent     = 28
	deepest    = 9 // Levels that are set further in each.
	perChar    = 7 // Width of a character, rather too much than too little.
)

// Graph is the wait-for graph as a drawing: the culprit on top, and under each box those that wait for it.
type Graph struct {
	Width, Height int
	Boxes         []Box
	Arrows        []Arrow
	Title         string
	Lines         []Line // The same as text.
}

// Box is a group of ranks.
type Box struct {
	X, Y, W, H           int
	TextX, Line1, Line2  int // Where the texts stand.
	Head, Text           string
	Root, Sure, Unlinked bool
}

// Arrow leads from those that wait to whom they wait for.
type Arrow struct {
	Path string
	Tip  string
	Sure bool
}

// Line is a box as text, for those who do not see the drawing.
type Line struct{ Head, Text, On string }

func newGraph(v *rca.Verdict) *Graph {
	if len(v.Waits) == 0 {
		return nil
	}
	g := &Graph{Width: graphWidth}
	children := make([][]int, len(v.Waits))
	var tops []int
	waiting := 0
	for i := range v.Waits {
		w := &v.Waits[i]
		if !w.Root {
			waiting += w.Count
		}
		if w.On < 0 || w.On >= i { // An arrow leads to a group before it; a file may say otherwise.
			tops = append(tops, i)
			continue
		}
		children[w.On] = append(children[w.On], i)
	}
	y := 1
	var place func(i, depth, parent int)
	place = func(i, depth, parent int) {
		why := reason(&v.Waits[i])
		if v.Waits[i].Root && len(v.Culprits) == 1 && words.Cause(v.Cause) != "" {
			why = words.Cause(v.Cause) // The card has the sentence.
		}
		b := box(&v.Waits[i], why, min(depth, deepest)*indent, y)
		b.Root = b.Root && v.Class != rca.Benign // Nothing is wrong: nothing is red.
		y += boxHeight + boxGap
		if parent >= 0 {
			g.Arrows = append(g.Arrows, arrow(&g.Boxes[parent], &b))
		}
		on := ""
		if w := &v.Waits[i]; w.On >= 0 && w.On < i {
			on = head(&v.Waits[w.On])
		}
		g.Lines = append(g.Lines, Line{Head: head(&v.Waits[i]), Text: strings.TrimSuffix(why, "."), On: on})
		g.Boxes = append(g.Boxes, b)
		at := len(g.Boxes) - 1
		for _, c := range children[i] {
			place(c, depth+1, at)
		}
	}
	for _, i := range tops {
		place(i, 0, -1)
	}
	g.Height = y - boxGap + 1
	g.Title = fmt.Sprintf("%s waiting, in %s", ranks(waiting), words.Plural(len(v.Waits), "group"))
	return g
}

func box(w *rca.WaitGroup, why string, x, y int) Box {
	b := Box{X: x, Y: y, W: graphWidth - x - 1, H: boxHeight, TextX: x + 12, Line1: y + 18, Line2: y + 36, Root: w.Root, Sure: w.Sure || w.Root, Unlinked: !w.Root && w.On < 0}
	room := (b.W - 24) / perChar
	b.Head, b.Text = cut(head(w), room), cut(why, room)
	return b
}

// arrow leads from a box's left edge up to the lower edge of the one that it waits for.
func arrow(to, from *Box) Arrow {
	x, y := to.X+12, from.Y+from.H/2
	if to.X == from.X { // As far in as the drawing goes.
		x = from.X + 4
	}
	bottom := to.Y + to.H
	return Arrow{
		Path: fmt.Sprintf("M%d %dH%dV%d", from.X, y, x, bottom+7),
		Tip:  fmt.Sprintf("M%d %dl-4 8h8z", x, bottom),
		Sure: from.Sure,
	}
}

// head says which ranks a group is.
func head(w *rca.WaitGroup) string {
	switch {
	case w.Root && w.Count <= 1:
		return words.Opener(named(w.Ranks, w.Count))
	case w.Root:
		return words.Opener(named(w.Ranks, w.Count)) + " hold up the others"
	case w.On < 0:
		return words.Opener(named(w.Ranks, w.Count))
	case w.Count == 1:
		return words.Opener(named(w.Ranks, w.Count)) + " waits here"
	}
	return fmt.Sprintf("%s wait here: %s", ranks(w.Count), list(w.Ranks, w.Count))
}

// reason says why they wait, and in what.
func reason(w *rca.WaitGroup) string {
	s := w.Reason
	if !w.Root && w.On >= 0 {
		s = "Blocked on the ranks above: " + s
	}
	if w.Op != "" && strings.Contains(w.Reason, w.Op+" on ") { // The reason has both.
		return words.Opener(s)
	}
	if w.Op != "" {
		s += " · " + w.Op
	}
	switch {
	case w.Comm != "":
		s += " on " + w.Comm
	case w.Comms > 1:
		s += " on " + count(w.Comms) + " communicators"
	}
	if !w.Sure && !w.Root {
		s += " · inferred"
	}
	return words.Opener(s)
}
