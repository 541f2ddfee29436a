// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"text/tabwriter"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/rca"
)

const (
	// worthSaving is the share of a step from which a fix is worth a line of the short form, worthPerKind how many such
	// lines a kind has there.
	worthSaving  = 0.01
	worthPerKind = 3
)

// whatIf prints what a step would take if single elements were as they should be.
func (p *printer) whatIf() {
	shown := p.worth()
	if len(shown) == 0 {
		return
	}
	now := shown[0].StepSeconds / (1 - shown[0].Saved)
	p.title(fmt.Sprintf("What a fix would win back (a step takes %s now)", diagnosis.Seconds(now)))
	var table bytes.Buffer
	tw := tabwriter.NewWriter(&table, 0, 0, 0, ' ', 0)
	fmt.Fprintln(tw, "  WERE THIS IDEAL\t  STEP\t  WON BACK\t  SLOWDOWN BY IT")
	for _, w := range shown {
		name := w.Name
		if w.Kind != "rank" && len(w.Ranks) > 0 {
			name += " (" + rankList(w.Ranks) + ")"
		}
		fmt.Fprintf(tw, "  %s\t  %s\t  %.1f%%\t  %.2fx\n", name, diagnosis.Seconds(w.StepSeconds), 100*w.Saved, now/w.StepSeconds)
	}
	_ = tw.Flush()
	for l := range bytes.Lines(table.Bytes()) {
		p.line("%s", bytes.TrimRight(l, " \n"))
	}
}

// worth chooses the answers to print: all with --explain, else those of a job that is slow that save something, and
// always what all of it and the network cost.
func (p *printer) worth() []rca.WhatIf {
	all := p.r.Verdict.WhatIf
	if p.s.Explain {
		return all
	}
	if v := p.r.Verdict; fine(v) || undecided(v) {
		return nil
	}
	var out []rca.WhatIf
	kinds := map[string]int{}
	for _, w := range all {
		single := w.Kind == "all" || w.Kind == "transfers"
		if kinds[w.Kind]++; single || w.Saved >= worthSaving && kinds[w.Kind] <= worthPerKind {
			out = append(out, w)
		}
	}
	return out
}
