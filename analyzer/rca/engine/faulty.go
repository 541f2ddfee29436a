// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// faulty names a culprit from what the hosts report, where all ranks have called the same and then nothing for a while. It names
// the one GPU that reports an error; the ranks of the one NIC that is down, or all ranks of its host where it is not known whose
// NIC it is; or the ranks of the one host that fell silent when the job stopped. Without such a report every rank is a suspect,
// as are the members of a group that stands still. While a rank reads or writes storage, nobody is named: all ranks may wait for
// that.
func faulty(x *job.Index, still time.Duration) (rca.Verdict, bool) {
	if stores(x) {
		return rca.Verdict{}, false
	}
	v := job.NewVerdict(x)
	v.Class, v.Code, v.Cause = rca.Fault, rca.Fault.Code(), rca.CauseGPU
	v.RanksVisited = x.Seen
	v.Confidence = rca.Round(faultyWeight * x.SeenFactor())
	v.Standstill, v.MayGetOn = still.Seconds(), true
	if n := ailing(x, job.GPUAilment); len(n) == 1 {
		accuse(x, &v, n, words.GPUShowsError)
		v.Summary = fmt.Sprintf(words.FaultyGPU, words.Opener(x.RankName(n[0])), words.Span(still))
	} else if n := ailing(x, job.DeadNIC); onOneNIC(x, n) {
		nic := x.AilingNIC(n[0])
		v.Cause = rca.CauseNetworkSend
		v.Summary = fmt.Sprintf(words.FaultyNIC, nic, x.Host(n[0]), words.Span(still))
		if x.NIC(x.Nodes[n[0]].Rank) == "" && len(n) > 1 {
			v.Culprits = []rca.Culprit{{Rank: -1, Channel: -1, Host: x.Host(n[0]), NIC: nic, Group: words.RankNumbers(x.IDs(n)), Why: words.NICOfOneDown}}
			v.Evidence = x.FactsOf(n[0])
		} else {
			accuse(x, &v, n, words.NICShownDown)
		}
	} else if m := fellSilent(x, still); m != nil {
		v.Cause, v.Confidence = rca.CauseHostLost, faultyWeight // Its ranks were not seen, and that is the evidence against it.
		for _, id := range m.Ranks {
			v.Culprits = append(v.Culprits, rca.Culprit{Rank: id, Channel: -1, Group: m.Name, Why: fmt.Sprintf(words.DoesNotAnswer, m.What)})
		}
		v.Summary = fmt.Sprintf(words.FellSilent, words.Opener(m.What), m.Name, m.Why, words.RankNumbers(m.Ranks), words.Span(still))
	} else {
		return rca.Verdict{}, false
	}
	v.Action = rca.ActionFor(v.Class, v.Cause)
	return v, true
}

func accuse(x *job.Index, v *rca.Verdict, nodes []int32, why string) {
	for _, n := range nodes {
		c := x.Culprit(n)
		c.Why = why
		v.Culprits = append(v.Culprits, c)
	}
	v.Evidence = x.FactsOf(nodes[0])
}

// ailing gives the ranks for which a host reports an ailment.
func ailing(x *job.Index, ailment func(*rca.Fact) bool) []int32 {
	var out []int32
	for n := range int32(len(x.Nodes)) { // Far fewer than 2^31 ranks.
		if x.Ailing(n, ailment) {
			out = append(out, n)
		}
	}
	return out
}

// onOneNIC reports whether there are ranks and all their ailments are of one NIC of one host.
func onOneNIC(x *job.Index, nodes []int32) bool {
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n int32) bool {
		return x.Host(n) != x.Host(nodes[0]) || x.AilingNIC(n) == "" || x.AilingNIC(n) != x.AilingNIC(nodes[0])
	})
}

// silentWithin is how much later than a host's last answer the job may stop: exporters are asked once per scrape, and the others
// may still have had operations to call.
const silentWithin = time.Minute

// fellSilent gives the one host that does not answer, if its last answer was about when the job stopped; nil where there is none,
// or several.
func fellSilent(x *job.Index, still time.Duration) *rca.Missing {
	// Who else claims the job or the host says nothing of what was not seen.
	unseen := slices.DeleteFunc(slices.Clone(x.Ev.Missing), func(m rca.Missing) bool { return m.Claimed() })
	if len(unseen) != 1 {
		return nil
	}
	m := &unseen[0]
	if m.What == "rank" || m.Alive || len(m.Ranks) == 0 || m.Heard <= 0 || m.Heard > still+silentWithin || m.Heard+silentWithin < still {
		return nil
	}
	return m
}
