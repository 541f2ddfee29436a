// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"regexp"
	"strings"
)

// Loss is a process or a host of which Ray says that it lost it.
type Loss struct {
	Rank int    // Global; -1 unknown.
	Host string // Its address; empty unknown.
	PID  int    // 0: the whole host.
	Why  string
}

var (
	// lostWorker is what a raylet says of a worker that ended, or an exception of an actor that did.
	lostWorker = regexp.MustCompile(`(?s)Worker IP address: (\S+).{0,80}?Worker PID: (\d+) Worker exit type: (\w+) Worker exit detail: ([^\n]+)`)
	lostActor  = regexp.MustCompile(`(?s)The actor died unexpectedly before finishing this task\..{0,400}?pid: (\d+).{0,200}?ip: (\S+)\s*([^\n]*)`)
	lostNode   = regexp.MustCompile(`The node with (?:node id|client ID):? \S+?(?: and (?:address|ip): (\S+?))?(?: and node name: \S+)? has been marked dead because (?:the )?([^.\n]+)`)
	// Ray names a worker's process in the label of its lines, and Ray Train the ranks of all workers.
	labelledRank = regexp.MustCompile(`\(\S+ pid=(\d+)(?:, ip=([\w.:]+))?\)[^\n]{0,40}?\[rank(\d+)\]`)
	worldRank    = regexp.MustCompile(`\((?:node_id=\w+, )?ip=([\w.:]+), pid=(\d+)\) world_rank=(\d+)`)
)

// mostLosses are kept: what comes later follows from them.
const mostLosses = 64

func sniffLosses(data []byte) bool {
	return bytes.Contains(data, []byte("Worker exit detail: ")) || bytes.Contains(data, []byte("The actor died unexpectedly")) ||
		bytes.Contains(data, []byte("has been marked dead because")) && lostNode.Match(data)
}

// intended are reasons for a worker's end that are nobody's failure.
var intended = []string{"INTENDED", "USER_EXIT", "Intended", "ray.kill", "actor handle", "exit_actor"}

// losses takes what Ray lost. labelled is the log with its labels, which name processes.
func (p *parser) losses(labelled []byte) {
	if !sniffLosses(p.text) {
		return
	}
	ranks := processRanks(labelled)
	if repeated.Match(p.text) {
		ranks = nil // Ray shows one of several alike: who is shown is chance.
	}
	add := func(l Loss) {
		l.Why = cut(strings.TrimSpace(l.Why))
		l.Rank = -1
		if r, ok := ranks[l.PID]; ok && l.PID > 0 {
			l.Rank = r
		}
		for _, have := range p.log.Losses {
			if have.Host == l.Host && have.PID == l.PID {
				return
			}
		}
		if !containsAny(l.Why, intended) && len(p.log.Losses) < mostLosses {
			p.log.Losses = append(p.log.Losses, l)
		}
	}
	for _, m := range lostWorker.FindAllSubmatch(p.text, mostLosses) {
		add(Loss{Host: string(m[1]), PID: int(number(m[2])), Why: string(m[3]) + ": " + string(m[4])})
	}
	for _, m := range lostActor.FindAllSubmatch(p.text, mostLosses) {
		add(Loss{Host: string(m[2]), PID: int(number(m[1])), Why: string(m[3])})
	}
	for _, m := range lostNode.FindAllSubmatch(p.text, mostLosses) {
		add(Loss{Host: strings.TrimRight(string(m[1]), ","), Why: string(m[2])})
	}
	for _, l := range p.log.Losses {
		if l.Rank >= 0 && l.Rank < maxRank {
			p.end(End{Rank: l.Rank, Why: "its Ray worker died (" + l.Why + ")", Host: l.Host, PID: l.PID})
		}
	}
}

// processRanks gives the ranks of processes. A number that two processes of different hosts share tells nothing.
func processRanks(text []byte) map[int]int {
	out := map[int]int{}
	double := map[int]bool{}
	add := func(pid, rank []byte) {
		id, r := int(number(pid)), int(number(rank))
		if have, ok := out[id]; ok && have != r {
			double[id] = true
		}
		out[id] = r
	}
	for _, m := range labelledRank.FindAllSubmatch(text, maxRank) {
		add(m[1], m[3])
	}
	for _, m := range worldRank.FindAllSubmatch(text, maxRank) {
		add(m[2], m[3])
	}
	for id := range double {
		delete(out, id)
	}
	return out
}
