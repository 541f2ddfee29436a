// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// scrapes is how long a living exporter may at most not have been heard of: a few scrapes that fail in a row.
const scrapes = time.Minute

// silencedByLoss says that a host may have fallen silent when the job stopped. One that was silent long before, while others
// still completed operations with it, was alive then and may be now; one that was heard of afterwards is.
func (w *waitFor) silencedByLoss(m *rca.Missing) bool {
	if m.Alive {
		return false
	}
	stopped, known := w.lastWith(m.Ranks)
	if m.Heard <= 0 || !known {
		return true
	}
	return m.Heard <= stopped+scrapes && m.Heard+w.Opt.HangAfter >= stopped
}

// lastWith is how long ago somebody last completed an operation in a communicator that some of these ranks belong to.
func (w *waitFor) lastWith(ranks []int) (last time.Duration, known bool) {
	for i := range w.Comms {
		c := &w.Comms[i]
		if c.Call || !slices.ContainsFunc(ranks, func(r int) bool { n := w.NodeOf(r); return n >= 0 && c.Find(n) != nil }) {
			continue
		}
		for k := range c.Members {
			if m := c.Members[k].Membership; m != nil && m.Completed > 0 && m.SinceCompleted > 0 && (!known || m.SinceCompleted < last) {
				last, known = m.SinceCompleted, true
			}
		}
	}
	return last, known
}

// composeSilentAlive: all waiting ends at ranks of a host that does not answer, for another reason than that it is lost. What they
// do, a checkpoint or nothing, nobody saw.
func (w *waitFor) composeSilentAlive(m *rca.Missing, ids []int, v *rca.Verdict) {
	v.Confidence = rca.Round(min(v.Confidence, undecidedWeight))
	who := words.RankNumbers(ids) + " or " + pick(len(ids) == 1, "its host", "their host") + ", not observed"
	v.Culprits = append(v.Culprits, rca.Culprit{
		Rank: -1, Channel: -1, Host: m.Name, Group: who, Why: fmt.Sprintf(words.NoExporterThere, words.RankNumbers(ids)),
	})
	if m.Alive {
		v.Summary = fmt.Sprintf(words.HostUnobserved,
			words.Opener(w.waiters()), words.RankNumbers(ids), m.Name, m.Why)
		return
	}
	stopped, _ := w.lastWith(m.Ranks)
	v.Summary = fmt.Sprintf(words.HostSilent,
		words.Opener(w.waiters()), words.RankNumbers(ids), m.What, m.Name, m.Why, words.Span(m.Heard), words.Span(stopped))
}
