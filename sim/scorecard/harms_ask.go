// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
)

// Harmed is what the engine says of a run's last moment with worse evidence.
type Harmed struct {
	Harm       string   `json:"harm"`
	Class      string   `json:"class"`
	Cause      string   `json:"cause"`
	Confidence float64  `json:"confidence"`
	Weight     float64  `json:"weight"`
	Page       bool     `json:"page"`
	Culprits   []int    `json:"culprits,omitempty"`
	Groups     []string `json:"groups,omitempty"`
	Summary    string   `json:"summary,omitempty"`
	Judgement
	// Liar: everybody innocent who is accused is on the host that lies: its word is all there is of it.
	Liar bool `json:"liar,omitempty"`
}

// hurt is a verdict on spoiled evidence that waits for the answer.
type hurt struct {
	harm    string
	liar    string
	verdict rca.Verdict
}

// askHarmed asks the engine once more about the moment of its last look, with worse evidence. Nobody looks a second time:
// the moment is the second look's already.
func (t *trial) askHarmed() error {
	if t.ev == nil || len(t.harms) == 0 {
		return nil
	}
	whole, err := t.lab.gather()
	if err != nil {
		return fmt.Errorf("gathering evidence to spoil: %w", err)
	}
	whole.pasts = map[int][]fetchedOp{}
	for _, name := range t.harms {
		s, ok := harmNamed(name).on(t.Case, &whole.ev)
		if !ok {
			continue
		}
		v, err := t.underHarm(whole, &s)
		if err != nil {
			return fmt.Errorf("under %s: %w", name, err)
		}
		t.harmed = append(t.harmed, hurt{name, s.liar, v})
	}
	return nil
}

// underHarm asks as the service would, and leaves the trial's own verdict and costs alone.
func (t *trial) underHarm(whole *gathered, s *spoiler) (rca.Verdict, error) {
	beside := &trial{Case: t.Case, out: newOutcome(t.Case), lab: t.lab, meter: t.meter, past: t.past}
	g := *whole
	g.ev, g.spoil, g.mask = copied(&whole.ev), s.history, s.record
	if g.mask != nil {
		g.pasts = nil // What others have fetched is not masked.
	}
	s.states(&g.ev)
	l := beside.lookAt(&g, nil)
	if settled(l.v.Class, t.out.Trigger) {
		return l.v, nil
	}
	if err := beside.lookBack(l); err != nil {
		return rca.Verdict{}, err
	}
	return l.v, nil
}

// judged compares a verdict with the sealed answer.
func (h *hurt) judged(a *cluster.Answer, effect bool, where places) Harmed {
	var o Outcome
	o.hear(&h.verdict)
	out := Harmed{
		Harm: h.harm, Class: o.Class, Cause: o.Cause, Confidence: o.Confidence, Weight: o.Weight, Page: o.Page, Culprits: o.Culprits, Groups: o.Groups,
		Summary: o.Summary, Judgement: judge(&h.verdict, a, effect, where),
	}
	if out.False && h.liar != "" {
		out.Liar = !slices.ContainsFunc(h.verdict.Culprits, func(c rca.Culprit) bool { return h.slandered(&c, a, where) })
	}
	return out
}

// slandered: an innocent who did not lie.
func (h *hurt) slandered(c *rca.Culprit, a *cluster.Answer, where places) bool {
	for i := range a.Truths {
		if names(&a.Truths[i], c) || holds(&a.Truths[i], c, where) {
			return false
		}
	}
	if c.Rank >= 0 && c.Rank < where.World() {
		return where.HostName(where.HostOf(c.Rank)) != h.liar
	}
	if c.Host == h.liar {
		return false
	}
	for r := range where.World() {
		if where.HostName(where.HostOf(r)) == h.liar && holds(&cluster.Truth{Ranks: []int{r}}, c, where) {
			return false
		}
	}
	return true
}

// Fates of a verdict under harm.
const (
	fateRight    = "right"
	fateWider    = "wider"    // A larger group or its host, or the class wrong.
	fateUnknown  = "unknown"  // Nobody named, and said so.
	fateMissed   = "missed"   // Nobody named where somebody should be.
	fateLiar     = "liar"     // The host that lies.
	fateInnocent = "innocent" // Somebody innocent.
)

// fate says how a verdict under harm compares with the truth.
func (h *Harmed) fate() string {
	switch {
	case h.Liar:
		return fateLiar
	case h.False && h.Class == string(rca.Inconsistent) && h.Top3:
		return fateWider // Both sides of a disagreement: one of them is guilty.
	case h.False:
		return fateInnocent
	case h.Right:
		return fateRight
	case h.Top3 || h.GroupRight || h.HostRight:
		return fateWider
	case h.Unknown:
		return fateUnknown
	}
	return fateMissed
}
