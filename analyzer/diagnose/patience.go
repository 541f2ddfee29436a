// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/page"
)

// toldOfTrouble reports whether any trigger says that something is wrong.
func toldOfTrouble(req *incident.Request) bool {
	return slices.ContainsFunc(req.Triggers, func(t incident.Trigger) bool { return t.Kind != incident.Start })
}

// settle turns the engine's verdict into the one that is reported, and returns the context it used. A live rank gets at least the
// configured patience, and more in a job whose earlier waits were longer and ended by themselves.
func (d *Diagnoser) settle(ctx context.Context, s *evidence.Session, req *incident.Request, ev *rca.Evidence, v *rca.Verdict) kept.Context {
	c := kept.Context{Disputed: map[int]string{}, Places: map[int]kept.Place{}, Told: toldSince(req, d.Clock.Now()), Claims: evidence.Conflicts(ev)}
	if toldOfTrouble(req) {
		c.Conflict = s.Conflict()
	}
	for i := range v.Culprits {
		rank := v.Culprits[i].Rank
		if why := s.Disputed(rank); rank >= 0 && why != "" {
			c.Disputed[rank] = why
		}
		if p, ok := s.Process(rank); ok && v.Culprits[i].Host == "" {
			c.Places[rank] = kept.Place{Host: p.Host, GPU: p.GPU, Pod: p.Pod, PID: p.PID}
		}
	}
	c.Name(v)
	if page.MayPass(v) || page.MayPassInPart(v) {
		longest := s.LongestWait(ctx)
		if v.Standstill > 0 {
			longest = max(longest, s.LongestPause(ctx))
		}
		p := d.Config.Patience
		c.Patient, c.Patience = true, min(max(time.Duration(p.AtLeast), time.Duration(p.Factor*float64(longest))), time.Duration(p.AtMost))
		page.Decide(v, page.Stage{Patience: &page.Patience{For: c.Patience, Told: c.Told}})
	}
	return c
}
