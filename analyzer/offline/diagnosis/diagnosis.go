// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package diagnosis asks the engine about what was loaded: everything together, each source alone, and beside a healthy
// recording.
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/methods"
	"github.com/culprit-project/culprit/analyzer/methods/holmes"
	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/offline/joblog"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Result is a diagnosis and what it rests on.
type Result struct {
	Verdict       rca.Verdict
	Evidence      rca.Evidence
	Options       rca.Options // Of the engine, for this evidence.
	Told          Options
	Sources       []SourceVerdict
	Files         []load.File
	Disagreements []string
	Comparison    []string
	Differences   []Difference // What the comparison rests on.
}

// SourceVerdict is what one source alone would say.
type SourceVerdict struct {
	load.Source
	Verdict rca.Verdict
}

// Options are what the engine is told beside the job's files, as the service is by its configuration.
type Options struct {
	WorldSize int // Ranks the job has, where the files do not say; 0 unknown.
	JobID     string
	Topology  *topology.Topology
	Operators *holmes.Model // A trained detector of abnormal operations, for Holmes' method; nil: the one without training.
	Base      time.Duration // CCL-D's configured baseline; 0 none.
}

// Diagnose asks the engine about everything together, and about each source alone.
func Diagnose(c *load.Collection, opt Options) *Result {
	r := &Result{Files: c.Files, Told: opt}
	frozen := false
	var joined, alone []rca.Evidence // Alone: with verdicts of their own.
	for _, s := range c.Sources(opt.WorldSize) {
		s.Evidence.JobID = cmp.Or(opt.JobID, s.Evidence.JobID)
		if opt.WorldSize > s.Evidence.WorldSize {
			for id := s.Evidence.WorldSize; id < opt.WorldSize; id++ {
				s.Evidence.Missing = append(s.Evidence.Missing, gather.Unseen(id, "no file shows it"))
			}
			s.Evidence.WorldSize = opt.WorldSize
		}
		s.Evidence.Sources = []string{fmt.Sprintf("%s (%d)", s.Name, s.Files)}
		r.Sources = append(r.Sources, SourceVerdict{s, opt.verdict(&s)})
		if s.Local && len(joined) > 0 {
			r.Sources[len(r.Sources)-1].Notes = append(slices.Clone(s.Notes), "its rank numbers are per communicator, so it was not joined with the other sources")
			continue
		}
		if s.Own != nil {
			alone = append(alone, s.Evidence)
			continue
		}
		frozen = frozen || s.Frozen
		joined = append(joined, s.Evidence)
	}
	if len(joined) == 0 {
		joined = alone
	}
	r.Evidence = merge(joined)
	r.Options = opt.engine(frozen)
	r.Verdict = engine.Analyze(r.Evidence, r.Options)
	if len(joined) == 1 && len(r.Sources) == 1 {
		r.Verdict = r.Sources[0].Verdict
	} else if v, ok := r.onlyWord(); ok {
		r.Verdict = v
	}
	r.oneStep()
	r.tell()
	r.Disagreements = disagreements(r)
	return r
}

// Votes is what each paper's method alone says. A paper has one source: of several it is the one that records most. Recordings of flows are
// Pulse's own evidence: what it says is the verdict.
func (r *Result) Votes() []record.Vote {
	best := -1
	for i := range r.Sources {
		s := &r.Sources[i]
		if s.Own == nil && (best < 0 || slices.Index(levels, s.Evidence.Level()) < slices.Index(levels, r.Sources[best].Evidence.Level())) {
			best = i
		}
	}
	switch {
	case best < 0 && len(r.Sources) > 0:
		return []record.Vote{{Method: "pulse", Class: r.Verdict.Class, Ranks: Accused(r.Verdict), Note: words.FlowsMethod}}
	case best < 0:
		return nil
	}
	s := &r.Sources[best]
	opt := r.Told.engine(s.Frozen)
	if s.Kept != nil {
		opt = s.Kept.Options
		opt.Topology = r.Told.Topology
	}
	return methods.Say(&s.Evidence, &methods.Options{Engine: opt, Operators: r.Told.Operators, Base: r.Told.Base})
}

// levels are those of evidence, that which records most first.
var levels = []rca.Level{rca.LevelKernels, rca.LevelSteps, rca.LevelLaunches, rca.LevelCalls, rca.LevelRecorder, rca.LevelUnknown}

// tell lets what messages say by themselves have its word: in the verdict, and in that of the source that has the messages.
func (r *Result) tell() {
	var all []told.Finding
	for i := range r.Sources {
		s := &r.Sources[i]
		s.Verdict = told.Apply(s.Verdict, s.Findings)
		all = append(all, s.Findings...)
	}
	r.Verdict = told.Apply(r.Verdict, all)
	evidence.Tell(&r.Verdict, r.Evidence.Facts)
	r.whoWaits()
	for i := range r.Sources {
		if s := &r.Sources[i]; s.Processes != nil && !s.Local {
			r.Verdict.Culprits = slices.Clone(r.Verdict.Culprits)
			s.Processes.Fill(r.Verdict.Culprits)
		}
	}
}

// whoWaits names the few ranks that wait, and those of which the files show nothing, where the verdict names nobody.
func (r *Result) whoWaits() {
	v := &r.Verdict
	var waiting, missing []int
	for i := range r.Evidence.Ranks {
		if slices.ContainsFunc(r.Evidence.Ranks[i].Memberships, func(m rca.Membership) bool { return len(m.InFlight) > 0 }) {
			waiting = append(waiting, r.Evidence.Ranks[i].ID)
		}
	}
	const few = 8
	if v.Class != rca.Unknown || len(waiting) != v.Stalled || len(waiting) == 0 || len(waiting) > few {
		return
	}
	for _, gone := range r.Evidence.Missing {
		if gone.Why == joblog.NoLine {
			missing = append(missing, gone.Ranks...)
		}
	}
	slices.Sort(waiting)
	who := fmt.Sprintf(" Ranks %s wait", told.Spans(waiting))
	if len(waiting) == 1 {
		who = fmt.Sprintf(" Rank %d waits", waiting[0])
	}
	if v.Op != "" {
		who += " in " + strings.TrimPrefix(v.Op, "operation ")
	}
	v.Summary += who + "."
	slices.Sort(missing)
	if missing = slices.Compact(missing); len(missing) > 0 && len(missing) <= few {
		v.Summary += " Nothing was seen of " + words.RankNumbers(missing) + "."
	}
}

// Host gives the host of a rank, seen or not; empty unknown.
func (r *Result) Host(rank int) string {
	for i := range r.Sources {
		if p := r.Sources[i].Processes; p != nil && p.Host(rank) != "" {
			return p.Host(rank)
		}
	}
	return ""
}

// onlyWord gives the verdict of the one source that names somebody, where all together name nobody and the others show nothing
// that stands still: evidence of nothing takes nothing away.
func (r *Result) onlyWord() (rca.Verdict, bool) {
	if r.Verdict.Class != rca.Unknown || len(r.Verdict.Culprits) > 0 {
		return rca.Verdict{}, false
	}
	word := -1
	for i := range r.Sources {
		s := &r.Sources[i]
		switch {
		case s.Local:
			return rca.Verdict{}, false
		case s.Verdict.Class != rca.Unknown && len(Accused(s.Verdict)) > 0:
			if word >= 0 {
				return rca.Verdict{}, false
			}
			word = i
		case s.Verdict.Class != rca.Unknown || len(s.Verdict.Culprits) > 0 || stands(&s.Evidence):
			return rca.Verdict{}, false
		}
	}
	if word < 0 {
		return rca.Verdict{}, false
	}
	return r.Sources[word].Verdict, true
}

// stands says that the evidence shows operations that have not ended, or processes that have.
func stands(ev *rca.Evidence) bool {
	return slices.ContainsFunc(ev.Ranks, func(r rca.Rank) bool {
		return r.State == rca.ProcessGone || slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool { return len(m.InFlight) > 0 })
	})
}

// verdict is what one source alone would say. What the service has kept says what it said then.
func (o *Options) verdict(s *load.Source) rca.Verdict {
	if s.Own != nil {
		v := *s.Own
		v.JobID = s.Evidence.JobID
		return v
	}
	if s.Kept == nil {
		return engine.Analyze(s.Evidence, o.engine(s.Frozen))
	}
	opt := s.Kept.Options
	opt.Topology = o.Topology
	v := engine.Analyze(s.Evidence, opt)
	s.Kept.Context.Apply(&v)
	return v
}

// Engine gives the engine's options: a frozen source says nothing of time, so whatever is pending counts as stuck. It was also
// written because somebody waited for too long, so that a slow first step is no excuse.
func (o *Options) engine(frozen bool) rca.Options {
	out := rca.Options{Topology: o.Topology}
	if frozen {
		out.HangAfter, out.FirstOps, out.Incident = 1, -2, true
	}
	return out
}

// merge joins sources by rank. A rank is missing only when no source shows it.
func merge(evs []rca.Evidence) rca.Evidence {
	if len(evs) == 1 {
		return evs[0]
	}
	j := gather.New(0)
	world, job, sources := 0, "", []string(nil)
	for _, ev := range evs {
		job, world, sources = cmp.Or(job, ev.JobID), max(world, ev.WorldSize), append(sources, ev.Sources...)
		for _, c := range ev.Comms {
			j.Adopt(c)
		}
		j.Facts, j.Timeline = append(j.Facts, ev.Facts...), append(j.Timeline, ev.Timeline...)
		for _, r := range ev.Ranks {
			if j.Shows(r.ID) {
				r = mergeRank(*j.Rank(r.ID), r)
			}
			*j.Rank(r.ID) = r
		}
	}
	out := j.Evidence()
	out.JobID, out.WorldSize, out.Sources = job, world, sources
	placeWaits(&out)
	seen := map[string]bool{}
	for _, ev := range evs {
		for _, m := range ev.Missing {
			m.Ranks = slices.DeleteFunc(slices.Clone(m.Ranks), func(id int) bool { return j.Shows(id) && shown(j.Rank(id)) })
			key := m.What + m.Name
			if (m.What == "rank" && len(m.Ranks) == 0) || seen[key] {
				continue
			}
			seen[key] = true
			out.Missing = append(out.Missing, m)
		}
	}
	return out
}

// placeWaits gives what a log says that ranks waited in, without naming a group, its place in what other sources tell of the
// same waiting. One wait counted as two would look like a deadlock.
func placeWaits(ev *rca.Evidence) {
	type place struct {
		comm rca.CommID
		op   rca.Op
	}
	var places []place
	for i := range ev.Ranks {
		for _, m := range ev.Ranks[i].Memberships {
			if m.Comm == joblog.Waits || len(m.InFlight) == 0 {
				continue
			}
			if op := m.InFlight[0]; !slices.ContainsFunc(places, func(p place) bool { return p.comm == m.Comm && p.op.Number == op.Number }) {
				places = append(places, place{m.Comm, op})
			}
		}
	}
	if len(places) == 0 {
		return
	}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		at := slices.IndexFunc(r.Memberships, func(m rca.Membership) bool { return m.Comm == joblog.Waits })
		if at < 0 {
			continue
		}
		if len(r.Memberships) > 1 {
			r.Memberships = slices.Delete(slices.Clone(r.Memberships), at, at+1)
			continue
		}
		fn := flightrecorder.Canonical(r.Memberships[0].InFlight[0].Func)
		fits := slices.DeleteFunc(slices.Clone(places), func(p place) bool { return p.op.Func != fn })
		if len(fits) == 1 {
			m := r.Memberships[0]
			op := fits[0].op
			op.Stack, op.Flows = m.InFlight[0].Stack, nil
			m.Comm, m.CommRank, m.Called, m.Completed, m.InFlight = fits[0].comm, -1, op.Number+1, op.Number, []rca.Op{op}
			r.Memberships = []rca.Membership{m}
		}
	}
}

// shown says whether any source had something of the rank's own.
func shown(r *rca.Rank) bool {
	return len(r.Memberships) > 0 || r.State != rca.ProcessUnknown
}

func mergeRank(a, b rca.Rank) rca.Rank {
	a.Host, a.GPU, a.NIC, a.Pod = cmp.Or(a.Host, b.Host), cmp.Or(a.GPU, b.GPU), cmp.Or(a.NIC, b.NIC), cmp.Or(a.Pod, b.Pod)
	a.PID = cmp.Or(a.PID, b.PID)
	a.State = cmp.Or(a.State, b.State)
	a.Caps |= b.Caps
	a.Lost = max(a.Lost, b.Lost)
	a.ReadBytesPerSec = max(a.ReadBytesPerSec, b.ReadBytesPerSec)
	a.WriteBytesPerSec = max(a.WriteBytesPerSec, b.WriteBytesPerSec)
	a.CPUCores = max(a.CPUCores, b.CPUCores)
	a.ProxyRunDelay = max(a.ProxyRunDelay, b.ProxyRunDelay)
	a.GroupOpen = max(a.GroupOpen, b.GroupOpen)
	if len(a.Stack) == 0 {
		a.Stack = b.Stack
	}
	if len(a.Calls) == 0 {
		a.Calls = b.Calls
	}
	a.Memberships = slices.Clone(a.Memberships)
	for _, m := range b.Memberships {
		// Of two sources that tell of the same group the first, which is the richer one, counts.
		if !slices.ContainsFunc(a.Memberships, func(known rca.Membership) bool { return known.Comm == m.Comm }) {
			a.Memberships = append(a.Memberships, m)
		}
	}
	return a
}

// disagreements says which sources alone would accuse others than the joint verdict does.
func disagreements(r *Result) []string {
	if len(r.Sources) < 2 {
		return nil
	}
	var out []string
	for _, s := range r.Sources {
		if s.Verdict.Class == rca.Unknown || s.Local {
			continue
		}
		if a, b := Accused(s.Verdict), Accused(r.Verdict); s.Verdict.Class != r.Verdict.Class || !slices.Equal(a, b) {
			out = append(out, fmt.Sprintf("%s alone: %s", s.Name, s.Verdict.Summary))
		}
	}
	return out
}

// Accused are the ranks that a verdict names, in order.
func Accused(v rca.Verdict) []int {
	var out []int
	for _, c := range v.Culprits {
		if c.Rank >= 0 {
			out = append(out, c.Rank)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
