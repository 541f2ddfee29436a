// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"

	"github.com/culprit-project/culprit/analyzer/rca/holmes"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// Operators gives the finished operations of a timeline as Holmes' operator log (H1), from which a model of abnormal operators is trained.
// Operations outside a whole iteration are left out.
func Operators(x *job.Index) []holmes.Operator {
	t := newTimeline(x, x.Ev.Timeline)
	if len(t.segs) == 0 {
		return nil
	}
	lengths := t.iterationTimes()
	var out []holmes.Operator
	for i := range t.segs {
		s := &t.segs[i]
		if s.compute || s.iter < 0 || int(s.iter) >= len(lengths) {
			continue
		}
		k := t.tokenOf(s)
		out = append(out, holmes.Operator{
			Rank: s.record.Rank, Communicator: string(s.record.Comm), Pattern: t.FuncNames[s.fn], Bytes: s.bytes, Like: fmt.Sprintf("%s/%d/%d/%d", t.FuncNames[k.fn], k.size, k.bytes, k.dir), Number: s.number,
			Iteration: int(s.iter), Seconds: float64(s.stay) / 1e9, IterationSeconds: float64(lengths[s.iter]) / 1e9,
		})
	}
	return out
}

// usualOperators gives how long operations of each kind take, in seconds, for the first ones of each kind.
func (t *timeline) usualOperators() map[token][]float64 {
	const kept = 256
	took := make([][]float64, len(t.tokens))
	for i, k := range t.tokenAt {
		if !t.segs[i].compute && len(took[k]) < kept {
			took[k] = append(took[k], float64(t.segs[i].stay)/1e9)
		}
	}
	out := make(map[token][]float64, len(took))
	for k, v := range took {
		out[t.tokens[k]] = v
	}
	return out
}
