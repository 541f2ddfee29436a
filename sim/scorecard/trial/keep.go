// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"

	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// Moment is what a verdict of the service rests on, undisturbed or under a harm, and what was true.
type Moment struct {
	Outcome *judge.Outcome // Of the whole run.
	Answer  *cluster.Answer
	Where   judge.Places // Valid until the receiver of the moment returns.
	Harm    string       // Empty: none.
	Liar    string       // The host that lies; empty: none does.
	Rests   *kept.Record
}

// Moments performs the cases and gives the moments of each, one at a time. A run without an incident has none.
func Moments(ctx context.Context, cases []matrix.Case, res Resources, yield func(*Moment) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return each(ctx, cases, res, func(_ int, t *trial) {
		answer := t.s.job.Answer()
		t.s.job.View(func(rec *cluster.Recording) {
			give := func(harm, liar string, rests *kept.Record) {
				if rests == nil || ctx.Err() != nil {
					return
				}
				if err := yield(&Moment{&t.out, answer, rec, harm, liar, rests}); err != nil {
					cancel(err)
				}
			}
			give("", "", t.s.rests)
			for i := range t.harmed {
				give(t.harmed[i].harm, t.harmed[i].liar, t.harmed[i].rests)
			}
		})
	})
}
