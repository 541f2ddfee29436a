// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

func anyHard(rs []root) bool {
	return slices.ContainsFunc(rs, func(r root) bool { return r.leaf.hard })
}

// composeSuspects: what was seen points somewhere, and is too weak to accuse anybody.
func (w *waitFor) composeSuspects(d *decision, v *rca.Verdict) {
	var group strings.Builder
	for i := range d.chosen {
		r := &d.chosen[i]
		if i == 4 {
			group.WriteString(", …")
			break
		}
		group.WriteString(pick(i > 0, ", ", ""))
		switch {
		case r.kind == rootLink:
			group.WriteString(fmt.Sprintf("link %d->%d", w.Nodes[r.nodes[0]].ID, w.Nodes[r.peer].ID))
		case r.kind == rootAhead:
			group.WriteString(words.RankNumbers(w.IDs(r.nodes)) + fmt.Sprintf(words.OrHolder, words.RankNumbers(w.IDs(r.others))))
		case r.kind == rootGroup || len(r.nodes) == 0:
			group.WriteString("members of " + w.opGroup(r))
		default:
			group.WriteString(words.RankNumbers(w.IDs(r.nodes)))
		}
	}
	v.Summary = words.Opener(w.sentence(&d.chosen[0], d)) + words.TooWeak
	if d.chosen[0].kind != rootMoving {
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: -1, Channel: -1, Group: "suspects: " + group.String(), Why: words.WeakEvidence})
	}
}

// composeSilent: all waiting ends at ranks of which nothing is known. One host that did not answer, or one rank, is
// named; several are suspects together.
func (w *waitFor) composeSilent(d *decision, v *rca.Verdict) {
	var ids []int
	named := true
	for _, r := range d.chosen {
		for _, n := range r.nodes {
			if w.Nodes[n].ID >= 0 {
				ids = append(ids, w.Nodes[n].ID)
			} else {
				named = false // Unless all unseen ranks are accounted for.
			}
		}
	}
	slices.Sort(ids)
	unseen := w.World - w.Seen
	if rivals := w.rivals(); len(rivals) > 0 {
		w.composeRivals(d, rivals, v)
		return
	}
	certain := w.mustBeUnseen(d)
	if m := w.oneMissing(); m != nil && certain && named && m.What == "rank" && len(m.Ranks) == 1 {
		// A file that is not there says nothing of a host: the others' waiting alone names the rank.
		rank := m.Ranks[0]
		v.Class, v.Cause = rca.NotEntered, rca.CauseUnknown
		v.Confidence = rca.Round(silentRankWeight * d.explained() * w.KeptFactor())
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: rank, Channel: -1, Why: fmt.Sprintf(words.NotSeenBecause, m.Why)})
		v.Summary = fmt.Sprintf(words.RankUnseen,
			words.Opener(w.waiters()), rank, m.Why)
		return
	}
	if m := w.oneMissing(); m != nil && certain && m.What != "rank" && (!w.Ev.Partial || leadsTo(m, ids)) {
		if !w.silencedByLoss(m) {
			if !leadsTo(m, ids) {
				ids = m.Ranks
			}
			w.composeSilentAlive(m, ids, v)
			return
		}
		ids = slices.Clone(m.Ranks)
		slices.Sort(ids)
		v.Class, v.Cause = rca.Fault, rca.CauseHostLost
		// One silence explains all of them: they are not rivals.
		v.Confidence = rca.Round(silentHostWeight * d.explained() * w.KeptFactor())
		for _, id := range ids {
			v.Culprits = append(v.Culprits, rca.Culprit{Rank: id, Channel: -1, Group: m.Name, Why: fmt.Sprintf(words.DoesNotAnswer, m.What)})
		}
		v.Summary = fmt.Sprintf(words.HostLost,
			words.Opener(w.waiters()), words.RankNumbers(ids), m.What, m.Name, m.Why)
		return
	}
	if named && len(ids) == 1 && unseen == 1 && certain {
		c := rca.Culprit{Rank: ids[0], Channel: -1, Why: words.AllWaitForUnseen}
		if v.Confidence < w.Opt.NameConfidence {
			c.Rank, c.Group = -1, "suspects: "+words.RankNumbers(ids)
		}
		v.Culprits = append(v.Culprits, c)
		v.Summary = fmt.Sprintf(words.RankSuspect,
			words.Opener(w.waiters()), ids[0])
		return
	}
	if in := w.halfCalled(d); in != nil {
		c := &w.Comms[in.key.comm]
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: -1, Channel: -1, Group: "members of " + c.Name, Why: fmt.Sprintf(words.HaveNotCalled, in.op().Func)})
		v.Summary = fmt.Sprintf(words.HalfCalled,
			in.inside, c.Size, in.op().Func, c.Name)
		return
	}
	v.Culprits = append(v.Culprits, rca.Culprit{Rank: -1, Channel: -1, Group: fmt.Sprintf(words.OrBehind, words.RankNumbers(ids)), Why: words.NobodySeen})
	v.Summary = fmt.Sprintf(words.SuspectsUnseen,
		words.Opener(w.waiters()), words.RankNumbers(ids))
}

// mustBeUnseen says that the culprit can only be among the unseen: every rank that was seen waits, nobody shows a fault,
// and more than one rank of more than one story points there (one alone may itself be the one that is wrong).
func (w *waitFor) mustBeUnseen(d *decision) bool {
	seen := 0
	for n := range w.Nodes {
		if !w.Unseen(int32(n)) {
			seen++
		}
	}
	if len(w.stuck) < seen {
		return false
	}
	for _, s := range w.stuck {
		if d.dist[s] < 0 || w.broken(s) {
			return false
		}
	}
	for i := range w.owns {
		if o := &w.owns[i]; o.weight >= suspectFrom && o.what != flawLinkUnproven && w.lonelyOwn(o) {
			return false
		}
	}
	for i := range d.chosen {
		if d.chosen[i].peer >= 0 && len(d.chosen) == 1 {
			return false // Its only witness may be the one that does not deliver.
		}
	}
	var pointing []int32
	for i := range d.chosen {
		for _, n := range d.chosen[i].nodes {
			for _, e := range w.in[w.rrow[n]:w.rrow[n+1]] {
				from := w.edges[e].from
				if int(from) < len(w.Nodes) {
					pointing = append(pointing, from)
					continue
				}
				for k := range w.insts[int(from)-len(w.Nodes)].joins {
					pointing = append(pointing, w.insts[int(from)-len(w.Nodes)].joins[k].node)
				}
			}
		}
	}
	slices.Sort(pointing)
	return len(slices.Compact(pointing)) > 1 && !w.doubtful(d)
}

// broken: the rank's own node shows what stops a GPU or a NIC. It may be what all wait for, and then silence is no more than
// silence.
func (w *waitFor) broken(n int32) bool {
	return w.Ailing(n, job.GPUAilment) || w.Ailing(n, job.DeadNIC)
}

// lonelyOwn: the fault cannot be the shadow of an unseen neighbour inside the host or behind a silent link.
func (w *waitFor) lonelyOwn(o *own) bool {
	return o.strong || o.what != flawGPU && o.what != flawGPUStart
}

// doubtful: an operation of which one member alone was seen points at the unseen, and that member may be the one that
// called what it should not have.
func (w *waitFor) doubtful(d *decision) bool {
	if m := w.oneMissing(); m != nil && len(m.Ranks) > 1 && len(d.chosen) > 1 {
		return false // A whole host is silent and several operations point at it: one wrong call is the lesser story.
	}
	for i := range d.chosen {
		for _, n := range d.chosen[i].nodes {
			for _, e := range w.in[w.rrow[n]:w.rrow[n+1]] {
				in := w.edges[e].inst
				if in >= 0 && len(w.insts[in].joins) == 1 && w.aloneInDoubt(&w.insts[in], w.edges[e].to) {
					return true
				}
			}
		}
	}
	return false
}

// aloneInDoubt says that the one seen member of an operation may have called what it should not have: nothing shows that
// the unseen one was ever in it. Of sends and receives, a second rank in another one with the same node is such a sign.
func (w *waitFor) aloneInDoubt(in *instance, unseen int32) bool {
	if fromOthers(in.op()) {
		return false
	}
	if !in.key.p2p() {
		return w.unusual(in)
	}
	for _, e := range w.in[w.rrow[unseen]:w.rrow[unseen+1]] {
		if i := w.edges[e].inst; i >= 0 && w.insts[i].key.p2p() && w.insts[i].joins[0].node != in.joins[0].node {
			return false
		}
	}
	return true
}

// fromOthers says that another member has taken data of the operation or sent some: it has called it too.
func fromOthers(o *rca.Op) bool {
	return slices.ContainsFunc(o.Flows, func(f rca.Flow) bool { return f.Send && f.Done > 0 || !f.Send && f.Ready > 0 })
}

// oneMissing gives the one source whose silence explains every rank that was not seen; or, of several, the one that fell silent
// when the job stopped, where the others are known to be silent for another reason.
func (w *waitFor) oneMissing() *rca.Missing {
	if w.Ev.Partial {
		for i := range w.Ev.Missing {
			if m := &w.Ev.Missing[i]; len(m.Ranks) > 0 {
				return pick(w.onlyMissing(m), m, nil)
			}
		}
		return nil
	}
	var all []int
	var lost *rca.Missing
	sources, candidates := 0, 0
	for i := range w.Ev.Missing {
		m := &w.Ev.Missing[i]
		if len(m.Ranks) == 0 {
			continue
		}
		sources++
		all = append(all, m.Ranks...)
		if w.accountsFor(m.Ranks) {
			return m
		}
		if m.Heard <= 0 || w.silencedByLoss(m) {
			lost, candidates = m, candidates+1
		}
	}
	if candidates == 1 && lost.Heard > 0 && sources > 1 && w.accountsFor(all) {
		return lost
	}
	return nil
}

// accountsFor says that nobody but these ranks was not seen.
func (w *waitFor) accountsFor(ranks []int) bool {
	for n := range w.Nodes {
		if nd := &w.Nodes[n]; nd.Rank == nil && nd.ID >= 0 && !slices.Contains(ranks, nd.ID) {
			return false
		}
	}
	return w.World-w.Seen <= len(ranks)
}

// onlyMissing: nobody else was asked and did not answer.
func (x *standstill) onlyMissing(m *rca.Missing) bool {
	for i := range x.Ev.Missing {
		if o := &x.Ev.Missing[i]; o != m && len(o.Ranks) > 0 {
			return false
		}
	}
	return true
}

// leadsTo says that everything waits for ranks of the source, as far as their numbers are known.
func leadsTo(m *rca.Missing, ids []int) bool {
	return !slices.ContainsFunc(ids, func(id int) bool { return !slices.Contains(m.Ranks, id) })
}

// waiters says "1 rank waits" or "3 ranks wait".
func (w *waitFor) waiters() string {
	return words.Plural(len(w.stuck), "rank") + pick(len(w.stuck) == 1, " waits", " wait")
}

// halfCalled gives the call in which all waiting ends, for members that nobody can name; nil where it ends elsewhere, too.
func (w *waitFor) halfCalled(d *decision) *instance {
	if len(d.chosen) != 1 || d.chosen[0].inst < 0 || w.Nodes[d.chosen[0].nodes[0]].ID >= 0 {
		return nil
	}
	in := &w.insts[d.chosen[0].inst]
	if !w.Comms[in.key.comm].Call {
		return nil
	}
	return in
}
