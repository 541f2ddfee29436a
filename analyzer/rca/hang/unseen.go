// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// ofUnseen is the answer where all waiting ends at ranks without a record. One source that did not answer, or one rank, is named where
// nobody else can hold the others; several are suspects together.
func (w *waitFor) ofUnseen(d *decision, confidence float64) answer {
	var nodes []int32
	for i := range d.chosen {
		nodes = append(nodes, d.chosen[i].nodes...)
	}
	ids := w.allIDs(nodes)
	named := len(ids) == len(nodes)
	if rivals := w.rivals(); len(rivals) > 0 {
		return w.ofRivals(d, rivals, ids, confidence)
	}
	wait, certain := words.Opener(w.waiters()), w.mustBeUnseen(d)
	believed := func(r row) row {
		r.weight *= d.explained() * w.KeptFactor()
		return r
	}
	undecided := func(r row) row {
		r.weight = min(r.weight, confidence)
		return r
	}
	m := w.oneMissing()
	if !certain || m != nil && m.What != "rank" && w.Ev.Partial && !leadsTo(m, ids) {
		m = nil
	}
	switch {
	case m != nil && named && m.What == "rank" && len(m.Ranks) == 1:
		// A file that is not there says nothing of a host: the others' waiting alone names the rank.
		return answer{
			row: believed(recordLost), summary: fmt.Sprintf(words.RankUnseen, wait, m.Ranks[0], m.Why),
			culprits: []rca.Culprit{{Rank: m.Ranks[0], Channel: -1, Why: fmt.Sprintf(words.NotSeenBecause, m.Why)}},
		}
	case m != nil && m.What != "rank" && w.stoppedAnswering(m):
		// One missing answer explains all of them: they are not rivals.
		ids = slices.Sorted(slices.Values(m.Ranks))
		lost, text := hostLost, words.HostLost
		if m.Reached {
			lost, text = hostHangs, words.HostHangs
		}
		a := answer{row: believed(lost), summary: fmt.Sprintf(text, wait, words.RankNumbers(ids), m.What, m.Name, m.Why)}
		for _, id := range ids {
			a.culprits = append(a.culprits, rca.Culprit{Rank: id, Channel: -1, Group: m.Name, Why: fmt.Sprintf(words.DoesNotAnswer, m.What)})
		}
		return a
	case m != nil && m.What != "rank":
		if !leadsTo(m, ids) {
			ids = m.Ranks
		}
		a := answer{row: undecided(hostUnobserved), summary: fmt.Sprintf(words.HostUnobserved, wait, words.RankNumbers(ids), m.Name, m.Why)}
		if !m.Alive {
			stopped, _ := w.lastWith(m.Ranks)
			a.summary = fmt.Sprintf(words.HostSilent, wait, words.RankNumbers(ids), m.What, m.Name, m.Why, words.Span(m.Heard), words.Span(stopped))
		}
		who := words.RankNumbers(ids) + " or " + pick(len(ids) == 1, "its host", "their host") + ", not observed"
		a.culprits = []rca.Culprit{{Rank: -1, Channel: -1, Host: m.Name, Group: who, Why: fmt.Sprintf(words.NoExporterThere, words.RankNumbers(ids))}}
		return a
	case named && len(ids) == 1 && w.World-w.Seen == 1 && certain:
		c := rca.Culprit{Rank: ids[0], Channel: -1, Why: words.AllWaitForUnseen}
		if confidence < w.Opt.NameConfidence {
			c.Rank, c.Group = -1, "suspects: "+words.RankNumbers(ids)
		}
		return answer{row: undecided(oneUnseen), summary: fmt.Sprintf(words.RankSuspect, wait, ids[0]), culprits: []rca.Culprit{c}}
	}
	if in := w.halfCalled(d); in != nil {
		c := &w.Comms[in.key.comm]
		return answer{
			row: undecided(restNotCalled), summary: fmt.Sprintf(words.HalfCalled, in.inside, c.Size, in.op().Func, c.Name),
			culprits: []rca.Culprit{{Rank: -1, Channel: -1, Group: "members of " + c.Name, Why: fmt.Sprintf(words.HaveNotCalled, in.op().Func)}},
		}
	}
	return answer{
		row: undecided(severalUnseen), summary: fmt.Sprintf(words.SuspectsUnseen, wait, words.RankNumbers(ids)),
		culprits: []rca.Culprit{{Rank: -1, Channel: -1, Group: fmt.Sprintf(words.OrBehind, words.RankNumbers(ids)), Why: words.NobodySeen}},
	}
}

// allIDs gives the global ranks of nodes that have one, sorted.
func (w *waitFor) allIDs(nodes []int32) []int {
	var ids []int
	for _, n := range nodes {
		if w.Nodes[n].ID >= 0 {
			ids = append(ids, w.Nodes[n].ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// mustBeUnseen reports whether the culprit can only be among the unseen: every rank that was seen waits, nobody shows a fault,
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
		// Where its node shows what stops a GPU or a NIC, that may be what all wait for, and then no answer is no more than that.
		if d.dist[s] < 0 || w.Ailing(s, job.GPUAilment) || w.Ailing(s, job.DeadNIC) {
			return false
		}
	}
	for i := range w.owns {
		// A weak one of a GPU may be the shadow of an unseen neighbour inside the host, one of a link that of its unseen end.
		o := &w.owns[i]
		shadow := o.is(&linkUnproven) || o.strength != strong && o.mayBeInsideHost()
		if o.weight >= suspectFrom && !shadow {
			return false
		}
	}
	for i := range d.chosen {
		if d.chosen[i].peer >= 0 && len(d.chosen) == 1 {
			return false // Its only witness may be the one that does not deliver.
		}
	}
	var pointing []int32
	for _, e := range w.pointsAt(d) {
		if from := w.edges[e].from; int(from) < len(w.Nodes) {
			pointing = append(pointing, from)
		} else {
			for _, j := range w.insts[int(from)-len(w.Nodes)].joins {
				pointing = append(pointing, j.node)
			}
		}
	}
	slices.Sort(pointing)
	return len(slices.Compact(pointing)) > 1 && !w.doubtful(d)
}

// pointsAt gives the edges that end at the chosen.
func (w *waitFor) pointsAt(d *decision) (out []int32) {
	for i := range d.chosen {
		for _, n := range d.chosen[i].nodes {
			out = append(out, w.into(n)...)
		}
	}
	return out
}

// doubtful: an operation of which one member alone was seen points at the unseen, and that member may be the one that
// called what it should not have.
func (w *waitFor) doubtful(d *decision) bool {
	if m := w.oneMissing(); m != nil && len(m.Ranks) > 1 && len(d.chosen) > 1 {
		return false // A whole host does not answer and several operations point at it: one wrong call is the lesser story.
	}
	return slices.ContainsFunc(w.pointsAt(d), func(e int32) bool {
		in := w.edges[e].inst
		return in >= 0 && len(w.insts[in].joins) == 1 && w.aloneInDoubt(&w.insts[in], w.edges[e].to)
	})
}

// aloneInDoubt reports whether the one seen member of an operation may have called what it should not have: nothing shows that
// the unseen one was ever in it. Of sends and receives, a second rank in another one with the same node is such a sign.
func (w *waitFor) aloneInDoubt(in *instance, unseen int32) bool {
	// Another member has taken data of the operation or sent some: it has called it too.
	if slices.ContainsFunc(in.op().Flows, func(f rca.Flow) bool { return f.Send && f.Done > 0 || !f.Send && f.Ready > 0 }) {
		return false
	}
	if !in.key.p2p() {
		return w.unusual(in)
	}
	for _, e := range w.into(unseen) {
		if i := w.edges[e].inst; i >= 0 && w.insts[i].key.p2p() && w.insts[i].joins[0].node != in.joins[0].node {
			return false
		}
	}
	return true
}

// oneMissing gives the one source whose missing answer explains every rank that was not seen; or, of several, the one that stopped answering
// with the job, where the others are known not to answer for another reason.
func (w *waitFor) oneMissing() *rca.Missing {
	var sources []*rca.Missing
	var all []int
	for i := range w.Ev.Missing {
		if m := &w.Ev.Missing[i]; len(m.Ranks) > 0 {
			sources, all = append(sources, m), append(all, m.Ranks...)
		}
	}
	if w.Ev.Partial {
		if len(sources) != 1 {
			return nil
		}
		return sources[0]
	}
	var lost []*rca.Missing
	for _, m := range sources {
		if w.accountsFor(m.Ranks) {
			return m
		}
		if m.Heard <= 0 || w.stoppedAnswering(m) {
			lost = append(lost, m)
		}
	}
	if len(lost) == 1 && lost[0].Heard > 0 && len(sources) > 1 && w.accountsFor(all) {
		return lost[0]
	}
	return nil
}

// accountsFor reports whether nobody but these ranks was not seen.
func (w *waitFor) accountsFor(ranks []int) bool {
	for n := range w.Nodes {
		if nd := &w.Nodes[n]; nd.Rank == nil && nd.ID >= 0 && !slices.Contains(ranks, nd.ID) {
			return false
		}
	}
	return w.World-w.Seen <= len(ranks)
}

// leadsTo reports whether everything waits for ranks of the source, as far as their numbers are known.
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

// scrapes is how long a living exporter may at most not have been heard of: a few scrapes that fail in a row.
const scrapes = time.Minute

// stoppedAnswering reports whether a host may have stopped answering with the job. One that did long before, while others
// still completed operations with it, was alive then and may be now; one that was heard of afterwards is.
func (w *waitFor) stoppedAnswering(m *rca.Missing) bool {
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
