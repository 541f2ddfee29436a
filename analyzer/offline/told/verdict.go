// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package told

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Apply gives the verdict whose headline is the strongest thing that was seen: what the engine concludes from comparing ranks, or
// what a message says by itself. The weaker becomes evidence.
func Apply(v rca.Verdict, all []Finding) rca.Verdict {
	groups := grouped(all)
	if len(groups) == 0 {
		return v
	}
	best := &groups[0]
	m := best.meaning
	agrees := best.about(v.Culprits)
	if m.strength <= strengthOf(&v, m, agrees) {
		v.Evidence = append(slices.Clone(v.Evidence), texts(groups)...)
		if agrees && m.names && m.strength >= ofStandstill {
			v.Action = m.action
		}
		if i := quoted(groups); i >= 0 && v.Cause == rca.CauseProcessGone && strings.Contains(v.Summary, "(exit code ") {
			v.Summary += alsoNames + sentence(groups[i].all) // An exit code does not say why.
		}
		return v
	}
	out := v
	out.Class, out.Code, out.Cause = rca.Fault, rca.Fault.Code(), cmp.Or(m.cause, rca.CauseUnknown)
	if m.unknown {
		out.Class, out.Code = rca.Unknown, ""
	}
	out.Confidence, out.Weight, out.Page, out.PageIn, out.Row = m.strength, m.strength, false, 0, rowPrefix+string(m.kind)
	out.Culprits = best.culprits(v.WorldSize)
	if v.Class != rca.Unknown && !agrees || v.Class == rca.Healthy {
		out.Chain, out.Waits = nil, nil
	}
	out.Summary, out.Action = best.headline(), m.action
	if i := quoted(groups); m.why && i > 0 && (best.all[0].Order == 0 || groups[i].all[0].Order < best.all[0].Order) {
		out.Summary += alsoNames + sentence(groups[i].all)
	}
	out.Evidence = append(texts(groups), v.Evidence...)
	if v.Class != rca.Unknown && v.Class != rca.Healthy {
		out.Evidence = append(out.Evidence, v.Summary)
	}
	out.Ask = nil
	return out
}

const alsoNames = " The log names a failure as well: "

// quoted gives which group is a line that no row knows; -1 none.
func quoted(groups []findings) int {
	return slices.IndexFunc(groups, func(g findings) bool { return g.all[0].Quoted })
}

// rowPrefix begins the row of a verdict that a message decided.
const rowPrefix = "told_"

// Says reports whether a message decided a verdict: it says what is wrong, so that nobody need be compared.
func Says(v *rca.Verdict) bool {
	return strings.HasPrefix(v.Row, rowPrefix) && v.Class != rca.Unknown
}

// Best reports whether a message is the best that was seen, though it decides nothing.
func Best(v *rca.Verdict) bool { return strings.HasPrefix(v.Row, rowPrefix) }

// strengthOf is how strong the engine's conclusion is.
func strengthOf(v *rca.Verdict, m *meaning, agrees bool) float64 {
	switch {
	case v.Class == rca.Healthy || v.Class == rca.Benign:
		return ofHealth
	case v.Class == rca.Inconsistent:
		return ofMismatch
	case v.Class == rca.Unknown && v.Action == words.WhatEndedThem:
		return ofTogether
	case v.Class == rca.Unknown && v.Stalled == 0:
		return ofNothing
	case v.Class == rca.Unknown:
		return ofWaiting
	case v.Cause == rca.CauseProcessGone || v.Cause == rca.CauseException:
		return ofEnd
	case agrees && m.strength >= ofStandstill:
		return ofNothing // The message says why.
	default:
		return ofStandstill
	}
}

// set of findings of one kind that say the same.
type findings struct {
	*meaning
	all []Finding
}

// grouped gives findings by kind and words, the strongest first; of equals the first in its log.
func grouped(all []Finding) []findings {
	var out []findings
	for _, f := range all {
		m := meaningOf(f.Kind)
		if m == nil {
			continue
		}
		i := slices.IndexFunc(out, func(g findings) bool { return g.kind == f.Kind && like(&g.all[0], &f) })
		if i < 0 {
			out = append(out, findings{meaning: m})
			i = len(out) - 1
		}
		out[i].all = append(out[i].all, f)
	}
	slices.SortStableFunc(out, func(a, b findings) int {
		return cmp.Or(cmp.Compare(b.strength, a.strength), cmp.Compare(b.known(), a.known()), cmp.Compare(b.failed(), a.failed()), cmp.Compare(a.all[0].Order, b.all[0].Order))
	})
	return out
}

// like says that two findings can be told in one sentence.
func like(a, b *Finding) bool {
	said := a.Says == b.Says || a.Plural != "" && a.Plural == b.Plural || a.Kind == grammar.StoreGone || a.Kind == grammar.Returned
	return said && a.Whole == b.Whole && (a.subject() == "") == (b.subject() == "")
}

// known is 1 where a subject is known.
func (g *findings) known() int {
	if g.all[0].Whole || g.all[0].subject() != "" {
		return 1
	}
	return 0
}

// failed is 1 for a warning that something failed: others are advice.
func (g *findings) failed() int {
	if g.kind == grammar.Warning && g.all[0].Fails() {
		return 1
	}
	return 0
}

// about reports whether the findings are about those that the engine names, or some of them.
func (g *findings) about(culprits []rca.Culprit) bool {
	some := false
	for i := range g.all {
		f := &g.all[i]
		if f.Rank < 0 {
			return false
		}
		if !slices.ContainsFunc(culprits, func(c rca.Culprit) bool { return c.Rank == f.Rank }) {
			return false
		}
		some = true
	}
	return some
}

// headline says it in sentences.
func (g *findings) headline() string {
	s := sentence(g.all)
	if g.then != "" {
		s += " " + g.then
	}
	return s
}

// culprits names whom the message blames; suspects are no culprits but stand in their place.
func (g *findings) culprits(world int) []rca.Culprit {
	var out []rca.Culprit
	for i := range g.all {
		f := &g.all[i]
		if !g.names && !g.suspects || f.Whole || f.subject() == "" || len(out) == rca.MaxCulprits {
			continue
		}
		c := rca.Culprit{Rank: f.Rank, Host: f.Host, GPU: f.GPU, PID: f.PID, Channel: -1, Why: f.Says}
		switch {
		case f.Worker != "":
			c.Group = "worker " + f.Worker
		case f.Rank < 0 && f.Local >= 0:
			c.Group = fmt.Sprintf("local rank %d", f.Local)
		case f.Rank < 0 && f.PID == 0 && f.Host == "":
			continue
		}
		if g.suspects && !g.names {
			c = rca.Culprit{Rank: -1, Channel: -1, Group: "suspects: " + f.subject(), Why: f.Says}
		}
		out = append(out, c)
	}
	if world > 1 && len(out) == world && g.cause == rca.CauseException {
		return nil // The program, and no single rank.
	}
	return out
}

// texts gives all findings as evidence.
func texts(groups []findings) []string {
	var out []string
	for i := range groups {
		if s := sentence(groups[i].all); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// sentence tells findings that say the same.
func sentence(fs []Finding) string {
	says, name := "", who(fs)
	several := slices.ContainsFunc(fs, func(f Finding) bool { return f.subject() != fs[0].subject() })
	for i := range fs {
		s := fs[i].Says
		if several {
			s = cmp.Or(fs[i].Plural, s)
		}
		if len(s) > len(says) { // The one that knows most.
			says = strings.TrimRight(s, ".: ")
		}
	}
	if fs[0].Whole {
		return words.Opener(says) + "."
	}
	own := name == ""
	if own {
		name = "a process"
	}
	verb := says
	first, rest, _ := strings.Cut(says, " ")
	if plural := map[string]string{"was": "were", "is": "are", "its": "their"}[first]; plural != "" && several {
		verb = plural + " " + rest
	}
	join := " "
	switch first {
	case "its", "GPU", "NVSwitch", "PCIe", "NCCL", "the", "file", "NVSHMEM", "HCCL", "CANN", "oneCCL", "UCC", "MSCCL++":
		join = ": "
	}
	s := words.Opener(name) + join + verb
	if own {
		if join == ": " && first != "its" {
			s = words.Opener(says) // A device or a library, and not a process, is what it is about.
		}
		s += "; the log does not say which rank that is"
	}
	return s + "."
}
