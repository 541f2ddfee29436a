// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Analyze gives the model's answer as engine.Analyze gives the engine's.
func Analyze(ev rca.Evidence, opt rca.Options) rca.Verdict { return Explain(ev, opt).Verdict() }

// Verdict gives the answer in the engine's form. It never pages.
func (a *Answer) Verdict() rca.Verdict {
	x := a.world.Index
	v := job.NewVerdict(x)
	v.Class, v.Level, v.RanksVisited, v.WorldSize = a.Class, x.Level, x.Seen, x.World
	for i := range a.Places {
		p := &a.Places[i]
		if v.Class == p.Class && v.Cause == rca.CauseUnknown {
			v.Cause = p.Cause
		}
		v.Culprits = append(v.Culprits, p.culprits(x)...)
		v.Ask = append(v.Ask, x.IDs(p.Ask)...)
	}
	if v.Class == rca.Unknown {
		v.Culprits = []rca.Culprit{}
	}
	v.Summary = strings.Join(a.sentences(), " ")
	return v
}

// culprits names one rank, all ranks of a part that they share, or a group that has the culprit in it.
func (p *Place) culprits(x *job.Index) (out []rca.Culprit) {
	if len(p.Nodes) == 1 || p.All {
		for _, n := range p.Nodes {
			c := x.Culprit(n)
			if p.Host != "" {
				c.Group, c.Host = p.Host, p.Host
			}
			c.Class, c.Cause, c.Why = p.Class, p.Cause, p.Fits[0].last().Kind.String()
			out = append(out, c)
		}
		return out
	}
	if len(p.Nodes) == 0 {
		return nil
	}
	return []rca.Culprit{{
		Rank: -1, Channel: -1, Group: words.RankNumbers(x.IDs(p.Nodes)), Class: p.Class, Cause: p.Cause, Why: p.Fits[0].last().Kind.String(),
	}}
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// sentences say what the model found, one fault a sentence.
func (a *Answer) sentences() (out []string) {
	x := a.world.Index
	switch {
	case len(a.Places) > 0:
	case a.Class == rca.Healthy:
		return []string{"No operation stands still."}
	default:
		return []string{"Not enough evidence: no single fault explains what the ranks show."}
	}
	for i := range a.Places {
		p := &a.Places[i]
		story := describe(a.world.Job, p.Fits[0].last())
		switch {
		case p.Class == rca.Benign, p.Fits[0].last().Kind == Liar:
			out = append(out, sentence(story))
		case len(p.Nodes) > 1 && !p.All:
			out = append(out, fmt.Sprintf("One of %s is to blame; the best explanation is that %s.", words.RankNumbers(x.IDs(p.Nodes)), story))
		case len(p.Nodes) > 0:
			out = append(out, sentence(story))
		case len(p.Ask) > 0:
			out = append(out, fmt.Sprintf("Not enough evidence: the records of %s would decide it; the best explanation is that %s.", words.RankNumbers(x.IDs(p.Ask)), story))
		case p.Hearsay:
			out = append(out, sentence(story+", but only its own host shows it"))
		default:
			out = append(out, fmt.Sprintf("Not enough evidence: %d explanations are equally good.", len(p.Fits)))
		}
	}
	if a.Left > leftOpen {
		out = append(out, "Nobody is named: this leaves too many observations unexplained.")
	}
	return out
}
