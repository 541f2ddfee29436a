// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
)

// Watch is where a launcher that watches over ranks says that one is: the rank monitors of NVIDIA's Resiliency Extension when they
// lose patience, dlrover's training events at the end of a file.
type Watch struct {
	Rank  int    // Global.
	Where string // "section step", "#save at step 100".
	// Late: it has been there for longer than its launcher allows.
	Late bool
}

var (
	eventLine = regexp.MustCompile(`^\[\d{4}-\d\d-\d\dT[\d:.+]+\] \[\d+\] \[(\w*)\] \[(\w*)\] \[(#?\w+)\] \[(BEGIN|END|INSTANT)\] (\{.*)`)
	eventFile = regexp.MustCompile(`(?:^|/)events_(\d+)\.log[^/]*$`)
)

// SniffEvents recognises a file of dlrover's training events, as text or JSON.
func SniffEvents(data []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(data[:min(len(data), 64<<10)], " \r\n"), []byte{'\n'})
	if eventLine.Match(line) {
		return true
	}
	var e event
	return bytes.Contains(line, []byte(`"event_type"`)) && json.Unmarshal(line, &e) == nil && e.ID != "" && e.Name != ""
}

type event struct {
	ID      string          `json:"event_id"`
	Target  string          `json:"target"`
	Name    string          `json:"name"`
	Type    string          `json:"event_type"`
	Content json.RawMessage `json:"content"`
}

// ParseEvents reads a file of dlrover's training events: what its process has begun and not ended is where it is.
func ParseEvents(file string, data []byte) (*Log, error) {
	rank := -1
	if m := eventFile.FindStringSubmatch(file); m != nil {
		rank = int(number([]byte(m[1])))
	}
	l := &Log{File: file, Ranks: map[int]bool{}, States: map[Place]*State{}, Attempts: 1}
	var open []event
	some := false
	for line := range bytes.Lines(data) {
		e, ok := readEvent(bytes.TrimSpace(line))
		if !ok {
			continue
		}
		some = true
		at := slices.IndexFunc(open, func(o event) bool { return o.ID == e.ID && o.Name == e.Name })
		switch {
		case e.Type == "BEGIN" && len(open) < mostOpen:
			open = append(open, e)
		case e.Type == "END" && at >= 0:
			open = slices.Delete(open, at, at+1)
		}
	}
	if !some {
		return nil, ErrNothing
	}
	if rank >= 0 && rank < maxRank {
		l.Ranks[rank] = true
		where := "between events"
		if n := len(open); n > 0 {
			where = open[n-1].where()
		}
		l.Watches = append(l.Watches, Watch{Rank: rank, Where: where})
	}
	return l, nil
}

// mostOpen bounds how deep events may be nested.
const mostOpen = 64

func readEvent(line []byte) (event, bool) {
	if m := eventLine.FindSubmatch(line); m != nil {
		return event{string(m[1]), string(m[2]), string(m[3]), string(m[4]), m[5]}, true
	}
	var e event
	return e, len(line) > 0 && line[0] == '{' && json.Unmarshal(line, &e) == nil && e.Type != "" && e.Name != ""
}

func (e *event) where() string {
	var c struct {
		Step *int64 `json:"global_step"`
	}
	if json.Unmarshal(e.Content, &c) == nil && c.Step != nil {
		return fmt.Sprintf("%s at step %d", e.Name, *c.Step)
	}
	return e.Name
}

// noHeartbeat is where a rank is that its monitor has lost sight of.
const noHeartbeat = "no section (it sends no heartbeat)"

// watched takes what rank monitors say, the newest of each rank.
func (p *parser) watched(e *grammar.Event) {
	w := Watch{Rank: e.Int("rank"), Late: true, Where: "section " + e.Get("section")}
	switch {
	case e.Get("mute") != "":
		w.Where = noHeartbeat
	case e.Get("out") != "":
		w.Where = "no section"
	}
	if w.Rank < 0 || w.Rank >= maxRank {
		return
	}
	i, ok := p.watches[w.Rank]
	if !ok {
		i = len(p.log.Watches)
		p.watches[w.Rank] = i
		p.log.Watches = append(p.log.Watches, w)
	}
	p.log.Watches[i] = w
}

// watched makes an operation of the section that nearly all ranks have been in for too long: the few elsewhere have not come to
// it. Otherwise it says where ranks are.
func (b *builder) watched(logs []*Log) {
	at := map[int]Watch{}
	for _, l := range logs {
		for _, w := range l.Watches {
			at[w.Rank] = w
		}
	}
	if len(at) == 0 {
		return
	}
	places := map[string][]int{}
	late := true
	for _, r := range slices.Sorted(maps.Keys(at)) {
		b.Rank(r)
		places[at[r].Where] = append(places[at[r].Where], r)
		late = late && at[r].Late
	}
	order := slices.SortedFunc(maps.Keys(places), func(x, y string) int {
		if d := len(places[y]) - len(places[x]); d != 0 {
			return d
		}
		return strings.Compare(x, y)
	})
	most := places[order[0]]
	var few []int
	for _, place := range order[1:] {
		few = append(few, places[place]...)
	}
	const mostPlaces = 8
	for _, place := range order[:min(len(order), mostPlaces)] {
		ids := places[place]
		b.Note("the launcher saw last: %s in %s", told.Ranks(ids), place)
	}
	mute := places[noHeartbeat]
	for _, r := range mute {
		f := told.New(grammar.Awaited, "sent no heartbeat to its monitor for longer than it allows")
		f.Rank = r
		b.found = append(b.found, f)
	}
	const outliers, quorum = 4, 3 // As of stacks: few are a quarter at most, and one of two is none.
	if b.says(logs) {
		return // Whoever waits for whom is known from nearer.
	}
	if !late || len(few) == 0 || len(most) < quorum || outliers*len(few) > len(at) || !strings.HasPrefix(order[0], "section ") {
		return
	}
	c := b.group("launcher: sections", slices.Concat(most, few))
	for _, r := range most {
		b.put(c, r, order[0], nil, 1, true)
	}
	for _, r := range few {
		b.put(c, r, order[0], nil, 0, false)
	}
}

// says that something tells of operations, or of how processes ended.
func (b *builder) says(logs []*Log) bool {
	return len(b.known) > 0 || len(b.Comms()) > 0 || len(b.waiting) > 0 || len(b.Facts) > 0 || slices.ContainsFunc(logs, func(l *Log) bool {
		return len(l.Ends) > 0 || len(l.Exceptions) > 0 || len(l.States) > 0
	})
}
