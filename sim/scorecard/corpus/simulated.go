// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"context"
	"strconv"

	"github.com/culprit-project/culprit/sim/scorecard/matrix"
	"github.com/culprit-project/culprit/sim/scorecard/trial"
)

// Simulate performs runs of the scorecard and adds the last moment of each, undisturbed and under its harms.
func (w *Writer) Simulate(ctx context.Context, cases []matrix.Case, res trial.Resources, done func()) error {
	run := ""
	return trial.Moments(ctx, cases, res, func(m *trial.Moment) error {
		if m.Outcome.Name != run {
			run = m.Outcome.Name
			done()
		}
		c := Case{
			Name: m.Outcome.Name, Set: "matrix", Group: m.Outcome.Group, Level: m.Outcome.Level, Harm: m.Harm, Liar: m.Liar,
			Effect: m.Outcome.Effect, Answer: m.Answer, Where: placesOf(m.Where, &m.Rests.Evidence),
		}
		if m.Outcome.Drawn {
			c.Set = "drawn " + strconv.FormatUint(m.Outcome.Seed, 10)
		}
		if m.Harm != "" {
			c.Name, c.Set = c.Name+" "+m.Harm, "harm "+m.Harm
		}
		return w.Add(c, m.Rests)
	})
}
