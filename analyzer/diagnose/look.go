// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/looks"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/page"
)

const (
	// lookApart is the time between two close looks at a process.
	lookApart = 3 * time.Second
	// innocents is how many ranks beside the suspects are looked at, to compare with.
	innocents = 3
)

// lookClosely has exporters look at what the suspects do, where a rank lives and stays away: all other verdicts rest on what is seen already,
// and do not wait for it. A rank of which a second look can tell more is looked at again.
func (d *Diagnoser) lookClosely(ctx context.Context, s *evidence.Session, ev *rca.Evidence, v rca.Verdict) rca.Verdict {
	if !d.Look || !page.MayPass(&v) && !page.MayPassInPart(&v) {
		return v
	}
	first := looks.Set(s.Look(ctx, compared(ev, &v)))
	if len(first) == 0 {
		return v
	}
	looks.Apply(ev, first, nil)
	v = d.analyze(*ev)
	again := undecided(ev, &v)
	if len(again) == 0 {
		return v
	}
	d.Clock.Sleep(ctx, lookApart)
	if all := s.AllNodes(); len(all) <= d.Config.AllNodesUpTo {
		s.Ask(ctx, s.Answered(all))
	} else {
		s.AskAgain(ctx, suspects(&v))
	}
	second := s.Look(ctx, again)
	*ev = s.Evidence()
	looks.Apply(ev, looks.Merge(first, second), first)
	d.asBefore(ctx, s, ev, &v)
	was := accused(&v)
	v = d.analyze(*ev)
	if slices.ContainsFunc(accused(&v), func(rank int) bool { return !slices.Contains(was, rank) }) {
		page.Decide(&v, page.Stage{Unconfirmed: true})
	}
	return v
}

// compared gives the ranks to look at: the suspects, and a few others.
func compared(ev *rca.Evidence, v *rca.Verdict) []int {
	out := suspects(v)
	most := len(out) + innocents
	for i := range ev.Ranks {
		if r := &ev.Ranks[i]; len(out) < most && r.State != rca.ProcessGone && r.State != rca.ProcessExited && !slices.Contains(out, r.ID) {
			out = append(out, r.ID)
		}
	}
	return out
}

// accused gives the ranks that a verdict names.
func accused(v *rca.Verdict) []int {
	var out []int
	for i := range v.Culprits {
		if rank := v.Culprits[i].Rank; rank >= 0 {
			out = append(out, rank)
		}
	}
	return out
}

// undecided gives the accused ranks of which a second look can tell more.
func undecided(ev *rca.Evidence, v *rca.Verdict) []int {
	var out []int
	who := accused(v)
	for i := range ev.Ranks {
		if r := &ev.Ranks[i]; slices.Contains(who, r.ID) && looks.Undecided(r) {
			out = append(out, r.ID)
		}
	}
	return out
}

// asBefore takes back that ranks stay in storage where earlier waits of the job that ended by themselves were as long: its storage may take so
// long as a rule.
func (d *Diagnoser) asBefore(ctx context.Context, s *evidence.Session, ev *rca.Evidence, v *rca.Verdict) {
	inStorage := func(r rca.Rank) bool { return r.Still && r.Storage != nil }
	if !slices.ContainsFunc(ev.Ranks, inStorage) {
		return
	}
	usual := d.Config.Patience.Factor * s.LongestWait(ctx).Seconds()
	for i := range ev.Ranks {
		if r := &ev.Ranks[i]; inStorage(*r) && usual > v.Waited {
			r.Still = false
		}
	}
}
