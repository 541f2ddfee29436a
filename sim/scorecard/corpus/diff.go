// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// Change is a case of which two engines say different things. One of the verdicts is nil where only one of them has the case.
type Change struct{ Old, New *Verdict }

// Diff lists the cases whose verdicts differ in what a person is told: the fate, the class, the cause, who is named, and whether it
// pages. The changes for the worse come first.
func Diff(before, after []Verdict) []Change {
	was := map[string]*Verdict{}
	for i := range before {
		was[before[i].Case] = &before[i]
	}
	var out []Change
	for i := range after {
		is := &after[i]
		if old := was[is.Case]; old == nil || !same(old, is) {
			out = append(out, Change{old, is})
		}
		delete(was, is.Case)
	}
	for i := range before {
		if v := &before[i]; was[v.Case] != nil {
			out = append(out, Change{v, nil})
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(b.lost(), a.lost()) })
	return out
}

func same(a, b *Verdict) bool {
	return a.Fate == b.Fate && a.Class == b.Class && a.Cause == b.Cause && a.Page == b.Page && slices.Equal(a.Culprits, b.Culprits) && slices.Equal(a.Groups, b.Groups)
}

// lost is by how many fates a verdict got worse.
func (c *Change) lost() int {
	if c.Old == nil || c.New == nil {
		return 0
	}
	return slices.Index(fates, c.New.Fate) - slices.Index(fates, c.Old.Fate)
}

// WriteDiff prints each change with what is true, and how often each fate was met before and after, by set and by level.
func WriteDiff(w io.Writer, before, after []Verdict) error {
	changes := Diff(before, after)
	for i := range changes {
		writeChange(w, &changes[i])
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%d of %d verdicts changed\t\t\n", len(changes), max(len(before), len(after)))
	for _, p := range parts(after) {
		fmt.Fprintf(tw, "%s\tbefore\t%s\n\tafter\t%s\n", p.name, TallyOf(p.of(before)), TallyOf(p.of(after)))
	}
	return tw.Flush()
}

func writeChange(w io.Writer, c *Change) {
	switch {
	case c.Old == nil:
		fmt.Fprintf(w, "new      %s: %s\n", c.New.Case, c.New.Fate)
	case c.New == nil:
		fmt.Fprintf(w, "gone     %s: %s\n", c.Old.Case, c.Old.Fate)
	default:
		fmt.Fprintf(w, "%s -> %s: %s (%s), truth %s %v\n", c.Old.Fate, c.New.Fate, c.New.Case, c.New.Level, c.New.TruthClass, judge.Short(c.New.TruthRanks))
		for _, v := range []*Verdict{c.Old, c.New} {
			fmt.Fprintf(w, "    %s/%s %v %v, row %s, weight %.2f, page %v: %s\n",
				v.Class, v.Cause, judge.Short(v.Culprits), v.Groups[:min(2, len(v.Groups))], v.Row, v.Weight, v.Page, v.Summary)
		}
	}
}

// part is a part of a corpus by which verdicts are counted.
type part struct {
	name string
	has  func(*Verdict) bool
}

func (p *part) of(list []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(list), func(v Verdict) bool { return !p.has(&v) })
}

// parts are the sets, the levels of the undisturbed simulated cases, and all.
func parts(list []Verdict) []part {
	var out []part
	add := func(name string, has func(*Verdict) bool) {
		if name != "" && !slices.ContainsFunc(out, func(p part) bool { return p.name == name }) {
			out = append(out, part{name, has})
		}
	}
	for i := range list {
		add(list[i].Set, func(v *Verdict) bool { return v.Set == list[i].Set })
	}
	for i := range list {
		add(list[i].Level, func(v *Verdict) bool { return v.Level == list[i].Level })
	}
	add("all", func(*Verdict) bool { return true })
	return out
}

// WriteBeside prints what a method and the engine say of jobs that stand still, slow ones and quiet ones, by level and by harm, and the cases of
// standing and quiet jobs in which the method accuses an innocent.
func WriteBeside(w io.Writer, name string, by, engine []Verdict) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range conditions(by) {
		fmt.Fprintf(tw, "%s\t%s\t%s\n\t%s\t%s\n", p.name, name, TallyOf(p.of(by)), Engine, TallyOf(p.of(engine)))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range by {
		if v := &by[i]; v.Fate == judge.FateInnocent && v.Group != matrix.GroupSlow {
			fmt.Fprintf(w, "innocent: %s (%s, the engine: %s): %s\n", v.Case, v.Level, engine[i].Fate, v.Summary)
		}
	}
	return nil
}

// conditions are the parts of a corpus by what the evidence is like: jobs that stand still by level, then by harm, and quiet jobs.
func conditions(list []Verdict) []part {
	var out []part
	add := func(name string, has func(*Verdict) bool) {
		if !slices.ContainsFunc(out, func(p part) bool { return p.name == name }) {
			out = append(out, part{name, has})
		}
	}
	hang := func(v *Verdict) bool { return v.Group == matrix.GroupHang }
	for i := range list {
		if v := &list[i]; hang(v) && v.Harm == "" {
			add("hangs, "+cmp.Or(v.Level, v.Set), func(o *Verdict) bool {
				return hang(o) && o.Harm == "" && o.Level == v.Level && (v.Level != "" || o.Set == v.Set)
			})
		}
	}
	for i := range list {
		if v := &list[i]; hang(v) && v.Harm != "" {
			add("hangs, harm "+v.Harm, func(o *Verdict) bool { return hang(o) && o.Harm == v.Harm })
		}
	}
	for i := range list {
		if v := &list[i]; v.Group == matrix.GroupSlow && v.Harm == "" {
			add("slow, "+cmp.Or(v.Level, v.Set), func(o *Verdict) bool {
				return o.Group == matrix.GroupSlow && o.Harm == "" && o.Level == v.Level && (v.Level != "" || o.Set == v.Set)
			})
		}
	}
	add("quiet", func(o *Verdict) bool { return !hang(o) && o.Group != matrix.GroupSlow })
	slices.SortStableFunc(out, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	return out
}

// WriteTally prints how often each fate was met, by set and by level.
func WriteTally(w io.Writer, list []Verdict) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range parts(list) {
		fmt.Fprintf(tw, "%s\t%s\n", p.name, TallyOf(p.of(list)))
	}
	return tw.Flush()
}
