// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// mostShown is how many lines of a list the explanation prints.
const mostShown = 16

// Tell prints the worlds that were weighed, what the score of the best is made of, and what it leaves unexplained.
func (a *Answer) Tell() string {
	var b strings.Builder
	fmt.Fprintln(&b, "Scores are in nats, above that of a job in which nothing is wrong.")
	for i := range a.Places {
		fits := a.Places[i].Fits
		fmt.Fprintf(&b, "Fault %d, worlds that cannot be told apart:\n", i+1)
		for k := range fits[:min(len(fits), mostShown)] {
			fmt.Fprintf(&b, "  %9.1f  %s\n", fits[k].Nats, describe(a.world.Job, fits[k].last()))
		}
		if more := len(fits) - mostShown; more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	if len(a.Places) > 0 {
		a.tellTerms(&b, a.Places[len(a.Places)-1].Fits[0].Faults)
	}
	return b.String()
}

// gained is what a world gains over a job in which nothing is wrong, by kind of observation.
type gained struct {
	what  string
	n     int
	total float64
}

// tellTerms prints the terms by what was observed, which add up to the score, and those that the world explains badly.
func (a *Answer) tellTerms(b *strings.Builder, faults []Fault) {
	healthy, terms := termsOf(a.world, nil), termsOf(a.world, faults)
	var sums []gained
	total := 0.0
	for i := range terms {
		what := name(&terms[i])
		k := slices.IndexFunc(sums, func(g gained) bool { return g.what == what })
		if k < 0 {
			k = len(sums)
			sums = append(sums, gained{what: what})
		}
		sums[k].n += int(terms[i].Of)
		sums[k].total += terms[i].Nats - healthy[i].Nats
		total += terms[i].Nats - healthy[i].Nats
	}
	slices.SortStableFunc(sums, func(x, y gained) int { return cmp.Or(cmp.Compare(y.total, x.total), cmp.Compare(x.what, y.what)) })
	fmt.Fprintln(b, "Score of the best world, by what was observed:")
	for _, g := range sums {
		fmt.Fprintf(b, "  %+9.1f  %d × %s\n", g.total, g.n, g.what)
	}
	fmt.Fprintf(b, "  %+9.1f  how rare such faults are\n", priors(a.world.Job, faults))
	fmt.Fprintf(b, "  %9.1f  in all\n", total+priors(a.world.Job, faults))
	n, bad, shown := int32(0), int32(0), terms[:0]
	for _, t := range terms {
		if n += t.Of; t.bad() {
			bad, shown = bad+t.Of, append(shown, t)
		}
	}
	slices.SortStableFunc(shown, func(x, y Term) int { return cmp.Compare(x.Nats, y.Nats) })
	fmt.Fprintf(b, "Left unexplained: %d of %d observations.\n", bad, n)
	for i := range shown[:min(len(shown), mostShown)] {
		t := &shown[i]
		fmt.Fprintf(b, "  %9.1f  %s: %s%s\n", t.Nats, a.world.Index.RankName(t.Node), name(t), where(a.world.Job, t))
	}
}

func termsOf(w *World, faults []Fault) (out []Term) {
	w.become(faults)
	w.each(func(t Term) { out = append(out, t) })
	return out
}

var whatNames = [...]string{"", "state of a process", "different calls of one operation", "opposite orders of two operations", "source does not answer", "fault that a host reports"}

func name(t *Term) string {
	if t.What == OfPart {
		return t.Seen.String()
	}
	return whatNames[t.What]
}

// where gives the operation of a letter, and the other end of a flow.
func where(j *observe.Job, t *Term) string {
	if t.Part < 0 {
		return ""
	}
	part := &j.Parts[t.Part]
	s := ", " + j.Operations[part.Operation].Name
	if t.Flow < 0 {
		return s
	}
	f := &part.Flows[t.Flow]
	way := " from "
	if f.Send {
		way = " to "
	}
	if f.Peer < 0 {
		return s + way + "a rank that was not seen"
	}
	return s + way + j.Index.RankName(j.Parts[f.Peer].Node)
}
