// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/pulse"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// How far each verdict is believed. Bytes show neither calls nor kernels nor who waits for whom, so none is much, and none
// pages.
const (
	notBegunWeight = 0.5
	linkWeight     = 0.4
	lateWeight     = 0.5
	longWeight     = 0.45
	healthyWeight  = 0.5
)

// Analyze says who holds the others up, of all recordings of one job. The evidence has the ranks and the operations that the flows were cut
// into, for the reports; notes say how they were cut.
func Analyze(recs []*Recording) (v rca.Verdict, ev rca.Evidence, notes []string) {
	t := newTable(recs)
	matches := make([]matched, len(t.streams))
	var standing, slow []finding
	unclear, silent, coarse, tooFew := 0, false, false, 0
	for i, s := range t.streams {
		m := s.match()
		matches[i] = m
		notes = append(notes, t.notes(s, &m)...)
		coarse = coarse || t.coarse(s, &m)
		if f, ok := t.stand(s, &m); ok {
			standing = append(standing, f)
			continue
		}
		if f := t.slow(s, &m); f.text != "" {
			slow = append(slow, f)
		}
		switch {
		case !m.ok || s.shape.next == nil && !s.shape.mesh:
			unclear++
		case len(m.finished()) < votesMin:
			tooFew++
		}
		silent = silent || m.ok && t.goneQuiet(&m)
	}
	ev = t.evidence(matches)
	v = rca.Verdict{Version: rca.VerdictVersion, Class: rca.Unknown, Cause: rca.CauseUnknown, Culprits: []rca.Culprit{}, WorldSize: ev.WorldSize}
	found := standing
	if len(found) == 0 {
		found = slow
	}
	switch {
	case len(found) > 0:
		name(&v, found)
	case unclear > 0:
		v.Summary, v.Action = words.FlowsUnmatched, words.FlowsLabel
	case tooFew > 0:
		v.Summary, v.Action = words.FlowsTooFew, words.FlowsLonger
	case silent:
		v.Summary, v.Action = words.FlowsSilent, words.FlowsStacksOfAll
	case coarse:
		v.Summary, v.Action = words.FlowsCoarse, words.FlowsFiner
	default:
		v.Class, v.Confidence, v.Weight = rca.Healthy, healthyWeight, healthyWeight
		v.Summary = words.FlowsHealthy
	}
	v.Code = v.Class.Code()
	v.RanksVisited = len(ev.Ranks)
	return v, ev, notes
}

func accused(v *rca.Verdict) []int {
	out := []int{}
	for _, c := range v.Culprits {
		if c.Rank >= 0 {
			out = append(out, c.Rank)
		}
	}
	return out
}

// name gives the verdict of what was found. Who is named must be the same in all streams: a group that shows somebody else, or
// several, may be where the others' trouble comes from.
func name(v *rca.Verdict, found []finding) {
	for i := range found {
		v.Evidence = append(v.Evidence, found[i].text)
		v.Evidence = append(v.Evidence, found[i].facts...)
	}
	f := found[0]
	agree := !slices.ContainsFunc(found, func(g finding) bool { return !g.accuses() || g.rank != f.rank || g.to != f.to })
	switch {
	case !agree && len(found) > 1:
		v.Summary, v.Action = fmt.Sprintf(words.FlowsDisagree, len(found)), words.FlowsStacksOfAll
		return
	case !f.accuses():
		v.Summary, v.Action = f.text, words.FlowsStacksOfAll
		return
	}
	v.Summary = f.text
	v.Class = f.class()
	v.Comm = f.s.name()
	v.Weight = map[pulse.Kind]float64{
		pulse.StopCompute: notBegunWeight, pulse.SlowCompute: lateWeight, pulse.SlowNetwork: longWeight,
	}[f.kind]
	c := rca.Culprit{Rank: f.rank, Channel: -1, Why: f.why}
	if f.to >= 0 {
		c.Rank, c.Group = -1, "link "+strconv.Itoa(f.rank)+"->"+strconv.Itoa(f.to)
		v.Weight = linkWeight
		v.RestsOn = []int{f.rank, f.to}
	}
	v.Confidence = v.Weight
	v.Culprits = []rca.Culprit{c}
	v.Action = words.FlowsConfirm
}

// coarse says that the recording cannot show the gaps that a slow link makes on the others: its interval is too long, or its
// counters move in steps so large that even the busiest rank seems idle for most of an operation.
func (t *table) coarse(s *stream, m *matched) bool {
	var busiest []float64
	for _, at := range m.finished() {
		most := 0.0
		for _, o := range at {
			most = max(most, float64(o.Active)/float64(o.End-o.Start))
		}
		busiest = append(busiest, most)
	}
	slices.Sort(busiest)
	return t.length > s.granularity() || len(busiest) > 0 && busiest[len(busiest)/2] < busyShare
}

// goneQuiet says that the stream's traffic ends well before the recording does.
func (t *table) goneQuiet(m *matched) bool {
	end := time.Duration(0)
	for _, o := range m.ops[len(m.ops)-1] {
		end = max(end, o.End)
	}
	return t.end-end >= max(stillAfter, stillShare*longest(m))
}

// name is how the stream is called to people.
func (s *stream) name() string {
	who := pick(s.Group != "", s.Group, "of "+words.RankNumbers(s.ranks))
	if s.Operation != "" {
		return s.Operation + " on " + who
	}
	return pick(s.Group != "", "operations on "+who, "operations "+who)
}

// notes say how a stream was cut.
func (t *table) notes(s *stream, m *matched) []string {
	var out []string
	how := pick(s.stated, words.FlowsStated, words.FlowsLearned)
	if s.expected > 0 {
		out = append(out, fmt.Sprintf(words.FlowsCut, s.name(), len(m.ops), words.Count(int(s.expected)), how, s.delta.Round(10*time.Microsecond).String()))
	} else {
		out = append(out, fmt.Sprintf(words.FlowsNoVolume, s.name()))
	}
	if s.unfit {
		out = append(out, fmt.Sprintf(words.FlowsUnfit, s.name()))
	}
	if t.length > s.granularity() {
		speed := pick(t.gbps > 0, words.FlowsStatedSpeed, words.FlowsFastest)
		out = append(out, fmt.Sprintf(words.FlowsCoarseNote, t.length.Round(time.Microsecond).String(), s.granularity().Round(time.Microsecond).String(), s.name(), s.speed/1e9, speed))
	}
	if len(s.missing) > 0 {
		out = append(out, fmt.Sprintf(words.FlowsUnrecorded, words.Opener(words.RankNumbers(s.missing)), s.name()))
	}
	return out
}

// evidence gives the ranks and the operations as a timeline.
func (t *table) evidence(matches []matched) rca.Evidence {
	var ev rca.Evidence
	seen, missing := map[int]bool{}, map[int]bool{}
	for i, s := range t.streams {
		id := rca.CommID(fmt.Sprintf("%s/%s/%d/%d", s.Group, s.Operation, s.Size, s.ranks[0]))
		ev.Comms = append(ev.Comms, rca.Comm{ID: id, Name: s.name(), Size: len(s.ranks) + len(s.missing), Members: s.ranks})
		for _, r := range s.ranks {
			seen[r] = true
			ev.WorldSize = max(ev.WorldSize, r+1)
		}
		for _, r := range s.missing {
			missing[r] = true
			ev.WorldSize = max(ev.WorldSize, r+1)
		}
		fn := pick(canonical(s.Operation) != "", canonical(s.Operation), pick(s.Operation != "", s.Operation, "collective"))
		for k, at := range matches[i].ops {
			for _, r := range s.ranks {
				if o, ok := at[r]; ok {
					ev.Timeline = append(ev.Timeline, rca.Segment{
						Rank: r, Kind: rca.SegmentOp, Iteration: -1, Comm: id, Number: int64(k), Seq: int64(k), Func: fn, Peer: -1, Bytes: o.Volume,
						Start: int64(o.Start), End: int64(o.End), Active: o.Active, Stage: -1, DataRank: -1, Layer: -1, Microbatch: -1, SlowestChannel: -1, SlowestPeer: -1,
					})
				}
			}
		}
	}
	for r := range ev.WorldSize {
		switch {
		case seen[r]:
			ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Caps: rca.SeesCompletion, ReadBytesPerSec: -1, WriteBytesPerSec: -1, CPUCores: -1, ProxyRunDelay: -1})
		case missing[r]:
			ev.Missing = append(ev.Missing, rca.Missing{What: "rank", Name: strconv.Itoa(r), Ranks: []int{r}, Why: "no line of its flows"})
		}
	}
	return ev
}
