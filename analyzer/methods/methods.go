// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package methods has the methods of four papers, each as its paper has it, to run on any evidence beside the engine: the engine knows none
// of them, and no verdict rests on one. docs/papers.md says what each does and where it fails.
package methods

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/ccld"
	"github.com/culprit-project/culprit/analyzer/methods/holmes"
	"github.com/culprit-project/culprit/analyzer/methods/mycroft"
	"github.com/culprit-project/culprit/analyzer/methods/pulse"
	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Titles are the papers by the names of their methods.
var Titles = map[string]string{"mycroft": "Mycroft", "ccl-d": "CCL-D", "pulse": "Pulse", "holmes": "Holmes"}

// Options are what methods know beside the evidence and the engine's options.
type Options struct {
	Engine    rca.Options
	Operators *holmes.Model // Holmes' trained detector (H3); nil: the one without training.
	Base      time.Duration // CCL-D's configured T_base; 0 none.
}

// Say runs every method on the evidence.
func Say(ev *rca.Evidence, o *Options) []record.Vote {
	j := record.New(ev, o.Engine)
	irregular := holmes.IrregularOf(j)
	out := []record.Vote{}
	for _, m := range []struct {
		stop func(*record.Job) (record.Vote, bool)
		slow func() []record.Vote
	}{
		{mycroft.Failure, func() []record.Vote { return []record.Vote{mycroft.Straggler(j)} }},
		{ccld.Hang, func() []record.Vote { return []record.Vote{ccld.Slow(j, o.Base)} }},
		{pulse.Stop, func() []record.Vote { return []record.Vote{pulse.Slow(j, irregular)} }},
		{func(*record.Job) (record.Vote, bool) { return record.Vote{}, false }, func() []record.Vote { return holmes.Slow(j, irregular, o.Operators) }},
	} {
		if v, ok := m.stop(j); ok {
			out = append(out, v)
		} else if len(ev.Timeline) > 0 {
			out = append(out, m.slow()...)
		}
	}
	if s := pulse.SaysServes(j); s != "" {
		out = append(out, record.Vote{Method: "pulse-parallelism", Class: rca.Unknown, Ranks: []int{}, Note: s})
	}
	return out
}

// Of gives what one method says: its vote, and what else it has to say.
func Of(votes []record.Vote, method string) []record.Vote {
	return slices.DeleteFunc(slices.Clone(votes), func(v record.Vote) bool {
		return v.Method != method && (len(v.Method) <= len(method) || v.Method[:len(method)+1] != method+"-")
	})
}
