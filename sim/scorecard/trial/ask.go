// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// ask gathers evidence at the moment the analyzer is told, as the service does, and asks the engine.
func (t *trial) ask(told told) error {
	look, err := t.look(told.at, nil)
	if err != nil {
		return err
	}
	if standsStill(look.v.Class) && look.v.Page {
		// The service looks twice before a hang pages: what moves does not hang.
		if look, err = t.look(told.at+confirmAfter, look.search); err != nil {
			return err
		}
	}
	if !settled(&look.v, told.by) {
		if err := t.lookBack(look); err != nil {
			return err
		}
	}
	t.out.RanksFetched, t.out.BytesFetched, t.out.Search = look.g.ranks, look.g.bytes, nil
	if s := look.search; s != nil {
		t.out.Search = &judge.Search{Rounds: s.rounds, Hosts: s.hosts(), Of: len(look.g.names), Whole: look.g.states}
		ranks, bytes := s.cost()
		t.out.RanksFetched, t.out.BytesFetched = ranks, look.g.bytes-look.g.states+bytes
		if standsStill(look.v.Class) {
			whole := engine.Analyze(look.g.ev, rca.Options{})
			t.out.Search.Same = sameAnswer(&whole, &look.v)
		}
	}
	t.verdict, t.ev = look.v, look.ev
	return nil
}

// sameAnswer compares class and first-named.
func sameAnswer(a, b *rca.Verdict) bool {
	if a.Class != b.Class || (len(a.Culprits) == 0) != (len(b.Culprits) == 0) {
		return false
	}
	return len(a.Culprits) == 0 || (a.Culprits[0].Rank == b.Culprits[0].Rank && a.Culprits[0].Group == b.Culprits[0].Group)
}

// settled: nobody looks back at what is explained, or at a standstill that is not understood yet.
func settled(v *rca.Verdict, by string) bool {
	return standsStill(v.Class) || v.Class == rca.Benign || by == byStall && v.Class != rca.Healthy && !v.Moving
}

// look is what the analyzer sees at a moment, and says.
type look struct {
	g      *gathered
	search *searcher     // Nil: everybody was asked.
	ev     *rca.Evidence // What was asked for.
	v      rca.Verdict
}

// look asks everybody, or in a large job those that the search comes to.
func (t *trial) look(at time.Duration, before *searcher) (*look, error) {
	if err := t.lab.until(at); err != nil {
		return nil, err
	}
	g, err := t.lab.gather()
	if err != nil {
		return nil, fmt.Errorf("gathering evidence: %w", err)
	}
	return t.lookAt(g, before), nil
}

// lookAt asks the engine about what was gathered.
func (t *trial) lookAt(g *gathered, before *searcher) *look {
	l := &look{g: g, ev: &g.ev}
	analyze := func(ev *rca.Evidence) rca.Verdict { return t.meter.analyze(&t.out, ev) }
	if len(g.names) <= searchPast {
		l.v = analyze(l.ev)
		return l
	}
	l.search = newSearch(g, before)
	l.ev, l.v = l.search.run(analyze)
	return l
}

// lookBack asks for finished operations and asks the engine once more: of everybody in a small job; in a larger one next to
// what is slow, of some others, and of whom the engine then wants to see.
func (t *trial) lookBack(l *look) error {
	s := l.search
	if s == nil && len(l.g.names) > backAll {
		s = wholeJob(l.g)
	}
	if s == nil {
		if err := l.g.lookBack(t.lab.rec, l.ev, nil); err != nil {
			return fmt.Errorf("gathering the history: %w", err)
		}
		l.v = t.meter.analyze(&t.out, l.ev)
		return nil
	}
	next := s.backFirst(usageOf(t.lab.rec).grown(t.past, backEach))
	told := map[string]bool{}
	for range 1 + backRounds {
		for _, h := range next {
			told[h], s.asked[h] = true, true
		}
		ev := s.evidence()
		if err := l.g.lookBack(t.lab.rec, ev, told); err != nil {
			return fmt.Errorf("gathering the history: %w", err)
		}
		l.ev, l.v = ev, t.meter.analyze(&t.out, ev)
		if next = s.notTold(l.v.Ask, told, backNext); len(next) == 0 {
			break
		}
	}
	return nil
}

// confirmAfter is analysis.confirm_after.
const confirmAfter = 300 * time.Millisecond

// standsStill reports whether a class is one of a job that stands still.
func standsStill(c rca.Class) bool {
	return c == rca.NotEntered || c == rca.Inconsistent || c == rca.Fault
}
