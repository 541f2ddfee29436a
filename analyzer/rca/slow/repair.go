// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Repair before reasoning: records may be false, missing, or of another kind than they say, and what is in them may be waiting that
// looks like work. All of that is mended here, in this order, before anything asks whose time it is. A step never changes the timeline
// that it is given: it gives a new one, or the same where there is nothing to mend.

// step is one repair.
type step struct {
	name string
	mend func(*timeline) (*timeline, repair)
}

// repair counts what a step did: the segments that it left out, put in or shortened, and those that are wrong and that it could not mend.
type repair struct {
	changed, left int
	doubted       []int32
	paused        *pauses
}

// Clocks are aligned and holes are marked wherever a timeline is built.
var (
	mendRecords = []step{
		{"contradicted_records", (*timeline).believed},
		{"hidden_operations", (*timeline).uncover},
		{"lost_records", (*timeline).restore},
	}
	mendWork = []step{
		{"unrecorded_waits", (*timeline).withoutWaits},
		{"pauses", (*timeline).withoutPauses},
	}
)

// history is a job's finished work, repaired.
type history struct {
	whole   *timeline    // Everything that is believed.
	past    *timeline    // The iterations before the job became slower; nil when it did not while watched.
	now     *timeline    // Those since, without waits and pauses: what is asked about.
	onset   float64      // By what factor it became slower, 1 not.
	series  []int64      // Length of each iteration as the median rank saw it, ns.
	doubted []int32      // Ranks whose records contradict the others' and are left out.
	paused  *pauses      // nil: none.
	repairs []rca.Repair // Of the steps that had anything to do.
}

// repaired runs the steps; nil without finished work.
func repaired(t *timeline) *history {
	if len(t.segs) == 0 {
		return nil
	}
	h := &history{}
	h.whole = h.mend(t, mendRecords)
	h.series = h.whole.iterationTimes()
	h.past, h.now, h.onset = h.whole.atOnset(h.series)
	h.now = h.mend(h.now, mendWork)
	return h
}

// mend takes one step after the other and notes what each did.
func (h *history) mend(t *timeline, steps []step) *timeline {
	for _, s := range steps {
		var r repair
		t, r = s.mend(t)
		if r.changed+r.left > 0 {
			h.repairs = append(h.repairs, rca.Repair{Step: s.name, Changed: r.changed, Left: r.left})
		}
		if r.doubted != nil {
			h.doubted = r.doubted
		}
		if r.paused != nil {
			h.paused = r.paused
		}
	}
	return t
}

// records gives the records of the segments that are kept.
func (t *timeline) records(keep func(*seg) bool) []rca.Segment {
	out := make([]rca.Segment, 0, len(t.segs))
	for i := range t.segs {
		if s := &t.segs[i]; keep(s) {
			out = append(out, *s.record)
		}
	}
	return out
}

// gaps gives a copy of what lies before each segment.
func (t *timeline) gaps() []int64 {
	out := make([]int64, len(t.segs))
	for i := range t.segs {
		out[i] = t.segs[i].gap
	}
	return out
}

// withGaps gives the timeline with shorter gaps. The host was late in no more than what is left of them.
func (t *timeline) withGaps(gaps []int64) *timeline {
	out := *t
	out.segs, out.peers = slices.Clone(t.segs), nil
	for i := range out.segs {
		s := &out.segs[i]
		s.gap, s.host = gaps[i], min(s.host, gaps[i])
	}
	return &out
}
