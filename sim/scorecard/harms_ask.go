// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"fmt"

	"github.com/culprit-project/culprit/analyzer/rca"
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
	if t.ev == nil || len(t.harms) == 0 {
		return nil
	}
	whole, err := t.lab.gather()
	if err != nil {
		return fmt.Errorf("gathering evidence to spoil: %w", err)
	}
	whole.pasts = map[int][]fetchedOp{}
	for _, name := range t.harms {
		s, ok := harmNamed(name).on(t.Name, &whole.ev)
		if !ok {
			continue
		}
		v, err := t.underHarm(whole, &s)
		if err != nil {
			return fmt.Errorf("under %s: %w", name, err)
		}
		t.harmed = append(t.harmed, hurt{name, s.liar, v})
	}
	return nil
}

// underHarm asks as the service would, and leaves the trial's own verdict and costs alone.
func (t *trial) underHarm(whole *gathered, s *spoiler) (rca.Verdict, error) {
	beside := &trial{Case: t.Case, out: newOutcome(t.Case), lab: t.lab, meter: t.meter, past: t.past}
	g := *whole
	g.ev, g.spoil, g.mask = copied(&whole.ev), s.history, s.record
	if g.mask != nil {
		g.pasts = nil // What others have fetched is not masked.
	}
	s.states(&g.ev)
	l := beside.lookAt(&g, nil)
	if settled(l.v.Class, t.out.Trigger) {
		return l.v, nil
	}
	if err := beside.lookBack(l); err != nil {
		return rca.Verdict{}, err
	}
	return l.v, nil
}
