// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
)

// Warning is what NCCL warned of, in a process of which the rank may be known from a communicator's start.
type Warning struct {
	Rank  int // Global, where the line has it; else -1.
	Host  string
	PID   int
	GPU   string
	Text  string
	Order int
}

// mostWarnings are quoted: the first of as many processes. What comes later follows from them.
const mostWarnings = 8

// warned takes NCCL's warnings: the first of each process.
func (p *parser) warned(e *grammar.Event) {
	w := Warning{
		Rank: e.Int("rank"), Host: unlabelled(cmp.Or(e.Get("host"), e.Get("node"), e.Get("shipper"))), PID: max(e.Int("pid"), e.Int("id"), e.Int("id2"), 0),
		GPU: cmp.Or(e.Get("gpu"), e.Get("dev")), Order: e.At, Text: cut(strings.TrimSpace(e.Get("what"))),
	}
	if w.Rank < 0 {
		if who, ok := p.speaker(e.At); ok && w.PID == 0 {
			w.Rank = who.rank
		}
	}
	again := func(o Warning) bool { return o.Host == w.Host && o.PID == w.PID && o.Rank == w.Rank }
	if len(p.log.Warnings) < mostWarnings && !slices.ContainsFunc(p.log.Warnings, again) {
		p.log.Warnings = append(p.log.Warnings, w)
	}
}

// unlabelled gives a host's name without labels of launchers, which stand before it without a blank.
func unlabelled(host string) string {
	return host[strings.LastIndexAny(host, ":]>")+1:]
}

// name says in which process it was.
func (w *Warning) name(b *builder) string {
	for _, id := range b.Shown() {
		if r := b.Rank(id); w.PID > 0 && r.PID == w.PID && r.Host == w.Host {
			return fmt.Sprintf("rank %d (%s, GPU %s)", id, w.Host, w.GPU)
		}
	}
	var s string
	switch {
	case w.Rank >= 0:
		s = fmt.Sprintf("rank %d", w.Rank)
	case w.PID > 0:
		s = fmt.Sprintf("process %d", w.PID)
	default:
		return "a process"
	}
	if w.Host != "" {
		s += " on " + w.Host
	}
	return s
}

// warned quotes NCCL's warnings.
func (b *builder) warned(logs []*Log) {
	n := 0
	for _, l := range logs {
		for i := range l.Warnings {
			w := &l.Warnings[i]
			if n++; n > mostWarnings {
				return
			}
			b.Note("NCCL warned in %s: %s", w.name(b), w.Text)
			f := told.New(grammar.Warning, "NCCL warned: "+w.Text)
			f.Rank, f.Host, f.PID, f.GPU, f.Order = w.Rank, w.Host, w.PID, w.GPU, w.Order
			b.found = append(b.found, f)
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
			switch {
			case loss.PID == 0 && loss.Host == "":
				what = "worker process"
			case loss.PID == 0:
				what = "host"
			}
			if loss.Host != "" {
				what += " on " + loss.Host
			}
			if loss.PID == 0 && loss.Host != "" {
				what = "host " + loss.Host
			}
			if loss.Rank < 0 {
				b.Note("Ray lost its %s (%s); the log does not say which ranks ran there", what, loss.Why)
				f := told.New(grammar.WorkerDied, "was lost to Ray ("+loss.Why+")")
				if f.Host, f.PID = loss.Host, loss.PID; f.PID == 0 && f.Host != "" {
					f.Kind = grammar.HostLost
				}
				b.found = append(b.found, f)
			}
		}
	}
}

// closed takes the host that closed a connection.
func (p *parser) closed(e *grammar.Event) {
	if p.log.Closed == nil {
		p.log.Closed = map[string]int{}
	}
	if host := e.Get("peer"); p.log.Closed[host] > 0 || len(p.log.Closed) < mostWarnings {
		p.log.Closed[host]++
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
		for _, id := range b.Shown() {
			if b.Rank(id).Host == host {
				there = append(there, id)
			}
		}
		who := ""
		if len(there) > 0 {
			who = " (" + rankWord(there) + list(set(there)) + ")"
		}
		b.Note("host %s%s closed its connections: %d messages say so; look at what ended there first", host, who, hosts[host])
	}
}
