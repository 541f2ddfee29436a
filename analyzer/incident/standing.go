// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// accusation gives what makes two verdicts the same to the person paged: class, cause and culprits.
func accusation(v *rca.Verdict) string {
	if v == nil {
		return ""
	}
	culprits := slices.Clone(v.Culprits)
	slices.SortFunc(culprits, func(a, b rca.Culprit) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Host, b.Host), cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Group, b.Group))
	})
	var b strings.Builder
	fmt.Fprintf(&b, "%s|%s", v.Class, v.Cause)
	for _, c := range culprits {
		fmt.Fprintf(&b, "|%d,%s,%s,%s", c.Rank, c.Host, c.GPU, c.Group)
	}
	return b.String()
}

// supersedes decides whether next takes the place of the standing verdict. An accusation that has paged stands until
// the incident ends, or until another that pages is surer, or is found twice in a row (confirmed): a page that names
// another rank every few seconds helps nobody, and evidence decays after a crash, when nodes reboot and files go. Of a job that has
// stood still ever since it paged (unmoved), what was found first rests on the better evidence: nobody's name does not take the place
// of somebody's, and being found twice does not help a verdict that tells of the same ranks, or rests on less. Of a slow job, a look that
// suspects whoever is accused already, and saw too little to accuse them, takes nothing back.
func supersedes(standing, next *rca.Verdict, confirmed, unmoved bool) bool {
	switch {
	case standing == nil:
		return true
	case standing.Class == rca.Benign && next.Class == rca.Healthy:
		return false // It is over; what it was is the better record.
	case standing.Class == rca.GlobalSlow && (next.Class == rca.Healthy || next.Class == rca.Unknown && next.Stalled == 0):
		return false // It shows beside a faster past alone, which lies too far back by now; or it is over.
	case stillSuspects(next, standing):
		return false
	case !standing.Page:
		return true
	case !next.Page:
		return false
	case accusation(standing) == accusation(next):
		return true
	case unmoved && len(accused(standing)) > 0 && len(accused(next)) == 0:
		return false
	case unmoved && (slices.Equal(accused(standing), accused(next)) || len(next.Missing) > len(standing.Missing)):
		return next.Confidence > standing.Confidence
	default:
		return confirmed || next.Confidence > standing.Confidence
	}
}

// stillSuspects reports whether a verdict on a slow job suspects the ranks that another accuses, and only saw too little to tell them from
// chance. Any other reason not to accuse them, such as that all hosts are short of CPU, speaks against the other verdict.
func stillSuspects(v, standing *rca.Verdict) bool {
	if v.Row != rca.RowMayBeChance || standing.Class.StandsStill() || len(v.Hypotheses) == 0 {
		return false
	}
	best := slices.Sorted(slices.Values(v.Hypotheses[0].Ranks))
	return len(best) > 0 && slices.Equal(best, accused(standing))
}

// accused gives the ranks that a verdict accuses, in order.
func accused(v *rca.Verdict) []int {
	var out []int
	for i := range v.Culprits {
		if v.Culprits[i].Rank >= 0 {
			out = append(out, v.Culprits[i].Rank)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// unmoved reports whether the job of which next tells now has stood still since before the standing verdict was found.
func (i *Incident) unmoved(next *rca.Verdict, now time.Time) bool {
	waited := max(next.Waited, next.Standstill)
	return i.VerdictAt != nil && waited > 0 && now.Sub(*i.VerdictAt).Seconds() < waited
}

// unalarming reports whether a verdict says that nothing is broken.
func unalarming(v *rca.Verdict) bool {
	return v != nil && !v.Page && (v.Class == rca.Benign || v.Class == rca.Healthy)
}

// sameStandstill is by how much two analyses of one standstill may differ about when it began: exporters answer at different moments.
const sameStandstill = 2 * time.Second

// standsSince gives when the job of a verdict came to stand still, nil where it does not. Of one standstill the first answer stays, so that
// what people read does not move.
func standsSince(known *time.Time, v *rca.Verdict, now time.Time) *time.Time {
	waited := max(v.Waited, v.Standstill)
	if waited <= 0 {
		return nil
	}
	since := now.Add(-time.Duration(waited * float64(time.Second)))
	if known != nil && since.Sub(*known).Abs() <= sameStandstill {
		return known
	}
	return &since
}
