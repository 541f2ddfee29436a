// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// launchVerdict reasons from launch counts and reachability alone, which is all that NCCL RAS has: no operations in
// flight, no completions. ok is false when the evidence has neither.
//
// Who has launched least is waited for by those who have launched more, in each communicator; a rank that is behind in
// one and ahead in another waits itself, so the culprits are those who are behind and wait for nobody. A report catches
// ranks at slightly different moments: one operation of difference is none until a second report shows it again.
func launchVerdict(x *index) (v Verdict, ok bool) {
	l := launches{index: x, edges: map[int32]map[int32]lag{}}
	l.read()
	if !l.any {
		return Verdict{}, false
	}
	for _, decide := range []func() (Verdict, bool){l.unreachable, l.failed, l.transition, l.otherFunction, l.behind} {
		if v, ok := decide(); ok {
			return v, true
		}
	}
	v = newVerdict(x)
	v.Class, v.Confidence = Healthy, round(0.6*(1-0.4*x.unseen()))
	v.Summary = "All ranks have launched the same operations; whether these complete, launch counts do not say."
	if l.slight > 0 {
		v.Summary = fmt.Sprintf("No rank is behind by more than %s, which running jobs show too; launch counts do not say more.", plural(int(l.slight), "operation"))
		v.Confidence = round(v.Confidence - 0.1)
	}
	l.missing(&v)
	return v, true
}

// lag is by how much one rank is behind another, and where.
type lag struct {
	count     int64
	comm      int32
	confirmed bool // It did not change between two reports.
}

type launches struct {
	*index
	any    bool
	facts  map[string][]*Fact // RAS's, by kind without prefix.
	edges  map[int32]map[int32]lag
	slight int64
}

// factPrefix marks facts from RAS.
const factPrefix = "ras_"

func (l *launches) read() {
	l.facts = map[string][]*Fact{}
	for i := range l.ev.Facts {
		if kind, ok := strings.CutPrefix(l.ev.Facts[i].Kind, factPrefix); ok {
			l.facts[kind] = append(l.facts[kind], &l.ev.Facts[i])
			l.any = true
		}
	}
	for _, fs := range l.facts {
		slices.SortStableFunc(fs, func(a, b *Fact) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Text, b.Text)) })
	}
	for c := range l.comms {
		for i := range l.comms[c].mem {
			m := &l.comms[c].mem[i]
			if l.counted(m) {
				l.any = true
			}
		}
	}
}

// counted: the source counts launches of this rank and sees nothing later.
func (l *launches) counted(m *member) bool {
	r := l.nodes[m.node].rank
	return r != nil && m.m != nil && m.m.FuncCalled != nil && m.m.Called >= 0 && r.Caps&SeesCompletion == 0
}

// readPeriod is within what time the ranks' counts are read, one after the other. Two reports are further apart.
const readPeriod = time.Second

// moves: the rank has called something on the communicator so lately that others may have been read before it. Its
// counts say nothing.
func moves(m *member) bool { return m.m.SinceCalled > 0 && m.m.SinceCalled < readPeriod }

// who gives the ranks of facts, each once.
func who(fs []*Fact) []int {
	var out []int
	for _, f := range fs {
		if f.Rank >= 0 {
			out = append(out, f.Rank)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (l *launches) accuse(v *Verdict, ids []int, why string) {
	for _, id := range ids {
		if n := l.nodeOf(id); n >= 0 && len(v.Culprits) < maxCulprits {
			c := l.culprit(n)
			c.Why = why
			v.Culprits = append(v.Culprits, c)
		}
	}
}

func (l *launches) nodeOf(id int) int32 {
	n, found := slices.BinarySearchFunc(l.nodes, id, func(a node, id int) int { return cmp.Compare(a.id, id) })
	if !found {
		return -1
	}
	return int32(n) //nolint:gosec // Far fewer than 2^31 ranks.
}

func (l *launches) missing(v *Verdict) {
	for i := range l.ev.Missing {
		m := &l.ev.Missing[i]
		v.Missing = append(v.Missing, fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why))
	}
	for _, f := range l.facts["unresponsive"] {
		if f.Rank < 0 {
			v.Evidence = append(v.Evidence, f.Text)
		}
	}
}

// unreachable: a process that died or does not answer is waited for by all others.
func (l *launches) unreachable() (Verdict, bool) {
	back := who(l.facts["recovered"])
	gone := slices.DeleteFunc(who(l.facts["unresponsive"]), func(r int) bool { return slices.Contains(back, r) })
	dead := who(l.facts["dead"])
	leaving := len(l.facts["finalizing"]) + len(l.facts["initializing"])
	nameless := 0
	for _, f := range slices.Concat(l.facts["dead"], l.facts["unresponsive"]) {
		if f.Rank < 0 {
			nameless++
		}
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(dead, gone))))
	if len(all) == 0 && nameless == 0 || len(dead) == 0 && leaving > 0 {
		return Verdict{}, false
	}
	v := newVerdict(l.index)
	v.Class, v.Code = NotEntered, codes[NotEntered]
	v.RanksVisited = l.seen
	switch {
	case len(dead) > 0:
		v.Cause, v.Confidence = CauseProcessGone, 0.9
		v.Summary = fmt.Sprintf("%s lost: the process is considered dead, its peers cannot finish without it.", ranksAre(dead))
		l.accuse(&v, dead, "its process is considered dead")
	case len(gone) > 0:
		v.Cause, v.Confidence = CauseProcessStopped, 0.7
		v.Summary = fmt.Sprintf("%s not answering: the process is stopped, its host is stuck or unreachable.", ranksAre(gone))
		l.accuse(&v, gone, "its process did not answer")
	default:
		v.Class, v.Code, v.Cause, v.Confidence = Unknown, "", CauseUnknown, 0.3
		v.Summary = fmt.Sprintf("%s missing or dead, and the evidence does not say which ranks they are.", opener(plural(nameless, "process")))
	}
	v.Confidence = round(v.Confidence * (1 - 0.4*max(0, float64(len(all)-1))/float64(max(1, l.world))))
	v.Action = actionFor(v.Class, v.Cause)
	v.Page = v.Class != Unknown && l.opt.carries(v.Class, v.Confidence)
	for _, f := range slices.Concat(l.facts["dead"], l.facts["unresponsive"], l.facts["async_error"]) {
		v.Evidence = append(v.Evidence, f.Text)
	}
	for i := range l.ev.Missing {
		m := &l.ev.Missing[i]
		v.Missing = append(v.Missing, fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why))
	}
	return v, true
}

func ranksAre(ids []int) string {
	if len(ids) == 1 {
		return fmt.Sprintf("Rank %d is", ids[0])
	}
	return fmt.Sprintf("Ranks %s are", rankNumbers(ids))
}

// failed: errors that ranks report of themselves. An error that speaks of a remote process is a victim's.
func (l *launches) failed() (Verdict, bool) {
	fs := slices.Concat(l.facts["init_error"], l.facts["async_error"])
	if len(fs) == 0 {
		return Verdict{}, false
	}
	own := slices.DeleteFunc(slices.Clone(fs), func(f *Fact) bool { return strings.Contains(f.Text, "remote") })
	v := newVerdict(l.index)
	v.RanksVisited = l.seen
	v.Class, v.Code = Fault, codes[Fault]
	ids := who(own)
	if len(ids) > 0 && 2*len(ids) <= l.seen {
		v.Confidence = 0.75
		v.Summary = ranksAre(ids) + " in error; the others are not."
		l.accuse(&v, ids, own[0].Text)
	} else {
		v.Class, v.Code, v.Confidence = Unknown, "", 0.3
		v.Summary = fmt.Sprintf("%s report errors; the evidence does not say whose comes first.", opener(plural(len(who(fs)), "rank")))
	}
	for _, f := range fs {
		v.Evidence = append(v.Evidence, f.Text)
	}
	v.Action = actionFor(v.Class, v.Cause)
	v.Page = v.Class != Unknown
	l.missing(&v)
	return v, true
}

// transition: communicators that are being made or taken apart look incomplete for a moment.
func (l *launches) transition() (Verdict, bool) {
	ending, starting := len(who(l.facts["finalizing"])), len(who(l.facts["initializing"]))
	if ending == 0 && starting == 0 {
		return Verdict{}, false
	}
	v := newVerdict(l.index)
	v.Class, v.Cause, v.Confidence = Benign, CauseJobEnd, 0.7
	v.Summary = fmt.Sprintf("A communicator is being finalised by %s: what looks uneven is in transition.", plural(ending, "rank"))
	if starting > ending {
		v.Cause = CauseFirstStep
		v.Summary = fmt.Sprintf("A communicator is being initialised by %s: what looks uneven is in transition.", plural(starting, "rank"))
	}
	v.Action = "Look again in a minute: if it is still so, ranks are stuck in it."
	l.missing(&v)
	return v, true
}

// otherFunction: ranks that launched as many operations as the others, but other ones.
func (l *launches) otherFunction() (Verdict, bool) {
	for c := range l.comms {
		groups := map[string][]int32{}
		total := int64(-1)
		same := true
		for i := range l.comms[c].mem {
			m := &l.comms[c].mem[i]
			if !l.counted(m) {
				continue
			}
			if total < 0 {
				total = m.m.Called
			}
			same = same && m.m.Called == total && !moves(m)
			groups[counts(m.m.FuncCalled)] = append(groups[counts(m.m.FuncCalled)], m.node)
		}
		if !same || len(groups) != 2 {
			continue
		}
		keys := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(groups[a]), len(groups[b])), cmp.Compare(a, b))
		})
		few, many := groups[keys[0]], groups[keys[1]]
		v := newVerdict(l.index)
		v.Class, v.Code, v.Cause, v.Comm = Inconsistent, codes[Inconsistent], CauseOtherOp, l.comms[c].name
		v.RanksVisited = l.seen
		v.Evidence = []string{fmt.Sprintf("%s: %s; the others: %s", l.rankList(few), keys[0], keys[1])}
		v.Confidence = 0.7
		v.Summary = fmt.Sprintf("%s launched other operations than the other %s of communicator %s.", opener(l.rankList(few)), plural(len(many), "rank"), l.comms[c].name)
		if 2*len(few) >= len(few)+len(many) {
			v.Confidence = 0.4
			v.Summary = fmt.Sprintf("The ranks of communicator %s launched different operations; neither half is the odd one.", l.comms[c].name)
		}
		for _, n := range few {
			cu := l.culprit(n)
			cu.Why = "launched " + keys[0]
			v.Culprits = append(v.Culprits, cu)
		}
		v.Action = actionFor(v.Class, v.Cause)
		v.Page = l.opt.carries(v.Class, v.Confidence)
		l.missing(&v)
		return v, true
	}
	return Verdict{}, false
}

func counts(by map[string]int64) string {
	var parts []string
	for _, f := range slices.Sorted(maps.Keys(by)) {
		if by[f] != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", by[f], f))
		}
	}
	return strings.Join(parts, ", ")
}

// behind follows who has launched less to those who are behind and ahead of nobody.
func (l *launches) behind() (Verdict, bool) {
	for c := range l.comms {
		l.compare(int32(c)) //nolint:gosec // Few communicators.
	}
	waitedFor := map[int32]lag{}
	waits := map[int32]bool{}
	for from, tos := range l.edges {
		waits[from] = true
		for to, g := range tos {
			if old, ok := waitedFor[to]; !ok || g.count > old.count || g.count == old.count && g.comm < old.comm {
				waitedFor[to] = g
			}
		}
	}
	if len(waitedFor) == 0 {
		return Verdict{}, false
	}
	var ends []int32
	for n := range waitedFor {
		if !waits[n] {
			ends = append(ends, n)
		}
	}
	slices.Sort(ends)
	v := newVerdict(l.index)
	v.RanksVisited = l.seen
	l.missing(&v)
	if len(ends) == 0 || 2*len(ends) > l.seen {
		v.Confidence = 0.3
		v.Summary = fmt.Sprintf("%s launched more than the others, which are most: launch counts do not say for whom those wait.", opener(plural(len(waits), "rank")))
		if len(ends) == 0 {
			v.Summary = "Ranks are behind each other in different communicators: launch counts alone do not name the first."
		}
		v.Action = "Take a second report, and a Flight Recorder dump or stacks of the ranks behind."
		return v, true
	}
	worst := waitedFor[ends[0]]
	for _, n := range ends {
		if g := waitedFor[n]; g.count > worst.count {
			worst = g
		}
		cu := l.culprit(n)
		cu.Why = fmt.Sprintf("%s behind in communicator %s", plural(int(waitedFor[n].count), "operation"), l.comms[waitedFor[n].comm].name)
		v.Culprits = append(v.Culprits, cu)
	}
	v.Class, v.Code, v.Cause, v.Comm = NotEntered, codes[NotEntered], CauseNotCalled, l.comms[worst.comm].name
	v.Confidence = 0.7
	if worst.confirmed {
		v.Confidence = 0.9
		v.Evidence = append(v.Evidence, "Its count did not change between two reports.")
	} else {
		v.Contradictions = append(v.Contradictions, "One report only: a rank that is slow, not stuck, looks the same for a moment.")
	}
	v.Confidence = round(v.Confidence * (1 - 0.4*l.unseen()))
	v.Summary = fmt.Sprintf("%s not launched what the other ranks have: %s behind in communicator %s.", l.ranksHave(ends), plural(int(worst.count), "operation"), l.comms[worst.comm].name)
	if worst.confirmed && l.nodes[ends[0]].rank.State == ProcessStopped {
		v.Cause = CauseProcessStopped
	}
	for from := range l.nodes {
		if g, ok := l.edges[int32(from)][ends[0]]; ok { //nolint:gosec // As above.
			v.Chain = append(v.Chain, Link{
				From: l.nodes[from].id, To: l.nodes[ends[0]].id, Comm: l.comms[g.comm].name,
				Reason: fmt.Sprintf("has launched %s less", plural(int(g.count), "operation")),
			})
			break
		}
	}
	v.Action = actionFor(v.Class, v.Cause)
	v.Page = l.opt.carries(v.Class, v.Confidence)
	return v, true
}

func (l *launches) ranksHave(ns []int32) string {
	if len(ns) == 1 {
		return opener(l.rankName(ns[0])) + " has"
	}
	return opener(l.rankList(ns)) + " have"
}

// compare adds edges within a communicator, from every rank to those that have launched less.
func (l *launches) compare(c int32) {
	var most int64 = -1
	lowest := int64(-1)
	for i := range l.comms[c].mem {
		if m := &l.comms[c].mem[i]; l.counted(m) {
			most = max(most, m.m.Called)
			if lowest < 0 || m.m.Called < lowest {
				lowest = m.m.Called
			}
		}
	}
	if most == lowest {
		return
	}
	var low, ahead []int32
	confirmed, moving := true, false
	for i := range l.comms[c].mem {
		m := &l.comms[c].mem[i]
		switch {
		case !l.counted(m):
		case m.m.Called == lowest:
			low = append(low, m.node)
			moving = moving || moves(m)
			confirmed = confirmed && m.m.SinceCalled >= l.opt.HangAfter
		default:
			ahead = append(ahead, m.node)
		}
		if l.counted(m) && m.m.SinceCalled == 0 {
			confirmed = false // It launched something between the reports: the communicator moves.
		}
	}
	if moving || most-lowest < 2 && !confirmed {
		l.slight = max(l.slight, most-lowest)
		return
	}
	for _, a := range ahead {
		if l.edges[a] == nil {
			l.edges[a] = map[int32]lag{}
		}
		for _, b := range low {
			if old, ok := l.edges[a][b]; !ok || most-lowest > old.count {
				l.edges[a][b] = lag{most - lowest, c, confirmed}
			}
		}
	}
}
