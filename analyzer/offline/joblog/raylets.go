// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
)

// Loss is a process or a host of which Ray says that it lost it.
type Loss struct {
	Rank int    // Global; -1 unknown.
	Host string // Its address; empty unknown.
	PID  int    // 0: the whole host.
	Why  string
	// Others that Ray lost as well, without saying which.
	Others int
}

// labelledRank is how Ray names a worker's process in the label of its lines.
var labelledRank = regexp.MustCompile(`\(\S+ pid=(\d+)(?:, ip=([\w.:]+))?\)[^\n]{0,40}?\[[rR]ank ?(\d+)\]`)

// mostLosses are kept: what comes later follows from them.
const mostLosses = 64

// intended are reasons for a worker's end that are nobody's failure.
var intended = []string{"INTENDED", "USER_EXIT", "Intended", "ray.kill", "actor handle", "exit_actor"}

// losses takes what Ray lost. labelled is the log with its labels, which name processes.
func (p *parser) losses(labelled []byte) {
	if len(p.lost) == 0 {
		return
	}
	ranks := p.processRanks(labelled)
	if grammar.Repeats(p.text) > 0 {
		ranks = nil // Ray shows one of several alike: who is shown is chance.
	}
	add := func(l Loss) {
		l.Why, _, _ = strings.Cut(l.Why, " There are some potential root causes")
		l.Why = cut(strings.TrimSpace(l.Why))
		l.Rank = -1
		if r, ok := ranks[l.PID]; ok && l.PID > 0 {
			l.Rank = r
		}
		nobody := l.Host == "" && l.PID == 0
		for _, have := range p.log.Losses {
			if nobody || have.Host == l.Host && have.PID == l.PID {
				return
			}
		}
		if !containsAny(l.Why, intended) && len(p.log.Losses) < mostLosses {
			p.log.Losses = append(p.log.Losses, l)
		}
	}
	for i := range p.lost {
		e := &p.lost[i]
		why := cmp.Or(e.Get("what"), e.Get("detail"), "it died or was killed")
		if kind := e.Get("type"); kind != "" {
			why = kind + ": " + why
		}
		others := grammar.Repeats([]byte(why))
		add(Loss{Others: others, Host: strings.TrimRight(e.Get("host"), ","), PID: max(e.Int("pid"), 0), Why: why})
	}
	for _, l := range p.log.Losses {
		if l.Rank >= 0 && l.Rank < maxRank {
			p.end(End{Rank: l.Rank, Why: "its Ray worker died (" + l.Why + ")", Host: l.Host, PID: l.PID})
		}
	}
}

// processRanks gives the ranks of processes. A number that two processes of different hosts share tells nothing.
func (p *parser) processRanks(text []byte) map[int]int {
	out := map[int]int{}
	double := map[int]bool{}
	add := func(id, r int) {
		if have, ok := out[id]; ok && have != r {
			double[id] = true
		}
		out[id] = r
	}
	for _, m := range labelledRank.FindAllSubmatch(text, maxRank) {
		add(int(number(m[1])), int(number(m[3])))
	}
	for _, at := range p.log.Placed {
		add(at.PID, at.Rank)
	}
	for id := range double {
		delete(out, id)
	}
	return out
}

// lost tells of what Ray lost and of which no rank is known.
func (b *builder) lost(logs []*Log) {
	for _, l := range logs {
		for _, loss := range l.Losses {
			if loss.Rank >= 0 {
				continue
			}
			f := told.New(grammar.WorkerDied, "was lost to Ray ("+loss.Why+")")
			if loss.Others > 0 { // Who is shown is chance.
				f.Kind, f.Says = grammar.Terminated, fmt.Sprintf("and %d others were lost to Ray (%s)", loss.Others, loss.Why)
			}
			if f.Host, f.PID = loss.Host, loss.PID; f.PID == 0 && f.Host != "" {
				f.Kind = grammar.HostLost
			}
			b.found = append(b.found, f)
		}
	}
}
