// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package page decides whether a verdict wakes somebody. All that speaks for a page or against one is in this file.
package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Stage is what is known when a verdict is decided on. It is decided on once by the evidence, and again when more is known; a later stage
// takes a page back or puts it off.
type Stage struct {
	// Options and Level are given when the engine has analysed the evidence.
	Options *rca.Options
	Level   rca.Level
	// Unconfirmed says that the accused changed when they were looked at a second time, and not all of them have been looked at again.
	Unconfirmed bool
	// Patience is given when the service knows how long earlier waits of the job were.
	Patience *Patience
	// Told says that somebody was paged for this run already, and that the run has ended. What is left of it tells nothing new.
	Told bool
}

// Patience is how long those may stay away who may still get on.
type Patience struct {
	For time.Duration
	// Told is how long ago the first trigger began to fire: about how long the peers have waited, where the evidence does not tell.
	Told time.Duration
}

// Decide sets Page and PageIn of a verdict.
func Decide(v *rca.Verdict, s Stage) {
	switch {
	case s.Told:
		v.Page, v.PageIn = false, 0
	case s.Unconfirmed:
		v.Page = false
	case s.Patience != nil:
		s.Patience.holdBack(v)
	default:
		v.Page = ByEvidence(v, s.Options, s.Level)
	}
}

// ByEvidence reports whether the evidence alone is reason to wake somebody: for a hang that lasts, whoever did it, or for an accusation
// that is likely right. The weight is the verdict's confidence before calibration.
func ByEvidence(v *rca.Verdict, opt *rca.Options, level rca.Level) bool {
	switch {
	case v.Class == rca.Healthy || v.Class == rca.Benign:
		return false
	case v.Stuck >= opt.UnexplainedAfter:
		return true
	case v.Class == rca.Unknown || v.Class == rca.Imbalance || v.Class == rca.GlobalSlow:
		return false // There is nobody whom a person could replace.
	}
	return v.Against == "" && opt.Carries(level, v.Class, v.Confidence)
}

// MayPass reports whether what a verdict reports may end by itself, so that patience counts.
func MayPass(v *rca.Verdict) bool { return v.Standstill > 0 || v.Page && mayGetOn(v) }

// MayPassInPart reports whether some of those that a verdict pages for may still get on, so that patience counts for them.
func MayPassInPart(v *rca.Verdict) bool {
	return v.Page && !MayPass(v) && slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool { return livesAndStaysAway(v, &c) })
}

// holdBack keeps a verdict from paging while its culprits may still get on by themselves: processes that live and have not
// called what their peers wait in, or are still inside the call. An evaluation or a slow batch looks the same; so does the
// first operation of a communicator, which connects inside its call and takes seconds where a host is short of processors, and a GPU
// in the first operations of a job, whose kernels are loaded when they are first used. A job that stands still without anybody
// to be named pages after the same time, and says what would decide it. Every other fault pages at once, and
// those beside it who may get on are reported in a warning.
func (p *Patience) holdBack(v *rca.Verdict) {
	if MayPassInPart(v) {
		for i := range v.Culprits {
			k := &v.Culprits[i]
			if left := p.For.Seconds() - cmp.Or(k.Waited, p.Told.Seconds()); left > 0 && livesAndStaysAway(v, k) {
				k.PageIn = rca.Round(left)
			}
		}
	}
	if !MayPass(v) {
		return
	}
	waited := v.Standstill
	if waited == 0 {
		if v.Waited == 0 { // The evidence does not tell; the trigger was late by about as much as it waited for.
			v.Waited = p.Told.Seconds()
		}
		waited = v.Waited
	}
	if v.Unheard {
		waited = min(waited, p.Told.Seconds()) // Nobody has found it silent before that.
	}
	left := p.For - time.Duration(waited*float64(time.Second))
	v.Page = left <= 0
	if !v.Page {
		v.PageIn = rca.Round(left.Seconds())
	}
}

// mayGetOn reports whether all culprits of a verdict are processes that live and have not launched the operation that is
// waited for, or GPUs that have only begun.
func mayGetOn(v *rca.Verdict) bool {
	return v.MayGetOn || len(v.Culprits) > 0 && !slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool { return !livesAndStaysAway(v, &c) })
}

func livesAndStaysAway(v *rca.Verdict, c *rca.Culprit) bool {
	cause := cmp.Or(c.Cause, v.Cause)
	return !c.Stays && cmp.Or(c.Class, v.Class) == rca.NotEntered && (cause == rca.CauseNotCalled || cause == rca.CauseStorage || cause == rca.CauseCPU)
}
