// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// holdBack keeps a verdict from paging while its culprits may still get on by themselves: processes that live and have not
// called what their peers wait in, or are still inside the call. An evaluation or a slow batch looks the same; so does the
// first operation of a communicator, which connects inside its call and takes seconds where a host is short of processors, and a GPU
// in the first operations of a job, whose kernels are loaded when they are first used.
// These wait at least as long as the configuration says, and longer in a job that has shown longer waits which ended by
// themselves. A job that stands still without anybody to be named pages after the same time, and says what would decide it.
// Every other fault pages at once.
func (d *Diagnoser) holdBack(ctx context.Context, s *evidence.Session, req *incident.Request, v *rca.Verdict) {
	var longest, waited time.Duration
	switch {
	case v.Standstill > 0:
		longest, waited = max(s.LongestWait(ctx), s.LongestPause(ctx)), seconds(v.Standstill)
	case v.Page && mayGetOn(v):
		longest, waited = s.LongestWait(ctx), seconds(v.Waited)
		if waited == 0 { // The evidence does not tell; the trigger was late by about as much as it waited for.
			waited = toldSince(req, d.Clock.Now())
			v.Waited = waited.Seconds()
		}
	default:
		return
	}
	p := d.Config.Patience
	patience := min(max(time.Duration(p.AtLeast), time.Duration(p.Factor*float64(longest))), time.Duration(p.AtMost))
	v.Page = waited >= patience
	if !v.Page {
		v.PageIn = rca.Round((patience - waited).Seconds())
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// mayGetOn reports whether all culprits of a verdict are processes that live and have not launched the operation that is
// waited for, or GPUs that have only begun.
func mayGetOn(v *rca.Verdict) bool {
	if v.MayGetOn {
		return true
	}
	if v.Class != rca.NotEntered || len(v.Culprits) == 0 {
		return false
	}
	return !slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool {
		cause := cmp.Or(c.Cause, v.Cause)
		return cause != rca.CauseNotCalled && cause != rca.CauseStorage && cause != rca.CauseCPU
	})
}
