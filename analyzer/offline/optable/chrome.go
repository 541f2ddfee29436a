// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/kineto"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// chromeColumns are those of a table in the form of a Chrome trace. Its format has microseconds.
var chromeColumns = []string{
	"rank", "stage", "dp_rank", "tp_rank", "step", "op", "start_us", "duration_us", "seq_id", "microbatch", "chunk", "peer", "comm", "bytes", "kind",
}

// chromeRoles are the columns that events' arguments may hold.
var chromeRoles = map[string]Role{
	"rank": Rank, "stage": Stage, "dp_rank": DP, "tp_rank": TP, "step": Step, "seq_id": Seq, "microbatch": Microbatch, "chunk": Chunk,
	"peer": Peer, "comm": Comm, "bytes": Bytes, "kind": Kind,
}

// thread is where an event is shown.
type thread struct{ process, thread string }

// ReadChrome reads a table of operations in the form of a Chrome trace: events are operations, their arguments are columns, and
// names of processes and threads say whose they are ("rank 3", "DP rank 1", "PP rank 0, TP rank 0"). rank is used where
// nothing tells it; -1 none.
func ReadChrome(file string, data []byte, rank int) (*Table, error) {
	var events []kineto.Event
	cut := kineto.Events(data, func(e *kineto.Event) error {
		if len(events) >= maxRows {
			return fmt.Errorf("more than %d events", maxRows)
		}
		events = append(events, *e)
		return nil
	}, kineto.Skip)
	c := chrome{places: map[thread]coordinates{}, ranks: map[thread]int{}}
	c.names(events)
	c.number()
	b, err := newBuilder(file, chromeColumns, nil, rank)
	if err != nil {
		return nil, err
	}
	communicates := false
	cells := make([]cell, len(chromeColumns))
	for i := range events {
		if e := &events[i]; e.Phase == "X" {
			communicates = communicates || kindOf(&Row{Op: e.Name}) == rca.SegmentOp
			c.cells(e, rank, cells)
			if err := b.row(cells); err != nil {
				return nil, err
			}
		}
	}
	if !communicates {
		return nil, fmt.Errorf("%w: no event with a rank is communication", ErrNotTable)
	}
	t, err := b.finish()
	if err != nil {
		return nil, err
	}
	t.CutOff, t.Numbered = cut != nil, c.counted
	return t, nil
}

// cells gives an event as a row of chromeColumns.
func (c *chrome) cells(e *kineto.Event, rank int, row []cell) {
	at := thread{chromeText(e.Process), chromeText(e.Thread)}
	if r, ok := c.ranks[at]; ok {
		rank = r
	}
	clear(row)
	arguments := argumentsOf(e)
	for i, column := range chromeColumns {
		switch column {
		case "op":
			row[i] = cell{text: e.Name}
		case "start_us":
			row[i] = textCell(string(e.TS))
		case "duration_us":
			row[i] = textCell(string(e.Duration))
		default:
			row[i] = argument(arguments, chromeRoles[column])
		}
	}
	place := c.places[at]
	for column, n := range map[string]int{"rank": rank, "stage": place.stage, "dp_rank": place.dp, "tp_rank": place.tp} {
		if i := slices.Index(chromeColumns, column); !row[i].isNum && n >= 0 {
			row[i] = textCell(strconv.Itoa(n))
		}
	}
}

func argumentsOf(e *kineto.Event) map[string]any {
	var out map[string]any
	dec := json.NewDecoder(bytes.NewReader(e.Args))
	dec.UseNumber()
	_ = dec.Decode(&out) // Of what is none, nothing is known.
	return out
}

// argument finds a column among an event's arguments, by any of the names that it has in tables.
func argument(arguments map[string]any, role Role) cell {
	for _, want := range spellings[role] {
		for name, v := range arguments {
			if have, _ := bare(name); have == want {
				return textCell(chromeText(v))
			}
		}
	}
	return cell{}
}

func chromeText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// chrome finds out whose an event is.
type chrome struct {
	places  map[thread]coordinates
	ranks   map[thread]int
	counted bool // Ranks are counted by their coordinates.
}

var namedRank = regexp.MustCompile(`(?i)\b(?:(dp|data|pp|pipeline|tp|tensor)(?:[ _-]?parallel)?[ _-]?)?(rank|stage)[ :=#]*\[?(\d+)`)

// names takes what the names of processes and threads say; a process's name holds for all its threads.
func (c *chrome) names(events []kineto.Event) {
	processes, threads := map[string]string{}, map[thread]string{}
	for i := range events {
		e := &events[i]
		at := thread{chromeText(e.Process), chromeText(e.Thread)}
		switch {
		case e.Phase == "M" && e.Name == "process_name":
			processes[at.process] = chromeText(argumentsOf(e)["name"])
		case e.Phase == "M" && e.Name == "thread_name":
			threads[at] = chromeText(argumentsOf(e)["name"])
		case e.Phase == "X" && threads[at] == "":
			threads[at] = ""
		}
	}
	for at, name := range threads {
		place := nowhere
		for _, m := range namedRank.FindAllStringSubmatch(processes[at.process]+", "+name, -1) {
			n, err := strconv.Atoi(m[3])
			if err != nil || n >= maxRank {
				continue
			}
			switch kind := strings.ToLower(m[1]); kind {
			case "dp", "data":
				place.dp = n
			case "tp", "tensor":
				place.tp = n
			case "pp", "pipeline":
				place.stage = n
			default:
				if strings.EqualFold(m[2], "stage") {
					place.stage = n
				} else {
					c.ranks[at] = n
				}
			}
		}
		c.places[at] = place
	}
}

var nowhere = coordinates{-1, -1, -1}

// number gives ranks to places that have none. Where threads are numbered in blocks of one size, a block is a rank; else
// places are counted by stage, data-parallel and tensor-parallel rank, as jobs usually number them.
func (c *chrome) number() {
	threads := map[coordinates][]int{}
	size := 0
	for at, place := range c.places {
		if _, known := c.ranks[at]; known || place == nowhere {
			continue
		}
		n, err := strconv.Atoi(at.thread)
		if err != nil {
			n = -1
		}
		threads[place] = append(threads[place], n)
		size = max(size, len(threads[place]))
	}
	places := slices.SortedFunc(maps.Keys(threads), func(a, b coordinates) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.dp, b.dp), cmp.Compare(a.tp, b.tp))
	})
	ranks, taken := map[coordinates]int{}, map[int]bool{}
	for _, p := range places {
		lo, hi := slices.Min(threads[p]), slices.Max(threads[p])
		block := lo / size
		c.counted = c.counted || size == 1 || lo < 0 || hi/size != block || taken[block] || block >= maxRank
		ranks[p], taken[block] = block, true
	}
	if c.counted {
		for i, p := range places {
			ranks[p] = i
		}
	}
	for at, place := range c.places {
		if _, known := c.ranks[at]; known {
			continue
		}
		if r, ok := ranks[place]; ok {
			c.ranks[at] = r
		}
	}
}
