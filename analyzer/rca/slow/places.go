// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/choice"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// sight is the places that explain which flows are slow and which are not.
type sight struct {
	*analysis
	groups []flowGroup
	flush  []slowEnd
	found  []fitted // Best first.
	best   *fitted
	rival  *fitted // As good as the best, and of others; nil none.
	silent []int32 // Ranks that did not answer to which all that is slow is sent,
	behind bool    // if that is so, be they known or not.
}

// reading is a row of the table that says what a sight means.
type reading struct {
	name string
	fits func(*sight) bool
	read func(*sight, finding) finding
}

// readings is the table; the first row that fits holds. What one end explains comes last: everything else is a reason to doubt that end.
var readings = []reading{
	{"every_transfer", func(s *sight) bool { return s.best.all }, (*sight).everyTransfer},
	{"path", func(s *sight) bool { return s.best.nodes == nil }, func(s *sight, f finding) finding { return s.path(f, s.best) }},
	{"wire", func(s *sight) bool { return s.best.link }, (*sight).wire},
	{"silent_receivers", func(s *sight) bool { return s.behind && !s.anySick(s.best.nodes, s.best.factor) }, (*sight).unansweredReceivers},
	{"path_or_end", func(s *sight) bool { return s.rival != nil && s.rival.nodes == nil }, func(s *sight, f finding) finding { return s.path(f, s.rival) }},
	{"shared_path", func(s *sight) bool { return s.rival != nil && s.sharedPath() != nil }, func(s *sight, f finding) finding { return s.path(f, s.sharedPath()) }},
	{"one_direction", (*sight).oneDirection, (*sight).sender},
	{"two_ends", func(s *sight) bool { return s.rival != nil }, func(s *sight, f finding) finding { return s.between(f, s.rival.nodes) }},
	{"end", func(*sight) bool { return true }, func(s *sight, f finding) finding { return s.end(f, s.best.nodes, s.best) }},
}

// locateNet names the place that explains which flows are slow and which are not: the end of a rank, what the ranks of a
// host share, a path.
func (a *analysis) locateNet(groups []flowGroup, flush []slowEnd, gain float64) (finding, bool) {
	s := a.look(groups, flush)
	if s == nil {
		return finding{}, false
	}
	f := finding{
		class: rca.SlowComm, cause: rca.CauseNetworkSend, nodes: s.best.nodes, lane: -1,
		gain: gain, times: s.best.factor, weight: fitWeight + fitSlope*s.best.fit, certain: s.best.fit >= sureFit,
	}
	if s.rival != nil {
		f.ends = slices.Concat(s.best.nodes, s.rival.nodes)
	}
	r := readings[slices.IndexFunc(readings, func(r reading) bool { return a.Opt.Without != r.name && r.fits(s) })]
	f = r.read(s, f)
	f.rule = r.name
	return f, true
}

// look finds the places that explain enough; nil none.
func (a *analysis) look(groups []flowGroup, flush []slowEnd) *sight {
	groups = withoutControl(groups)
	fs := a.newExplainer(groups).explain()
	if len(fs) == 0 || fs[0].fit < leastFit {
		return nil
	}
	best := &fs[0]
	if all := everywhere(fs); all != nil && len(best.nodes) != 1 && !a.anySick(best.nodes, best.factor) {
		best = all
	}
	if best.all {
		if held, some := a.withoutSlack(groups); some {
			if fs = a.newExplainer(held).explain(); len(fs) == 0 || fs[0].fit < sureFit {
				return nil
			}
			best = &fs[0]
			if a.visitedRanks() < a.World && len(best.nodes) > 1 && sendsAll(groups, best.nodes) {
				return nil // Nobody else was seen to send: it may be everybody.
			}
		}
	}
	s := &sight{analysis: a, groups: groups, flush: flush, found: fs, best: best, rival: rivalOf(fs)}
	s.silent, s.behind = a.silentBehind(groups)
	return s
}

// withoutControl leaves out flows of a few bytes that are not slow where others of more are: a few bytes do not feel a link's rate.
func withoutControl(groups []flowGroup) []flowGroup {
	few := func(g flowGroup) bool { return g.key.class.bytes > 0 && g.key.class.bytes <= controlBytes }
	if !slices.ContainsFunc(groups, func(g flowGroup) bool { return g.slow && !few(g) }) {
		return groups
	}
	return slices.DeleteFunc(slices.Clone(groups), func(g flowGroup) bool { return !g.slow && few(g) })
}

func (s *sight) everyTransfer(f finding) finding {
	f.class, f.cause, f.nodes = rca.GlobalSlow, rca.CauseUnknown, nil
	f.what = fmt.Sprintf(words.AllTransfers, s.best.factor)
	return f
}

// path names a path between two hosts, or those hosts' proxies where they hand on late.
func (s *sight) path(f finding, p *fitted) finding {
	elsewhere := func(e slowEnd) bool { return !slices.Contains(p.path[:], s.Host(e.node)) }
	if len(s.flush) > 0 && !slices.ContainsFunc(s.flush, elsewhere) {
		if g, ok := s.locateProxy(s.flush, f.gain); ok {
			return g
		}
	}
	f.nodes, f.weight = nil, min(f.weight, pathWeight)
	f.group = "path " + p.path[0] + "->" + p.path[1]
	f.what = fmt.Sprintf(words.PathSlow, p.factor)
	return f
}

// wire names the sender of a link that is slow in one direction only, while its other flows and the receiver's are as they should be:
// its wire, most likely. The receiver is named where only its own evidence speaks against it.
func (s *sight) wire(f finding) finding {
	from, to := s.best.nodes[:1], s.best.nodes[1:]
	if s.anySick(to, s.best.factor) && !s.anySick(from, s.best.factor) {
		return s.end(f, to, &fitted{place: place{end: endReceive}, factor: s.best.factor})
	}
	return s.senderOr(f, from, to, &fitted{place: place{end: endSend}, factor: s.best.factor}, twoEndsWeight)
}

// oneDirection reports whether one end sends and another receives what is slow, and nothing tells which of them it is.
func (s *sight) oneDirection() bool {
	return s.rival != nil && (s.best.end == endSend && s.rival.end == endReceive || s.best.end == endReceive && s.rival.end == endSend)
}

// sender names the one that sends: its wire, most likely.
func (s *sight) sender(f finding) finding {
	if s.best.end == endSend {
		return s.senderOr(f, s.best.nodes, s.rival.nodes, s.best, twoEndsWeight)
	}
	return s.senderOr(f, s.rival.nodes, s.best.nodes, s.rival, otherEndWeight)
}

func (s *sight) senderOr(f finding, from, to []int32, p *fitted, most float64) finding {
	f = s.end(f, from, p)
	f.weight = min(f.weight, most)
	f.what += fmt.Sprintf(words.OrReceiver, words.RankNumbers(s.IDs(to)))
	return f
}

// unansweredReceivers names the link to receivers that did not answer: they may hold back what they are sent.
func (s *sight) unansweredReceivers(f finding) finding {
	silent := s.silent
	if !slices.ContainsFunc(s.best.nodes, func(n int32) bool { return s.Nodes[n].Visibility != job.NoAnswer }) {
		silent = slowSenders(s.groups) // They are the place itself: the other end is who was seen.
	}
	f.ends = slices.Concat(s.best.nodes, silent)
	return s.between(f, silent)
}

// between names the link between two places that explain alike; without others the other end is ranks that nobody saw.
func (s *sight) between(f finding, others []int32) finding {
	f.nodes, f.weight = nil, min(f.weight, twoEndsWeight)
	other := s.unseenReceiver()
	if len(others) > 0 {
		other = words.RankNumbers(s.IDs(others))
	}
	f.group = fmt.Sprintf(words.LinkBetween, words.RankNumbers(s.IDs(s.best.nodes)), other)
	f.what = fmt.Sprintf(words.LinkSlow, s.best.factor)
	return f
}

// unseenReceiver says who receives the slow flows and was not seen: as a member of its communicator where it is one, else nothing is known.
func (s *sight) unseenReceiver() string {
	type member struct{ comm, rank int32 }
	var who []member
	for i := range s.groups {
		g := &s.groups[i]
		for _, r := range g.unseen {
			if m := (member{g.key.comm, r}); g.slow && !slices.Contains(who, m) {
				who = append(who, m)
			}
		}
	}
	if len(who) != 1 || who[0].rank == nobodyKnown || who[0].comm < 0 {
		return words.UnseenReceiver
	}
	return fmt.Sprintf(words.UnseenMember, who[0].rank, s.Comms[who[0].comm].Name)
}

var (
	thirdPerson = map[end]string{endBoth: "sends and receives", endSend: "sends", endReceive: "receives"}
	plainVerb   = map[end]string{endBoth: "send and receive", endSend: "send", endReceive: "receive"}
)

// end names ranks, and what is slow at them: the network, PCIe, or the thread that serves it.
func (s *sight) end(f finding, nodes []int32, p *fitted) finding {
	f.nodes, f.end, f.against = nodes, p.end, (*analysis).compareFlows
	for i := range s.groups {
		if g := &s.groups[i]; g.node == nodes[0] && g.slow {
			f.lane = max(f.lane, g.lane)
		}
	}
	whose := pick(len(nodes) == 1, "its", "their")
	f.what = fmt.Sprintf(words.EndSlow,
		pick(len(nodes) == 1, "it", "they"), pick(len(nodes) == 1, thirdPerson, plainVerb)[p.end], p.factor, whose)
	flush, hosts := s.flush, s.hostsOf(nodes)
	if countFunc(flush, func(e slowEnd) bool { return !slices.Contains(hosts, s.Host(e.node)) }) > 2*len(nodes) {
		flush = nil // Those who wait for one step at a time hand each on by itself: it comes with waiting.
	}
	handsOnLate := func(n int32) bool {
		return slices.ContainsFunc(flush, func(e slowEnd) bool { return e.node == n })
	}
	pcie, late, cpu := 0, 0, 0
	for _, n := range nodes {
		if s.hasFact(n, "pcie") {
			pcie++
		}
		if handsOnLate(n) || s.starved(n, p.factor) {
			late++
		}
		if s.hasFact(n, "cpu") {
			cpu++
		}
	}
	switch {
	case 2*pcie > len(nodes):
		f.cause = rca.CausePCIe
	case 2*late > len(nodes):
		f.cause = pick(2*cpu > len(nodes), rca.CauseCPU, rca.CauseProxy)
		f.what = fmt.Sprintf(pick(slices.ContainsFunc(nodes, handsOnLate), words.ProxyStarves, words.ProxyShort), whose, p.factor, whose)
	}
	return f
}

// everywhere gives the explanation that every flow is slow, if no other leads it: between two hosts nothing tells one of them from both.
func everywhere(fs []fitted) *fitted {
	i := slices.IndexFunc(fs, func(f fitted) bool { return f.all && !choice.Leads(fs[0].fit, f.fit) })
	if i < 0 {
		return nil
	}
	return &fs[i]
}

// rivalOf gives the place that explains as much as the first and is another one; nil none.
func rivalOf(fs []fitted) *fitted {
	best := fs[0].nodes
	if best == nil {
		return nil
	}
	fs = slices.DeleteFunc(slices.Clone(fs), func(f fitted) bool {
		return f.all || f.nodes == nil && f.from == 1 && len(best) == 1 // A path that one rank alone is seen to use is that rank's.
	})
	options := make([]choice.Option, len(fs))
	for i := range fs {
		options[i] = choice.Option{Score: fs[i].score, Nodes: fs[i].nodes}
	}
	if i := choice.Rival(options); i >= 0 {
		return &fs[i]
	}
	return nil
}

// sharedPath gives the path that explains as much as the best place does, by what several ranks send on it: it is less that one path is
// slow than that several NICs at once are. nil none.
func (s *sight) sharedPath() *fitted {
	i := slices.IndexFunc(s.found, func(f fitted) bool { return f.nodes == nil && !f.all && f.from > 1 && !choice.Leads(s.best.fit, f.fit) })
	if i < 0 || len(s.best.nodes) < 2 {
		return nil
	}
	return &s.found[i]
}

// silentBehind reports whether everything slow is sent to ranks that did not answer, too, and gives those that are known: they may hold
// it back and not tell.
func (a *analysis) silentBehind(groups []flowGroup) (known []int32, all bool) {
	for i := range groups {
		g := &groups[i]
		if !g.slow {
			continue
		}
		all = len(g.unseen) > 0
		for _, p := range g.peers {
			if a.Nodes[p.node].Visibility == job.NoAnswer {
				known, all = append(known, p.node), true
			}
		}
		if !all {
			return nil, false
		}
	}
	slices.Sort(known)
	return slices.Compact(known), all
}

func slowSenders(groups []flowGroup) []int32 {
	var out []int32
	for i := range groups {
		if groups[i].slow {
			out = append(out, groups[i].node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sendsAll reports whether all flows that were seen are of these ranks.
func sendsAll(groups []flowGroup, nodes []int32) bool {
	return !slices.ContainsFunc(groups, func(g flowGroup) bool { return !slices.Contains(nodes, g.node) })
}
