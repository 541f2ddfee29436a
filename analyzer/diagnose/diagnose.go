// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package diagnose runs one analysis: it gathers evidence, asks the engine, gathers what the engine still needs, and looks a
// second time before a hang pages.
package diagnose

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/detail"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/page"
	"github.com/culprit-project/culprit/analyzer/search"
	"github.com/culprit-project/culprit/analyzer/stacks"
)

// Stacks gives call stacks by rank, innermost frame last (M11). With an error, the returned stacks are still valid.
type Stacks interface {
	Dump(ctx context.Context, processes []stacks.Process) (map[int][]string, error)
}

// Diagnoser runs analyses. Several may run at once.
type Diagnoser struct {
	Gatherer *evidence.Gatherer
	Config   config.Analysis
	Stacks   Stacks // Nil: no stacks are taken.
	Look     bool   // Exporters are asked for close looks.
	Logger   *slog.Logger
	Clock    clock.Clock
	// Engine makes the verdict from evidence; nil: engine.Analyze.
	Engine func(rca.Evidence, rca.Options) rca.Verdict
}

// Diagnose implements incident.Analyze.
func (d *Diagnoser) Diagnose(ctx context.Context, req incident.Request) (incident.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.Config.Deadline))
	defer cancel()
	s, err := d.Gatherer.Open(ctx, req.Job, hints(req.Triggers))
	if err != nil {
		return incident.Outcome{}, err
	}
	defer s.Close()
	lookedBack := false
	ev, v := d.search(ctx, s, req)
	if d.accusesOfHang(&v) && d.Config.ConfirmAfter > 0 {
		ev, v = d.confirm(ctx, s, v)
	}
	if span := settledPast(d.history(&req, d.Clock.Now()), s.Age()); span > 0 && !req.PresentOnly && d.wantsPast(&req, &v) {
		lookedBack = true
		ev, v = d.lookBack(ctx, s, &req, span)
	}
	v = d.lookClosely(ctx, s, &ev, v)
	if d.Stacks != nil && v.Class != rca.Healthy {
		v = d.withStacks(ctx, s, &ev, v)
	}
	evidence.Tell(&v, ev.Facts)
	c := d.settle(ctx, s, &req, &ev, &v)
	counts := s.Counts()
	out := incident.Outcome{
		Verdict: v, Ranks: view(&ev, &v, s, d.hangAfter()), Complete: complete(&ev), Costly: lookedBack,
		Ended: ended(&ev), Began: began(&ev, d.Clock.Now()), FirstEnd: firstEnd(&ev, d.Clock.Now()), Comms: comms(&ev),
		Layout: detail.Layout(&ev), Flow: detail.StandingFlow(&ev, &v, s), Rounds: detail.Rounds(&ev, &v),
		Stacks: groups(&ev), Nodes: counts.Nodes, Asked: counts.Asked, Answered: counts.Answered, Bytes: counts.Bytes,
		Rests: kept.New(d.Clock.Now(), d.Config.Options(), ev, c, v),
	}
	return out, nil
}

func (d *Diagnoser) analyze(ev rca.Evidence) rca.Verdict {
	if d.Engine == nil {
		return engine.Analyze(ev, d.Config.Options())
	}
	return d.Engine(ev, d.Config.Options())
}

func hints(triggers []incident.Trigger) []evidence.Hint {
	var out []evidence.Hint
	for _, t := range triggers {
		out = append(out, evidence.Hint{Rank: t.Rank, Comm: t.Comm, Instance: t.Instance})
	}
	return out
}

// search asks all exporters of a small job. Of a large one it asks only about the ranks that the search visits.
func (d *Diagnoser) search(ctx context.Context, s *evidence.Session, req incident.Request) (rca.Evidence, rca.Verdict) {
	var plan search.Plan
	all := s.AllNodes()
	small := len(all) <= d.Config.AllNodesUpTo
	if small {
		s.Ask(ctx, all)
	} else {
		s.AskRanks(ctx, plan.First(s.Survey(ctx, s.Hinted(ctx, hints(req.Triggers)))))
	}
	ev := s.Evidence()
	var v rca.Verdict
	for {
		if s.Learn(ctx, &ev) {
			ev = s.Evidence()
		}
		v = d.analyze(ev)
		if small || ctx.Err() != nil {
			break
		}
		next := plan.Next(&ev, &v, s.Has)
		if len(next) == 0 {
			break
		}
		s.AskRanks(ctx, next)
		ev = s.Evidence()
	}
	if v.Class != rca.Healthy && s.NodeFacts(ctx) {
		ev = s.Evidence()
		v = d.analyze(ev)
	}
	return ev, v
}

// shortHistory is the span below which finished work shows nothing about slowness.
const shortHistory = 5 * time.Second

// toldOfSlowness reports whether any trigger is not a hang trigger. A reported hang that is no longer seen may be slowness that
// shows in long waits. One that is seen and not understood is looked at again soon instead.
func (d *Diagnoser) toldOfSlowness(req *incident.Request) bool {
	other := func(t incident.Trigger) bool { return t.Kind != incident.Hang }
	return len(req.Triggers) == 0 || slices.ContainsFunc(req.Triggers, other)
}

// wantsPast reports whether finished work may explain what the present state does not.
func (d *Diagnoser) wantsPast(req *incident.Request, v *rca.Verdict) bool {
	return !explained(v) && (d.toldOfSlowness(req) || v.Class == rca.Healthy || v.Moving)
}

// history gives how far to look back for slowness; 0: not at all, because everything before is a benign pause.
func (d *Diagnoser) history(req *incident.Request, now time.Time) time.Duration {
	span := time.Duration(d.Config.History)
	if !req.CalmUntil.IsZero() {
		span = min(span, now.Sub(req.CalmUntil))
	}
	if span < shortHistory {
		return 0
	}
	return span
}

// warmUp is the beginning of a job, in which connecting, compiling and filling caches determine the iteration time. The rules
// also leave it out of their baselines.
const warmUp = 20 * time.Second

// settledPast cuts the warm-up of a job of this age (0 unknown) off a look back; 0 when too little is left.
func settledPast(span, age time.Duration) time.Duration {
	if age == 0 {
		return span
	}
	if span = min(span, age-warmUp); span < shortHistory {
		return 0
	}
	return span
}

// Bounds of a look back. Up to backAll exporters, finished work is fetched from all. In a larger job it is fetched from backNodes
// at first, so that each rank's history reaches further back. The look back widens backRounds times to ranks that the engine
// names, backNext exporters each time.
const (
	backAll    = 32
	backNodes  = 16
	backRounds = 3
	backNext   = 8
)

// toldSince gives how long ago the first trigger began to fire.
func toldSince(req *incident.Request, now time.Time) time.Duration {
	since := time.Duration(0)
	for i := range req.Triggers {
		if at := req.Triggers[i].StartedAt; !at.IsZero() {
			since = max(since, now.Sub(at))
		}
	}
	return since.Truncate(time.Second)
}

// lookBack adds finished work to the evidence. In a small job it comes from all exporters. In a large one it comes from those
// of the ranks that triggers name, from those that Prometheus shows closest to what is slow, from a sample to compare them with, and then from those that the engine asks
// for.
func (d *Diagnoser) lookBack(ctx context.Context, s *evidence.Session, req *incident.Request, span time.Duration) (rca.Evidence, rca.Verdict) {
	from := s.AllNodes()
	if len(from) > backAll {
		from = s.NodesOf(s.Hinted(ctx, hints(req.Triggers)))
		for _, n := range s.ScoutSlow(ctx, toldSince(req, d.Clock.Now())) {
			if !slices.Contains(from, n) {
				from = append(from, n)
			}
		}
		from = append(from[:min(len(from), backNodes)], s.Sample(backNodes-len(from), from)...)
	}
	s.Ask(ctx, s.Unasked(from))
	span = s.Span(ctx, from, span)
	s.AskHistory(ctx, s.Answered(from), span)
	s.NodeFacts(ctx)
	s.LearnUsualDelays(ctx, toldSince(req, d.Clock.Now()))
	s.LearnSlowdown(ctx)
	ev := s.Evidence()
	v := d.analyze(ev)
	for range backRounds {
		if accusesOfSlowness(&v) && ev.Partial && s.LearnPeers(ctx, &ev, suspects(&v)) {
			ev = s.Evidence()
			v = d.analyze(ev)
		}
		next := s.WithoutHistory(s.NodesOf(v.Ask))
		if len(next) == 0 || ctx.Err() != nil {
			break
		}
		next = next[:min(len(next), backNext)]
		s.Ask(ctx, s.Unasked(next))
		s.AskHistory(ctx, s.Answered(next), span)
		ev = s.Evidence()
		v = d.analyze(ev)
	}
	return ev, v
}

// accusesOfSlowness reports whether who else is in the communicators of the accused may change the verdict: those who do the same work tell a
// slow machine from work that is more, and those at the other end of a flow tell which end is slow.
func accusesOfSlowness(v *rca.Verdict) bool {
	return v.Class == rca.SlowCompute || v.Class == rca.SlowComm || v.Class == rca.SlowMixed
}

func (d *Diagnoser) accusesOfHang(v *rca.Verdict) bool { return v.Page && v.Class.StandsStill() }

// explained reports whether a verdict from the present state alone needs no history: the job stands still, for a good or a bad
// reason.
func explained(v *rca.Verdict) bool { return v.Class.StandsStill() || v.Class == rca.Benign }

// confirmRounds bounds how often a changed accusation is checked again.
const confirmRounds = 3

// confirm looks again at the accused ranks and those in the chain: what has moved meanwhile does not hang. The states of
// different exporters are taken at slightly different moments, so a running job can look as if it stood still. In a small job all
// exporters are asked again. In a large one an accusation of other ranks may rest on new states of some exporters and old ones of
// others, so it is checked in its turn. While it still changes it does not page.
func (d *Diagnoser) confirm(ctx context.Context, s *evidence.Session, v rca.Verdict) (rca.Evidence, rca.Verdict) {
	d.Clock.Sleep(ctx, time.Duration(d.Config.ConfirmAfter))
	var again []int
	ev := s.Evidence()
	if all := s.AllNodes(); len(all) <= d.Config.AllNodesUpTo && ctx.Err() == nil {
		s.Ask(ctx, s.Answered(all))
		ev = s.Evidence()
		return ev, d.analyze(ev)
	}
	for range confirmRounds {
		before := len(s.NodesOf(again))
		for _, r := range suspects(&v) {
			if !slices.Contains(again, r) {
				again = append(again, r)
			}
		}
		if len(s.NodesOf(again)) == before || ctx.Err() != nil {
			return ev, v
		}
		s.AskAgain(ctx, again)
		ev = s.Evidence()
		if v = d.analyze(ev); !d.accusesOfHang(&v) {
			return ev, v
		}
	}
	if slices.ContainsFunc(s.NodesOf(suspects(&v)), func(n *evidence.Node) bool { return !slices.Contains(s.NodesOf(again), n) }) {
		page.Decide(&v, page.Stage{Unconfirmed: true})
	}
	return ev, v
}

// maxSuspects bounds how many ranks are looked at again.
const maxSuspects = 64

// suspects gives the accused ranks, those of the chain, and those on whose state the accusation rests.
func suspects(v *rca.Verdict) []int {
	var out []int
	add := func(r int) {
		if r >= 0 && len(out) < maxSuspects && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for _, c := range v.Culprits {
		add(c.Rank)
	}
	for _, l := range v.Chain {
		add(l.From)
		add(l.To)
	}
	for _, r := range v.RestsOn {
		add(r)
	}
	return out
}

// withStacks adds the suspects' stacks to the evidence.
func (d *Diagnoser) withStacks(ctx context.Context, s *evidence.Session, ev *rca.Evidence, v rca.Verdict) rca.Verdict {
	var processes []stacks.Process
	for _, rank := range suspects(&v) {
		if p, ok := s.Process(rank); ok {
			processes = append(processes, stacks.Process{Rank: rank, Labels: p.Labels})
		}
	}
	found, err := d.Stacks.Dump(ctx, processes)
	if err != nil {
		d.Logger.Warn("stacks missing", "job_id", ev.JobID, "err", err)
	}
	if len(found) == 0 {
		return v
	}
	for i := range ev.Ranks {
		if stack := found[ev.Ranks[i].ID]; len(stack) > 0 {
			ev.Ranks[i].Stack = stack
		}
	}
	return d.analyze(*ev)
}

// groups puts the ranks whose stacks are known together by them.
func groups(ev *rca.Evidence) []incident.StackGroup {
	known := map[int][]string{}
	for i := range ev.Ranks {
		if r := &ev.Ranks[i]; len(r.Stack) > 0 {
			known[r.ID] = r.Stack
		}
	}
	return stacks.Group(known)
}

func (d *Diagnoser) hangAfter() time.Duration {
	if d.Config.HangAfter > 0 {
		return time.Duration(d.Config.HangAfter)
	}
	return 2 * time.Second
}
