// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/layout"
)

// Bounds of the grid: a page of a hundred thousand ranks is read as easily as one of eight.
const (
	rowRanks  = 16 // Ranks of one row; a host with more, or ranks without a host, take several.
	mostRows  = 48
	hostsShow = 3
)

// states in the order in which they matter, with what they mean.
var states = []Term{
	{"culprit", "to blame"},
	{"gone", "the process died"},
	{"stopped", "the process is stopped by a signal or a debugger"},
	{"disk_sleep", "the process is blocked in the kernel, mostly in storage"},
	{"outside", "in no operation while others wait"},
	{"stuck", "in an operation without progress"},
	{"exited", "the process ended in an orderly way"},
	{"moving", "in an operation that makes progress"},
	{"idle", "in no operation, and nobody waits"},
	{"unseen", "nothing is known of them now"},
}

func weight(state string) int {
	i := slices.IndexFunc(states, func(t Term) bool { return t.Name == state })
	if i < 0 {
		return len(states)
	}
	return i
}

// Grid shows ranks by host or by their place in the layout, rows that look alike folded into one, the culprit's first.
type Grid struct {
	Title  string // Of the rows' names.
	Unit   string // What a folded row counts: hosts, rows.
	Legend []Legend
	Rows   []Row
	Rest   string // What the rows beyond the bound hold.
	Empty  bool
}

// Legend is one state and how many ranks are in it.
type Legend struct {
	Term
	Count int
}

// Row is one host, or several that look alike.
type Row struct {
	Name  string
	Cells []Cell
	Text  string

	hosts []string
	ranks []incident.RankView
	key   string
	worst int
}

// Cell is one rank; of folded rows, one place.
type Cell struct{ State, Label string }

func newGrid(views []incident.RankView, marks map[int]string) *Grid {
	return gridBy(views, marks, "Host", "hosts", func(v *incident.RankView) string { return cmp.Or(v.Host, "unknown host") })
}

// layoutGrid shows ranks by pipeline stage and replica, a cell for each place within. Nil: the job has one axis, which the ranks'
// numbers show as well.
func layoutGrid(l *layout.Layout, views []incident.RankView, marks map[int]string) *Grid {
	if l == nil || len(views) == 0 {
		return nil
	}
	axes := slices.DeleteFunc(slices.Clone(l.Axes), func(a layout.Axis) bool { return a.Kind == layout.Expert }) // It lies across others.
	if len(axes) < 2 {
		return nil
	}
	return gridBy(views, marks, "Place", "rows", func(v *incident.RankView) string {
		var name []string
		for _, a := range slices.Backward(axes[1:]) {
			name = append(name, placeNames[a.Kind]+" "+strconv.Itoa(a.Place(v.Rank)))
		}
		return strings.Join(name, " · ")
	})
}

// placeNames are what a place along an axis is called.
var placeNames = map[layout.Kind]string{
	layout.Pipeline: "stage", layout.Data: "replica", layout.Tensor: "tensor place", layout.Context: "context place", layout.Expert: "expert place",
}

// layoutText says how a job divides its ranks.
func layoutText(l *layout.Layout) string {
	var parts []string
	for _, a := range slices.Backward(l.Axes) {
		text := fmt.Sprintf("%s %d", a.Kind.Long(), a.Size)
		if !a.Named {
			text += " (by the shape of its communicators)"
		}
		parts = append(parts, text)
	}
	return ranks(l.World) + ": " + strings.Join(parts, " × ")
}

// stackMarks gives each rank whose call stack is known the letter of its group: ranks that stand at the same line have the same.
func stackMarks(groups []incident.StackGroup) map[int]string {
	out := map[int]string{}
	for i, g := range groups {
		for _, rank := range g.Ranks {
			out[rank] = stackName(i)
		}
	}
	return out
}

// stackName is the letter of a group of stacks, and a number behind the last letter.
func stackName(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return strconv.Itoa(i + 1)
}

func gridBy(views []incident.RankView, marks map[int]string, title, unit string, name func(*incident.RankView) string) *Grid {
	g := &Grid{Title: title, Unit: unit, Empty: len(views) == 0}
	counts := map[string]int{}
	byHost := map[string][]incident.RankView{}
	var hosts []string
	for _, v := range views {
		counts[v.State]++
		h := name(&v)
		if byHost[h] == nil {
			hosts = append(hosts, h)
		}
		byHost[h] = append(byHost[h], v)
	}
	for _, s := range states {
		if n := counts[s.Name]; n > 0 {
			g.Legend = append(g.Legend, Legend{s, n})
		}
	}
	var rows []Row
	for _, h := range hosts {
		for part := range slices.Chunk(byHost[h], rowRanks) {
			rows = append(rows, newRow(h, part, marks))
		}
	}
	rows = foldRows(rows)
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.worst, b.worst) })
	if len(rows) > mostRows {
		g.Rest = rest(rows[mostRows:])
		rows = rows[:mostRows]
	}
	for i := range rows {
		rows[i].finish(unit, marks)
	}
	g.Rows = rows
	return g
}

func newRow(host string, views []incident.RankView, marks map[int]string) Row {
	r := Row{hosts: []string{host}, ranks: views, worst: len(states)}
	var key strings.Builder
	for _, v := range views {
		r.worst = min(r.worst, weight(v.State))
		key.WriteString(v.State + "\x00" + marks[v.Rank] + "\x00")
	}
	r.key = key.String()
	return r
}

// foldRows joins rows that look alike, but no culprit's.
func foldRows(rows []Row) []Row {
	at := map[string]int{}
	var out []Row
	for _, r := range rows {
		i, known := at[r.key]
		if known && r.worst > 0 {
			out[i].hosts = append(out[i].hosts, r.hosts...)
			out[i].ranks = append(out[i].ranks, r.ranks...)
			continue
		}
		r.ranks = slices.Clip(r.ranks) // What it grows by is not the next row's.
		at[r.key] = len(out)
		out = append(out, r)
	}
	return out
}

func (r *Row) finish(unit string, marks map[int]string) {
	places := len(r.ranks) / len(r.hosts)
	for i, v := range r.ranks[:places] {
		c := Cell{State: v.State, Label: count(v.Rank)}
		if len(r.hosts) > 1 {
			c.Label = cmp.Or(v.GPU, count(i)) // Of many hosts: the place on each.
		}
		if m := marks[v.Rank]; m != "" {
			c.Label += " " + m
		}
		r.Cells = append(r.Cells, c)
	}
	r.Name = r.hosts[0]
	if n := len(r.hosts); n > 1 {
		r.Name = count(n) + " " + unit + ": " + strings.Join(r.hosts[:min(n, hostsShow)], ", ")
		if n > hostsShow {
			r.Name += " … " + r.hosts[n-1]
		}
	}
	r.Text = describe(r.ranks)
}

// describe says in words what the colours of a row say.
func describe(views []incident.RankView) string {
	byState := map[string][]int{}
	detail := map[string]string{}
	for _, v := range views {
		byState[v.State] = append(byState[v.State], v.Rank)
		if v.Text != "" && v.Text != v.State && detail[v.State] == "" {
			detail[v.State] = v.Text
		}
	}
	var parts []string
	for _, s := range states {
		numbers := byState[s.Name]
		if len(numbers) == 0 {
			continue
		}
		text := named(numbers, 0) + ": " + stateName(s.Name)
		if d := detail[s.Name]; d != "" && len(numbers) <= rowRanks && weight(s.Name) <= weight("stuck") {
			text += " (" + cut(d, 80) + map[bool]string{true: ", for one"}[len(numbers) > 1] + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// stateName is a state as people say it.
func stateName(state string) string {
	switch state {
	case "disk_sleep":
		return "blocked in the kernel"
	case "unseen":
		return "not asked"
	}
	return state
}

// jobState is a state as the page of a job, which asks Prometheus alone, knows it.
func jobState(state string) string {
	switch state {
	case "gone":
		return "exited without orderly shutdown"
	case "stuck":
		return "in an operation that has made no progress for 2 s or more"
	case "unseen":
		return "not recorded: Prometheus has no fresh sample"
	}
	return state
}

func rest(rows []Row) string {
	hosts, total := 0, 0
	for i := range rows {
		hosts += len(rows[i].hosts)
		total += len(rows[i].ranks)
	}
	return count(hosts) + " more rows with " + ranks(total) + " are not shown; the JSON has them"
}
