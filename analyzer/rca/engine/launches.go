// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// launchVerdict reasons from launch counts and reachability alone, which is all that NCCL RAS has: no operations in
// flight, no completions. ok is false when the evidence has neither.
//
// In each communicator, ranks that have launched more wait for the rank that has launched least. A rank that is behind in one
// communicator and ahead in another waits itself. So the culprits are the ranks that are behind and wait for nobody. A report
// reads ranks at slightly different moments: a difference of one operation counts only when a second report confirms it.
func launchVerdict(x *job.Index) (v rca.Verdict, ok bool) {
	l := launches{Index: x, edges: map[int32]map[int32]lag{}}
	l.read()
	if !l.any {
		return rca.Verdict{}, false
	}
	for _, decide := range []func() (rca.Verdict, bool){l.unreachable, l.failed, l.transition, l.otherFunction, l.behind} {
		if v, ok := decide(); ok {
			return v, true
		}
	}
	v = job.NewVerdict(x)
	if fs := l.facts["unsettled"]; len(fs) > 0 {
		v.Confidence, v.Action = partlySeenWeight, rca.ActionFor(rca.Unknown, rca.CauseUnknown)
		v.Summary = words.CountsOfUnknown
		for _, f := range fs {
			v.Evidence = append(v.Evidence, f.Text)
		}
		l.missing(&v)
		return v, true
	}
	l.alike(&v)
	l.missing(&v)
	return v, true
}

// alike writes the verdict where no rank is behind by more than in running jobs. Only counts that have moved show that the job
// makes progress: ranks that are all stuck inside one operation have launched alike, too.
func (l *launches) alike(v *rca.Verdict) {
	moved, again := l.moved()
	if moved && l.Ev.PastAsked {
		v.Confidence = unknownWeight
		v.Summary = words.LaunchesGoOnUntimed
		v.Action = words.LoadPlugin
		return
	}
	if moved {
		v.Class, v.Confidence = rca.Healthy, rca.Round(launchesGoOnWeight*l.SeenFactor())
		v.Summary = words.LaunchesGoOn
		return
	}
	v.Confidence, v.Action = unknownWeight, words.SecondReport
	slices.Sort(l.late)
	l.late = slices.Compact(l.late)
	switch {
	case l.slight > 0:
		v.Summary = fmt.Sprintf(words.SlightlyBehind, ranksAre(l.IDs(l.late)), words.Plural(int(l.slight), "operation"))
		v.Culprits = append(v.Culprits, rca.Culprit{
			Rank: -1, Channel: -1, Group: "suspects: " + words.RankNumbers(l.IDs(l.late)),
			Why: fmt.Sprintf(words.BehindInOneReport, words.Plural(int(l.slight), "operation")),
		})
	case again:
		v.Summary = words.LaunchedAlikeTwice
		v.Action = words.StacksOrDump
	default:
		v.Summary = words.LaunchedAlike
	}
}

// moved reports whether any rank launched something between two reports, or lately; again, whether there were two reports.
func (l *launches) moved() (moved, again bool) {
	for c := range l.Comms {
		for i := range l.Comms[c].Members {
			m := &l.Comms[c].Members[i]
			if !l.counted(m) {
				continue
			}
			moved = moved || m.Membership.SinceCalled == 0 || moves(m)
			again = again || m.Membership.SinceCalled >= readPeriod
		}
	}
	return moved, again
}

// lag is how far one rank is behind another, and in which communicator.
type lag struct {
	count     int64
	comm      int32
	confirmed bool // It did not change between two reports.
}

type launches struct {
	*job.Index
	any    bool
	facts  map[string][]*rca.Fact // Facts from RAS, by kind without prefix.
	edges  map[int32]map[int32]lag
	slight int64   // Largest lag that is no larger than in running jobs,
	late   []int32 // and the ranks with it.
}

// factPrefix marks facts from RAS.
const factPrefix = "ras_"

func (l *launches) read() {
	l.facts = map[string][]*rca.Fact{}
	for i := range l.Ev.Facts {
		if kind, ok := strings.CutPrefix(l.Ev.Facts[i].Kind, factPrefix); ok {
			l.facts[kind] = append(l.facts[kind], &l.Ev.Facts[i])
			l.any = true
		}
	}
	for _, fs := range l.facts {
		slices.SortStableFunc(fs, func(a, b *rca.Fact) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Text, b.Text)) })
	}
	for c := range l.Comms {
		for i := range l.Comms[c].Members {
			m := &l.Comms[c].Members[i]
			if l.counted(m) {
				l.any = true
			}
		}
	}
}

// counted reports whether the source counts a member's launches and sees nothing after the launch.
func (l *launches) counted(m *job.Member) bool {
	r := l.Nodes[m.Node].Rank
	return r != nil && m.Membership != nil && m.Membership.FuncCalled != nil && m.Membership.Called >= 0 && r.Caps&rca.SeesCompletion == 0
}

// readPeriod is the time within which a report reads the ranks' counts one after another. Two reports are further apart.
const readPeriod = time.Second

// moves reports whether the rank called something on the communicator so lately that other ranks may have been read before that
// call. Its counts then show nothing.
func moves(m *job.Member) bool {
	return m.Membership.SinceCalled > 0 && m.Membership.SinceCalled < readPeriod
}

// who gives the ranks of facts, without duplicates.
func who(fs []*rca.Fact) []int {
	var out []int
	for _, f := range fs {
		if f.Rank >= 0 {
			out = append(out, f.Rank)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (l *launches) accuse(v *rca.Verdict, ids []int, why string) {
	for _, id := range ids {
		if n := l.NodeOf(id); n >= 0 && len(v.Culprits) < rca.MaxCulprits {
			c := l.Culprit(n)
			c.Why = why
			v.Culprits = append(v.Culprits, c)
		}
	}
}

func (l *launches) missing(v *rca.Verdict) {
	for i := range l.Ev.Missing {
		m := &l.Ev.Missing[i]
		v.Missing = append(v.Missing, fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why))
	}
	for _, f := range l.facts["unresponsive"] {
		if f.Rank < 0 {
			v.Evidence = append(v.Evidence, f.Text)
		}
	}
}

// unreachable names processes that died or do not answer: all others wait for them.
func (l *launches) unreachable() (rca.Verdict, bool) {
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
		return rca.Verdict{}, false
	}
	v := job.NewVerdict(l.Index)
	v.Class, v.Code = rca.NotEntered, rca.NotEntered.Code()
	v.RanksVisited = l.Seen
	switch {
	case len(dead) > 0:
		v.Cause, v.Confidence = rca.CauseProcessGone, saidDeadWeight
		v.Summary = fmt.Sprintf(words.ConsideredDead, ranksAre(dead))
		l.accuse(&v, dead, words.DeadWhy)
	case len(gone) > 0:
		v.Cause, v.Confidence = rca.CauseProcessStopped, notAnsweringWeight
		v.Summary = fmt.Sprintf(words.NotAnswering, ranksAre(gone))
		l.accuse(&v, gone, words.NotAnsweringWhy)
	default:
		v.Class, v.Code, v.Cause, v.Confidence = rca.Unknown, "", rca.CauseUnknown, unknownWeight
		v.Summary = fmt.Sprintf(words.DeadUnnamed, words.Opener(words.Plural(nameless, "process")))
	}
	v.Confidence = rca.Round(v.Confidence * (1 - job.UnseenDiscount*max(0, float64(len(all)-1))/float64(max(1, l.World))))
	v.Action = rca.ActionFor(v.Class, v.Cause)
	for _, f := range slices.Concat(l.facts["dead"], l.facts["unresponsive"], l.facts["async_error"]) {
		v.Evidence = append(v.Evidence, f.Text)
	}
	for i := range l.Ev.Missing {
		m := &l.Ev.Missing[i]
		v.Missing = append(v.Missing, fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why))
	}
	return v, true
}

func ranksAre(ids []int) string {
	return words.Opener(words.RankNumbers(ids)) + is(len(ids))
}

// failed names ranks that report errors of their own. A rank whose error is about a remote process is a victim.
func (l *launches) failed() (rca.Verdict, bool) {
	fs := slices.Concat(l.facts["init_error"], l.facts["async_error"])
	if len(fs) == 0 {
		return rca.Verdict{}, false
	}
	own := slices.DeleteFunc(slices.Clone(fs), func(f *rca.Fact) bool { return strings.Contains(f.Text, "remote") })
	v := job.NewVerdict(l.Index)
	v.RanksVisited = l.Seen
	v.Class, v.Code = rca.Fault, rca.Fault.Code()
	ids := who(own)
	if len(ids) > 0 && 2*len(ids) <= l.Seen {
		v.Confidence = ownErrorWeight
		v.Summary = ranksAre(ids) + words.InError
		l.accuse(&v, ids, own[0].Text)
	} else {
		v.Class, v.Code, v.Confidence = rca.Unknown, "", unknownWeight
		v.Summary = fmt.Sprintf(words.ErrorsOfSeveral, words.Opener(words.Plural(len(who(fs)), "rank")))
	}
	for _, f := range fs {
		v.Evidence = append(v.Evidence, f.Text)
	}
	v.Action = rca.ActionFor(v.Class, v.Cause)
	l.missing(&v)
	return v, true
}

// transition handles communicators that are being made or taken apart: these look incomplete for a moment.
func (l *launches) transition() (rca.Verdict, bool) {
	ending, starting := len(who(l.facts["finalizing"])), len(who(l.facts["initializing"]))
	if ending == 0 && starting == 0 {
		return rca.Verdict{}, false
	}
	v := job.NewVerdict(l.Index)
	v.Class, v.Cause, v.Confidence = rca.Benign, rca.CauseJobEnd, transitionWeight
	v.Summary = fmt.Sprintf(words.Finalising, words.Plural(ending, "rank"))
	if starting > ending {
		v.Cause = rca.CauseFirstStep
		v.Summary = fmt.Sprintf(words.Initialising, words.Plural(starting, "rank"))
	}
	v.Action = words.LookInAMinute
	l.missing(&v)
	return v, true
}

// otherFunction names ranks that launched as many operations as the others, but different ones.
func (l *launches) otherFunction() (rca.Verdict, bool) {
	for c := range l.Comms {
		groups := map[string][]int32{}
		total := int64(-1)
		same := true
		for i := range l.Comms[c].Members {
			m := &l.Comms[c].Members[i]
			if !l.counted(m) {
				continue
			}
			launched := l.launched(int32(c), m)
			if total < 0 {
				total = launched
			}
			same = same && launched == total && !moves(m)
			kinds := counts(m.Membership.FuncCalled)
			groups[kinds] = append(groups[kinds], m.Node)
		}
		if !same || len(groups) != 2 {
			continue
		}
		keys := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(groups[a]), len(groups[b])), cmp.Compare(a, b))
		})
		few, many := groups[keys[0]], groups[keys[1]]
		v := job.NewVerdict(l.Index)
		v.Class, v.Code, v.Cause, v.Comm = rca.Inconsistent, rca.Inconsistent.Code(), rca.CauseOtherOp, l.Comms[c].Name
		v.RanksVisited = l.Seen
		v.Evidence = []string{fmt.Sprintf(words.OtherFunctions, l.RankList(few), keys[0], keys[1])}
		v.Confidence = oneReportWeight
		v.Summary = fmt.Sprintf(words.LaunchedOther, words.Opener(l.RankList(few)), words.Plural(len(many), "rank"), l.Comms[c].Name)
		if 2*len(few) >= len(few)+len(many) {
			v.Confidence = splitWeight
			v.Summary = fmt.Sprintf(words.LaunchedSplit, l.Comms[c].Name)
		}
		for _, n := range few {
			cu := l.Culprit(n)
			cu.Why = "launched " + keys[0]
			v.Culprits = append(v.Culprits, cu)
		}
		v.Action = rca.ActionFor(v.Class, v.Cause)
		l.missing(&v)
		return v, true
	}
	return rca.Verdict{}, false
}

func counts(by map[string]int64) string {
	var parts []string
	for _, f := range slices.Sorted(maps.Keys(by)) {
		if by[f] != 0 && !sendOrRecv(f) {
			parts = append(parts, fmt.Sprintf("%d %s", by[f], f))
		}
	}
	return strings.Join(parts, ", ")
}

// behind follows the ranks that have launched less to those that are behind and ahead of nobody.
func (l *launches) behind() (rca.Verdict, bool) {
	for c := range l.Comms {
		l.compare(int32(c))
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
		return rca.Verdict{}, false
	}
	var ends []int32
	for n := range waitedFor {
		if !waits[n] {
			ends = append(ends, n)
		}
	}
	slices.Sort(ends)
	v := job.NewVerdict(l.Index)
	v.RanksVisited = l.Seen
	l.missing(&v)
	if len(ends) == 0 || 2*len(ends) > l.Seen {
		v.Confidence = unknownWeight
		v.Summary = fmt.Sprintf(words.MostAhead, words.Opener(words.Plural(len(waits), "rank")))
		if len(ends) == 0 {
			v.Summary = words.BehindEachOther
		}
		v.Action = words.SecondReportAndDump
		return v, true
	}
	worst := waitedFor[ends[0]]
	for _, n := range ends {
		if g := waitedFor[n]; g.count > worst.count {
			worst = g
		}
		cu := l.Culprit(n)
		cu.Why = fmt.Sprintf(words.BehindBy, words.Plural(int(waitedFor[n].count), "operation"), l.Comms[waitedFor[n].comm].Name)
		v.Culprits = append(v.Culprits, cu)
	}
	v.Class, v.Code, v.Cause, v.Comm = rca.NotEntered, rca.NotEntered.Code(), rca.CauseNotCalled, l.Comms[worst.comm].Name
	v.Confidence = oneReportWeight
	if worst.confirmed {
		v.Confidence = twoReportsWeight
		v.Evidence = append(v.Evidence, words.CountUnchanged)
	} else {
		v.Contradictions = append(v.Contradictions, words.OneReport)
	}
	v.Confidence = rca.Round(v.Confidence * l.SeenFactor())
	v.Summary = fmt.Sprintf(words.NotLaunched, l.ranksHave(ends), words.Plural(int(worst.count), "operation"), l.Comms[worst.comm].Name)
	if worst.confirmed && l.Nodes[ends[0]].Rank.State == rca.ProcessStopped {
		v.Cause = rca.CauseProcessStopped
	}
	for from := range l.Nodes {
		if g, ok := l.edges[int32(from)][ends[0]]; ok {
			v.Chain = append(v.Chain, rca.Link{
				From: l.Nodes[from].ID, To: l.Nodes[ends[0]].ID, Comm: l.Comms[g.comm].Name,
				Reason: fmt.Sprintf(words.WaitLaunchedLess, words.Plural(int(g.count), "operation")),
			})
			break
		}
	}
	v.Waited = rca.Round(l.idle(ends).Seconds())
	v.Action = rca.ActionFor(v.Class, v.Cause)
	return v, true
}

// idle gives how long none of these ranks has called anything on any communicator, 0 unknown. A trigger may have fired for an
// earlier wait that has ended.
func (l *launches) idle(ns []int32) time.Duration {
	least := time.Duration(0)
	for _, n := range ns {
		for i := range l.Nodes[n].Rank.Memberships {
			if d := l.Nodes[n].Rank.Memberships[i].SinceCalled; d > 0 && (least == 0 || d < least) {
				least = d
			}
		}
	}
	return least
}

func (l *launches) ranksHave(ns []int32) string {
	if len(ns) == 1 {
		return words.Opener(l.RankName(ns[0])) + " has"
	}
	return words.Opener(l.RankList(ns)) + " have"
}

// launched counts what a member has launched of the operations that all members launch alike. Sends and receives are excluded:
// the ends of a pipeline have one neighbour, the stages between them have two.
func (l *launches) launched(c int32, m *job.Member) int64 {
	if !l.Comms[c].P2P {
		return m.Membership.Called
	}
	n := int64(0)
	for fn, count := range m.Membership.FuncCalled {
		if !sendOrRecv(fn) {
			n += count
		}
	}
	return n
}

func sendOrRecv(fn string) bool { return fn == "Send" || fn == "Recv" }

// compare adds edges within a communicator, from every rank to those that have launched less.
func (l *launches) compare(c int32) {
	var most int64 = -1
	lowest := int64(-1)
	for i := range l.Comms[c].Members {
		if m := &l.Comms[c].Members[i]; l.counted(m) {
			n := l.launched(c, m)
			most = max(most, n)
			if lowest < 0 || n < lowest {
				lowest = n
			}
		}
	}
	if most == lowest {
		return
	}
	var low, ahead []int32
	confirmed, moving, waiting := true, false, false
	for i := range l.Comms[c].Members {
		m := &l.Comms[c].Members[i]
		switch {
		case !l.counted(m):
		case l.launched(c, m) == lowest:
			low = append(low, m.Node)
			moving = moving || moves(m)
			confirmed = confirmed && m.Membership.SinceCalled >= l.Opt.HangAfter
		default:
			ahead = append(ahead, m.Node)
			waiting = waiting || l.waits(c, m, lowest)
		}
		if l.counted(m) && m.Membership.SinceCalled == 0 {
			confirmed = false // It launched something between the reports, so the communicator makes progress.
		}
	}
	if moving || !waiting || most-lowest < 2 && !confirmed {
		l.slight = max(l.slight, most-lowest)
		l.late = append(l.late, low...)
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

// waits reports whether a member launched an operation that others have not launched, long enough ago to wait for them; where the
// time is not known, it does.
func (l *launches) waits(c int32, m *job.Member, lowest int64) bool {
	known := false
	for i := range m.Membership.InFlight {
		if o := &m.Membership.InFlight[i]; !l.Comms[c].P2P && o.Number >= lowest {
			if o.Age >= l.Opt.HangAfter {
				return true
			}
			known = true
		}
	}
	return !known
}
