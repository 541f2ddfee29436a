// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/layout"
)

// Sizes of the plan, in units of its own, and what it shows at most: beyond, the rows of the grid below serve.
const (
	planWidth   = 360
	planLeft    = 58 // Room for the rows' names.
	planTop     = 16 // Room for the columns' names.
	planGap     = 4  // Between blocks.
	planHeight  = 300
	mostSquare  = 30
	leastSquare = 3
	mostColumns = 48
	mostSquares = 2048
	mostApart   = 8  // Columns that are shown one by one, alike or not.
	labelFits   = 18 // A square from here on shows its rank.
)

// Plan shows a job as it divides its ranks: pipeline stages below each other, data-parallel replicas side by side, and in each block the
// ranks that share a replica of a stage. The colour of a rank says whether it waits. Of a job without a known layout a block is a host.
type Plan struct {
	Width, Height int
	Text          string
	Rows, Columns []planName
	Squares       []planSquare
	Folded        string // Which columns stand for several.
}

type planName struct {
	X, Y int
	Name string
}

type planSquare struct {
	X, Y, Size   int
	TextX, TextY int
	State, Label string
	Title        string
}

// block is a place in the plan by row and column.
type block struct{ row, column int }

func newPlan(l *layout.Layout, views []incident.RankView) *Plan {
	if len(views) == 0 {
		return nil
	}
	blocks, rows, columns, rowName, columnName := divide(l, views)
	inside := 0
	for _, b := range blocks {
		inside = max(inside, len(b))
	}
	alike := foldColumns(blocks, rows, columns)
	if len(alike) > mostColumns || rows*len(alike)*inside > mostSquares {
		return nil
	}
	across := int(math.Ceil(math.Sqrt(float64(inside))))
	down := (inside + across - 1) / across
	square := min(mostSquare, ((planWidth-planLeft)/len(alike)-planGap)/across, (planHeight/rows-planGap)/down)
	if square < leastSquare {
		return nil
	}
	p := &Plan{Width: planWidth, Height: planTop + rows*(down*square+planGap)}
	counts := map[string]int{}
	for _, v := range views {
		counts[v.State]++
	}
	folded := 0
	for at, group := range alike {
		x := planLeft + at*(across*square+planGap)
		name := strconv.Itoa(group[0])
		if columnName != "" {
			name = columnName + " " + name
		}
		if len(group) > 1 {
			name = "×" + count(len(group))
			folded += len(group)
		}
		if across*square >= 7*len(name) {
			p.Columns = append(p.Columns, planName{x, planTop - 4, name})
		}
		for row := range rows {
			y := planTop + row*(down*square+planGap)
			if at == 0 && rowName != "" {
				p.Rows = append(p.Rows, planName{0, y + down*square/2 + 4, rowName + " " + strconv.Itoa(row)})
			}
			for i, v := range blocks[block{row, group[0]}] {
				s := planSquare{X: x + i%across*square, Y: y + i/across*square, Size: square - 1, State: v.State, Title: fmt.Sprintf("rank %d, %s: %s", v.Rank, cmp.Or(v.Host, "unknown host"), stateName(v.State))}
				s.TextX, s.TextY = s.X+square/2, s.Y+square/2+4
				if square >= labelFits && v.Rank < 1000 && len(group) == 1 {
					s.Label = strconv.Itoa(v.Rank)
				}
				p.Squares = append(p.Squares, s)
			}
		}
	}
	if folded > 0 {
		p.Folded = fmt.Sprintf("A column ×N stands for N neighbours that look alike: %s in all.", count(folded))
	}
	p.Text = planText(counts)
	return p
}

// divide puts ranks into blocks by stage and replica or, without a layout, by host.
func divide(l *layout.Layout, views []incident.RankView) (blocks map[block][]incident.RankView, rows, columns int, rowName, columnName string) {
	blocks = map[block][]incident.RankView{}
	rows = 1
	if l == nil || len(l.Axes) == 0 {
		var hosts []string
		for _, v := range views {
			at := slices.Index(hosts, v.Host)
			if at < 0 {
				if at = len(hosts); at >= mostSquares {
					break
				}
				hosts = append(hosts, v.Host)
			}
			blocks[block{0, at}] = append(blocks[block{0, at}], v)
		}
		return blocks, 1, len(hosts), "", "host"
	}
	columns = 1
	var stage, replica layout.Axis
	for _, a := range l.Axes {
		switch a.Kind {
		case layout.Pipeline:
			stage, rows, rowName = a, a.Size, "stage"
		case layout.Data:
			replica, columns, columnName = a, a.Size, "replica"
		case layout.Tensor, layout.Context, layout.Expert:
		}
	}
	place := func(rank int) (b block) {
		if stage.Size > 0 {
			b.row = stage.Place(rank)
		}
		if replica.Size > 0 {
			b.column = replica.Place(rank)
		}
		return b
	}
	for _, v := range views {
		b := place(v.Rank)
		blocks[b] = append(blocks[b], v)
	}
	return blocks, rows, columns, rowName, columnName
}

// foldColumns puts neighbouring columns that look alike together, but none with a culprit.
func foldColumns(blocks map[block][]incident.RankView, rows, columns int) [][]int {
	var out [][]int
	before := ""
	for c := range columns {
		var key strings.Builder
		for r := range rows {
			for _, v := range blocks[block{r, c}] {
				key.WriteString(v.State + "\x00")
			}
			key.WriteString("\x01")
		}
		k := key.String()
		if columns > mostApart && k == before && !strings.Contains(k, "culprit\x00") {
			out[len(out)-1] = append(out[len(out)-1], c)
			continue
		}
		out, before = append(out, []int{c}), k
	}
	return out
}

func planText(counts map[string]int) string {
	var parts []string
	for _, s := range states {
		if n := counts[s.Name]; n > 0 {
			parts = append(parts, ranks(n)+" "+stateName(s.Name))
		}
	}
	return strings.Join(parts, ", ")
}
