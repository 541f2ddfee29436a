// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Warning is what NCCL warned of, in a process of which the rank may be known from a communicator's start.
type Warning struct {
	Host string
	PID  int
	GPU  string
	Text string
}

const warns = "NCCL WARN "

var warnLine = regexp.MustCompile(`(?m)(\S+?):(\d+):\d+ \[(\d+)\] (?:\S+ )?NCCL WARN ([^\r\n]+)`)

// mostWarnings are quoted: the first of as many processes. What comes later follows from them.
const mostWarnings = 8

func (p *parser) warnings() {
	if !bytes.Contains(p.text, []byte(warns)) {
		return
	}
	told := map[string]bool{}
	const looked = 256
	for _, m := range warnLine.FindAllSubmatch(p.text, looked) {
		who := unlabelled(string(m[1])) + ":" + string(m[2])
		if told[who] || len(told) == mostWarnings {
			continue
		}
		told[who] = true
		p.log.Warnings = append(p.log.Warnings, Warning{
			Host: unlabelled(string(m[1])), PID: int(number(m[2])), GPU: string(m[3]), Text: cut(strings.TrimSpace(string(m[4]))),
		})
	}
}

// unlabelled gives a host's name without labels of launchers, which stand before it without a blank.
func unlabelled(host string) string {
	return host[strings.LastIndexAny(host, ":]>")+1:]
}

// warned quotes NCCL's warnings.
func (b *builder) warned(logs []*Log) {
	n := 0
	for _, l := range logs {
		for _, w := range l.Warnings {
			if n++; n > mostWarnings {
				return
			}
			who := fmt.Sprintf("process %d on %s", w.PID, w.Host)
			for id, r := range b.ranks {
				if r.PID == w.PID && r.Host == w.Host {
					who = fmt.Sprintf("rank %d (%s, GPU %s)", id, w.Host, w.GPU)
				}
			}
			b.notes = append(b.notes, fmt.Sprintf("NCCL warned in %s: %s", who, w.Text))
		}
	}
}

// lost quotes what Ray says that it lost and of which no rank is known.
func (b *builder) lost(logs []*Log) {
	n := 0
	for _, l := range logs {
		for _, loss := range l.Losses {
			if n++; n > mostWarnings {
				return
			}
			what := fmt.Sprintf("worker process %d", loss.PID)
			if loss.PID == 0 {
				what = "host"
			}
			if loss.Host != "" {
				what += " on " + loss.Host
			}
			if loss.PID == 0 && loss.Host != "" {
				what = "host " + loss.Host
			}
			if loss.Rank < 0 {
				b.notes = append(b.notes, fmt.Sprintf("Ray lost its %s (%s); the log does not say which ranks ran there", what, loss.Why))
			}
		}
	}
}

// closedBy is what NCCL says when the other side of a connection went away: who that was, by host.
var closedBy = regexp.MustCompile(`[Cc]onnection closed by (?:remote )?peer ([\w.:-]+?)<\d+>`)

// peers takes the hosts that closed connections.
func (p *parser) peers() {
	for _, m := range closedBy.FindAllSubmatch(p.text, maxRank) {
		if p.log.Closed == nil {
			p.log.Closed = map[string]int{}
		}
		if host := string(m[1]); p.log.Closed[host] > 0 || len(p.log.Closed) < mostWarnings {
			p.log.Closed[host]++
		}
	}
}

// closed tells which hosts closed connections, and which ranks are there. Who closes one may have been ended itself, so that
// nobody is accused of it.
func (b *builder) closed(logs []*Log) {
	hosts := map[string]int{}
	for _, l := range logs {
		for host, n := range l.Closed {
			hosts[host] += n
		}
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		var there []int
		for id, r := range b.ranks {
			if r.Host == host {
				there = append(there, id)
			}
		}
		who := ""
		if len(there) > 0 {
			who = " (" + rankWord(there) + list(set(there)) + ")"
		}
		b.notes = append(b.notes, fmt.Sprintf("host %s%s closed its connections: %d messages say so; look at what ended there first", host, who, hosts[host]))
	}
}
