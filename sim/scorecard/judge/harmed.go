// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
)

// Harmed is what the engine says of a run's last moment with worse evidence.
type Harmed struct {
	Harm string `json:"harm"`
	Said
	Judgement
	// Liar: everybody innocent who is accused is on the host that lies: its word is all there is of it.
	Liar bool `json:"liar,omitempty"`
}

// JudgeHarmed compares a verdict under a harm with the sealed answer. liar is the host that lies; empty: none does.
func JudgeHarmed(harm, liar string, v *rca.Verdict, a *cluster.Answer, effect bool, where Places) Harmed {
	out := Harmed{Harm: harm, Said: SaidBy(v), Judgement: Judge(v, a, effect, where)}
	if out.False && liar != "" {
		out.Liar = !slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool { return slandered(&c, liar, a, where) })
	}
	return out
}

// slandered: an innocent who did not lie.
func slandered(c *rca.Culprit, liar string, a *cluster.Answer, where Places) bool {
	for i := range a.Truths {
		if names(&a.Truths[i], c) || holds(&a.Truths[i], c, where) {
			return false
		}
	}
	if c.Rank >= 0 && c.Rank < where.World() {
		return where.HostName(where.HostOf(c.Rank)) != liar
	}
	if c.Host == liar {
		return false
	}
	for r := range where.World() {
		if where.HostName(where.HostOf(r)) == liar && holds(&cluster.Truth{Ranks: []int{r}}, c, where) {
			return false
		}
	}
	return true
}

// Fates of a verdict under harm.
const (
	FateRight    = "right"
	FateWider    = "wider"    // A larger group or its host, or the class wrong.
	FateUnknown  = "unknown"  // Nobody named, and said so.
	FateMissed   = "missed"   // Nobody named where somebody should be.
	FateLiar     = "liar"     // The host that lies.
	FateInnocent = "innocent" // Somebody innocent.
)

// Fate says how a verdict under harm compares with the truth.
func (h *Harmed) Fate() string {
	switch {
	case h.Liar:
		return FateLiar
	case h.False && h.Class == string(rca.Inconsistent) && h.Top3:
		return FateWider // Both sides of a disagreement: one of them is guilty.
	case h.False:
		return FateInnocent
	case h.Right:
		return FateRight
	case h.Top3 || h.GroupRight || h.HostRight:
		return FateWider
	case h.Unknown:
		return FateUnknown
	}
	return FateMissed
}

// Fate says how the verdict compares with the truth.
func (o *Outcome) Fate() string { return (&Harmed{Said: o.Said, Judgement: o.Judgement}).Fate() }

// Slanders: somebody innocent, who has not lied, is accused.
func (h *Harmed) Slanders() bool { return h.Fate() == FateInnocent }

// HarmedLine is a verdict under harm in one line.
func (o *Outcome) HarmedLine(h *Harmed) string {
	return fmt.Sprintf("HARM %-50s %-10s truth=%s%v said=%s/%s%v%v conf=%.2f page=%v %s",
		o.Name, h.Harm, o.TruthClass, Short(o.TruthRanks), h.Class, h.Cause, Short(h.Culprits), h.Groups[:min(2, len(h.Groups))], h.Confidence, h.Page, h.Summary)
}
