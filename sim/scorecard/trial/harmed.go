// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/scorecard/harm"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// hurt is a verdict on spoiled evidence that waits for the answer.
type hurt struct {
	harm    string
	liar    string
	verdict rca.Verdict
}

// askHarmed asks the engine once more about the moment of its last look, with worse evidence. Nobody looks a second time:
// the moment is the second look's already.
func (t *trial) askHarmed() error {
	if t.ev == nil || len(t.Harms) == 0 {
		return nil
	}
	whole, err := t.lab.gather()
	if err != nil {
		return fmt.Errorf("gathering evidence to spoil: %w", err)
	}
	whole.pasts = map[int][]fetchedOp{}
	for _, name := range t.Harms {
		s, ok := harm.Named(name).On(t.Name, &whole.ev)
		if !ok {
			continue
		}
		v, err := t.underHarm(whole, &s)
		if err != nil {
			return fmt.Errorf("under %s: %w", name, err)
		}
		t.harmed = append(t.harmed, hurt{name, s.Liar, v})
	}
	return nil
}

// underHarm asks as the service would, and leaves the trial's own verdict and costs alone.
func (t *trial) underHarm(whole *gathered, s *harm.Spoiler) (rca.Verdict, error) {
	beside := &trial{Case: t.Case, out: judge.NewOutcome(t.Case), lab: t.lab, meter: t.meter, past: t.past}
	g := *whole
	g.ev, g.spoil, g.mask = harm.Copy(&whole.ev), s.History, s.Record
	if g.mask != nil {
		g.pasts = nil // What others have fetched is not masked.
	}
	s.States(&g.ev)
	l := beside.lookAt(&g, nil)
	if settled(&l.v, t.out.Trigger) {
		return l.v, nil
	}
	if err := beside.lookBack(l); err != nil {
		return rca.Verdict{}, err
	}
	return l.v, nil
}
