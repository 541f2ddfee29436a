// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine is the root-cause analysis as a whole: evidence in, calibrated verdict out.
package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/hang"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/page"
	"github.com/culprit-project/culprit/analyzer/rca/slow"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Analyze finds the culprit in the evidence. It is pure and deterministic: the same evidence and options give the same
// verdict, byte for byte, whatever the order of ranks and communicators in the evidence.
func Analyze(ev rca.Evidence, opt rca.Options) rca.Verdict {
	opt = opt.WithDefaults()
	v, level := analyze(ev, opt), ev.Level()
	if v.Action == rca.ActionFor(rca.Unknown, rca.CauseUnknown) && len(v.Missing) == 0 {
		v.Action = "" // Nothing is missing that could be looked at.
	}
	v.RuledOut = othersOnly(&v)
	page.Decide(&v, page.Stage{Options: &opt, Level: level})
	rca.Calibrate(&v, level)
	return v
}

// othersOnly removes accused ranks from the candidates that were ruled out: the search can reach a culprit in a second way.
func othersOnly(v *rca.Verdict) []rca.Candidate {
	return slices.DeleteFunc(v.RuledOut, func(c rca.Candidate) bool {
		accused := slices.ContainsFunc(v.Culprits, func(k rca.Culprit) bool {
			return c.Rank >= 0 && k.Rank == c.Rank || c.Rank < 0 && k.Group == c.Group
		})
		return accused || c.Rank < 0 && c.Group == ""
	})
}

func analyze(ev rca.Evidence, opt rca.Options) rca.Verdict {
	was := ev
	x := job.NewIndex(&ev, opt)
	v, ok := hang.Analyze(x)
	if x.Victim && (!ok || v.Class == rca.Unknown) {
		// Without this process's end, nothing names a culprit. So the end did not follow from the standstill; the standstill
		// follows from the end.
		ev = was
		x = job.NewIndexKeepingEnds(&ev, opt)
		v, ok = hang.Analyze(x)
	}
	if ok {
		if s, ok := slowRather(x, &v); ok {
			return s
		}
		return v
	}
	still, blind := blind(x) // If so, nothing else can show that the job is healthy.
	if v, ok := slow.Analyze(x); ok && (!blind || page.ByEvidence(&v, &x.Opt, x.Level)) {
		return v
	}
	if v, ok := launchVerdict(x); ok && !(blind && len(v.Culprits) == 0 && (v.Class == rca.Healthy || v.Class == rca.Unknown)) {
		return v
	}
	if v, ok := stackVerdict(x); ok {
		return v
	}
	if blind {
		if v, ok := faulty(x, still); ok {
			return v
		}
	}
	v = job.NewVerdict(x)
	for i := range ev.Facts {
		if f := &ev.Facts[i]; f.Kind == "ended_together" {
			v.Confidence, v.Summary = endedTogetherWeight, words.Opener(f.Text)+"."
			v.Action = words.WhatEndedThem
			return v
		}
	}
	n, gap := x.World-x.Seen, unproven(x)
	switch {
	case x.Seen == 0 || silent(x.Ev):
		v.Summary = words.NothingSeen
	case blind:
		v.Confidence = blindWeight
		v.Summary = fmt.Sprintf(words.NoCallsFor, words.Span(still))
		v.Action = words.DumpAllStacks
		if !stores(x) {
			v.Standstill = still.Seconds()
		}
	case ev.PastAsked:
		v.Confidence = unknownWeight
		v.Summary = words.NothingFinished
	case x.Opt.Incident && (n > 0 || x.Lossy() > 0):
		v.Confidence = partlySeenWeight
		v.Summary = words.NobodySeenStands + pick(n > 0, fmt.Sprintf(words.SomeUnknown, words.Count(n), words.Count(x.World)), words.SomeLost)
	case gap != "":
		v.Confidence, v.Summary = partlySeenWeight, gap
	default:
		v.Class, v.Confidence = rca.Healthy, rca.Round(healthyWeight*x.SeenFactor())
		v.Summary = words.NobodyStands
		if n > 0 && !ev.Partial {
			v.Summary = words.NobodySeenStands + fmt.Sprintf(words.SomeUnknown, words.Count(n), words.Count(x.World))
			v.Missing = append(v.Missing, fmt.Sprintf(words.RanksUnseen, words.Plural(n, "rank"), words.Count(x.World)))
		}
		return v
	}
	v.Action = cmp.Or(v.Action, rca.ActionFor(rca.Unknown, rca.CauseUnknown))
	return v
}

// slowRather gives the slow rank of a job that got slower, where a single look finds GPUs that others wait for and that may still
// make progress. Some rank is last at any moment; finished work shows which rank is last again and again.
func slowRather(x *job.Index, standing *rca.Verdict) (rca.Verdict, bool) {
	if !standing.MayGetOn || !x.Ev.PastAsked {
		return rca.Verdict{}, false
	}
	v, ok := slow.Analyze(x)
	return v, ok && page.ByEvidence(&v, &x.Opt, x.Level)
}

// unproven gives the reason why the evidence does not prove that the job makes progress, although it shows no trouble; empty
// where it does prove it.
func unproven(x *job.Index) string {
	completes, misses := false, false
	for i := range x.Ev.Ranks {
		r := &x.Ev.Ranks[i]
		misses = misses || r.Caps&rca.MissesCalls != 0
		completes = completes || r.Caps&rca.SeesProcess != 0
		for k := range r.Memberships {
			completes = completes || r.Memberships[k].Completed > 0
		}
	}
	switch {
	case misses && x.Opt.Incident:
		return words.SendsUnrecorded
	case !completes && x.Opt.Incident:
		return words.NeitherProven
	}
	return ""
}

// blind reports whether ranks have only operations in flight whose end is never recorded, and make no more calls; still is since
// when. Whether such ranks stand still cannot be seen.
func blind(x *job.Index) (still time.Duration, ok bool) {
	for i := range x.Ev.Ranks {
		for k := range x.Ev.Ranks[i].Memberships {
			m := &x.Ev.Ranks[i].Memberships[k]
			if m.SinceCalled > 0 && m.SinceCalled < x.Opt.HangAfter {
				return 0, false
			}
			if m.SinceCalled > 0 && (still == 0 || m.SinceCalled < still) {
				still = m.SinceCalled
			}
			for o := range m.InFlight {
				if !m.InFlight[o].NoCompletion {
					return 0, false
				}
				ok = true
			}
		}
	}
	return still, ok
}

// stores reports whether a rank reads or writes storage: all ranks may wait for a checkpoint or an evaluation.
func stores(x *job.Index) bool {
	return slices.ContainsFunc(x.Ev.Ranks, func(r rca.Rank) bool {
		return max(r.ReadBytesPerSec, r.WriteBytesPerSec) >= x.Opt.StorageBytesPerSec
	})
}

// silent reports whether the evidence shows no more than that there are ranks: sources of finished work in which nothing could be
// compared.
func silent(ev *rca.Evidence) bool {
	if len(ev.Timeline) > 0 {
		return false
	}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if len(r.Memberships) > 0 || r.State != rca.ProcessUnknown || len(r.Stack) > 0 || r.Caps&(rca.SeesProcess|rca.SeesCalls) != 0 {
			return false
		}
	}
	return true
}

// pick gives one of two values.
func pick[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}
