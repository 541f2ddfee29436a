// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package flows reads how many bytes each flow (queue pair, socket, switch counter) moved over time, and says by Pulse's
// methods which rank holds the others up. It serves collective libraries that have no profiler: of them nothing but this
// is seen.
package flows

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/pulse"
)

// ErrNotFlows is given for what does not begin with the header of a table of flows.
var ErrNotFlows = errors.New("not a table of flows: columns time_seconds, rank, peer and bytes or bytes_total are needed")

// Bounds of a recording: what is hostile costs an error and not the machine.
const (
	maxHeader  = 4 << 10
	maxEpochs  = 8 << 20 // Intervals with traffic, of 16 bytes.
	maxFlows   = 1 << 17
	maxLabel   = 256
	maxRank    = 1 << 20
	maxSeconds = 1 << 33 // Since 1970 or since the recording's begin.
)

// Columns by name. Of the times one is needed, of the counts as well.
const (
	colRank, colPeer          = "rank", "peer"
	colBytes, colTotal        = "bytes", "bytes_total"
	colChannel, colQP         = "channel", "qp"
	colGroup, colOp, colSize  = "group", "operation", "size_bytes"
	colLinkGbps               = "link_gbps"
	timeSeconds, timeMS       = "time_seconds", "time_ms"
	timeMicros, timeNS        = "time_us", "time_ns"
	separators                = ",;\t"
	millisecond, microseconds = 1e6, 1e3
)

var timeUnits = map[string]float64{timeSeconds: 1e9, timeMS: millisecond, timeMicros: microseconds, timeNS: 1}

// Recording is what one file holds.
type Recording struct {
	File  string
	Flows []Flow
	// LinkGbps is the speed of the links where the file states it, in Gb/s; 0 unknown.
	LinkGbps float64
	CutOff   bool // The file ends within a line.
	Zeros    bool // It has lines for intervals without traffic.
}

// Flow is the traffic of one channel from one rank to another, under one label of what the library did.
type Flow struct {
	Label
	Rank, Peer int // Peer is -1 where unknown.
	Channel    string
	// Epochs hold the intervals with traffic. At is the end of the interval, as in the file.
	Epochs []pulse.Epoch
	// First and Last are the flow's first and last line, with traffic or without.
	First, Last time.Duration
	gaps        histogram
}

// Label is what the recorder knows of the operation that the bytes belong to. Empty and 0: nothing.
type Label struct {
	Group, Operation string
	Size             int64
}

type flowKey struct {
	Label
	rank, peer int
	channel    string
}

type counterKey struct {
	rank, peer int
	channel    string
}

type counter struct {
	at    time.Duration
	total int64
}

// Sniff says whether the data begins with the header of a table of flows.
func Sniff(data []byte) bool {
	_, _, err := header(data)
	return err == nil
}

type layout struct {
	column map[string]int
	unit   float64 // Nanoseconds.
	totals bool
	comma  rune
	width  int // Columns.
}

// header reads the first line and gives the rest.
func header(data []byte) (l layout, rest []byte, err error) {
	line, rest, _ := bytes.Cut(data, []byte{'\n'})
	line = bytes.TrimPrefix(bytes.TrimRight(line, "\r"), []byte("\ufeff"))
	if len(line) == 0 || len(line) > maxHeader || bytes.IndexByte(line, 0) >= 0 {
		return l, nil, ErrNotFlows
	}
	for _, s := range separators {
		if bytes.ContainsRune(line, s) {
			l.comma = s
			break
		}
	}
	if l.comma == 0 {
		return l, nil, ErrNotFlows
	}
	l.column = map[string]int{}
	names := strings.Split(string(line), string(l.comma))
	l.width = len(names)
	for i, name := range names {
		name = strings.ToLower(strings.Trim(strings.TrimSpace(name), `"`))
		if _, twice := l.column[name]; twice {
			return l, nil, ErrNotFlows
		}
		l.column[name] = i
		if unit, ok := timeUnits[name]; ok {
			l.unit = unit
			l.column[timeSeconds] = i
		}
	}
	_, bytesThere := l.column[colBytes]
	_, l.totals = l.column[colTotal]
	_, rank := l.column[colRank]
	_, peer := l.column[colPeer]
	if l.unit == 0 || !rank || !peer || bytesThere == l.totals {
		return l, nil, ErrNotFlows
	}
	if _, ok := l.column[colChannel]; !ok {
		if qp, ok := l.column[colQP]; ok {
			l.column[colChannel] = qp
		}
	}
	return l, rest, nil
}

// Read reads a table. What is wrong with a line is an error with its number; only the last line may be cut off.
func Read(file string, data []byte) (*Recording, error) {
	l, rest, err := header(data)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(bytes.NewReader(rest))
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = l.comma, -1, true
	b := reader{layout: l, rec: &Recording{File: file}, flows: map[flowKey]int{}, totals: map[counterKey]counter{}, labels: map[string]string{}}
	whole := bytes.HasSuffix(rest, []byte{'\n'})
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		line := 2
		b.last = !whole && r.InputOffset() == int64(len(rest))
		if err == nil {
			at, _ := r.FieldPos(0)
			line = at + 1
			err = b.line(record)
		} else if p, ok := errors.AsType[*csv.ParseError](err); ok {
			line, err = p.Line+1, p.Err
		}
		if err == nil {
			continue
		}
		if b.last && len(b.rec.Flows) > 0 {
			b.rec.CutOff = true
			break
		}
		return nil, fmt.Errorf("line %d: %w", line, err)
	}
	if b.epochs == 0 {
		return nil, errors.New("no flow moves any bytes")
	}
	return b.rec, nil
}

type reader struct {
	layout
	rec    *Recording
	flows  map[flowKey]int
	totals map[counterKey]counter
	labels map[string]string
	epochs int
	last   bool // The line is the last one, and does not end.
}

func (b *reader) line(record []string) error {
	if len(record) != b.width {
		return fmt.Errorf("%d columns, the header has %d", len(record), b.width)
	}
	field := func(name string) string {
		if i, ok := b.column[name]; ok {
			return strings.TrimSpace(record[i])
		}
		return ""
	}
	at, err := b.time(field(timeSeconds))
	if err != nil {
		return err
	}
	rank, err := rankOf(colRank, field(colRank))
	if err != nil {
		return err
	}
	peer := -1
	if s := field(colPeer); s != "" {
		if peer, err = rankOf(colPeer, s); err != nil {
			return err
		}
	}
	label := Label{}
	if s := field(colSize); s != "" {
		if label.Size, err = count(colSize, s); err != nil {
			return err
		}
	}
	texts := [3]string{}
	for i, name := range [3]string{colGroup, colOp, colChannel} {
		if texts[i], err = b.text(name, field(name)); err != nil {
			return err
		}
	}
	label.Group, label.Operation = texts[0], texts[1]
	if s := field(colLinkGbps); s != "" {
		gbps, err := strconv.ParseFloat(s, 64)
		if err != nil || !(gbps > 0) || gbps > 1e6 {
			return fmt.Errorf("%s %q is no speed", colLinkGbps, short(s))
		}
		b.rec.LinkGbps = gbps
	}
	moved, at, err := b.moved(counterKey{rank, peer, texts[2]}, at, field(colBytes)+field(colTotal))
	if err != nil {
		return err
	}
	return b.add(flowKey{label, rank, peer, texts[2]}, at, moved)
}

func (b *reader) time(s string) (time.Duration, error) {
	if b.unit == 1 {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > -maxSeconds*1e9 && n < math.MaxInt64/2 {
			return time.Duration(n), nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(math.Abs(f*b.unit) < maxSeconds*1e9/2) {
		return 0, fmt.Errorf("time %q is no number of the column's unit", short(s))
	}
	return time.Duration(math.Round(f * b.unit)), nil
}

func rankOf(name, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n >= maxRank {
		return 0, fmt.Errorf("%s %q is no rank", name, short(s))
	}
	return n, nil
}

func count(name, s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/4 {
		return 0, fmt.Errorf("%s %q is no number of bytes", name, short(s))
	}
	return n, nil
}

// short bounds what an error quotes.
func short(s string) string { return s[:min(len(s), 32)] }

// text shares equal labels.
func (b *reader) text(name, s string) (string, error) {
	if t, ok := b.labels[s]; ok {
		return t, nil
	}
	if len(s) > maxLabel {
		return "", fmt.Errorf("%s has more than %d bytes", name, maxLabel)
	}
	s = strings.Clone(s)
	b.labels[s] = s
	return s, nil
}

// moved gives the bytes since the line before it of the same flow.
func (b *reader) moved(key counterKey, at time.Duration, s string) (int64, time.Duration, error) {
	name := colBytes
	if b.layout.totals {
		name = colTotal
	}
	n, err := count(name, s)
	if err != nil {
		return 0, at, err
	}
	before, known := b.totals[key]
	if !known && len(b.totals) >= maxFlows {
		return 0, at, fmt.Errorf("more than %d flows", maxFlows)
	}
	if known && at < before.at {
		return 0, at, errors.New("its time is before that of the flow's last line")
	}
	if b.last && b.layout.totals && n < before.total {
		return 0, at, errors.New("the number is cut off")
	}
	b.totals[key] = counter{at, n}
	switch {
	case !b.layout.totals:
		return n, at, nil
	case !known:
		return 0, at, nil // What came before the recording.
	case n < before.total:
		return n, at, nil // The counter began anew.
	default:
		return n - before.total, at, nil
	}
}

func (b *reader) add(key flowKey, at time.Duration, moved int64) error {
	i, known := b.flows[key]
	if !known {
		if len(b.rec.Flows) >= maxFlows {
			return fmt.Errorf("more than %d flows", maxFlows)
		}
		i = len(b.rec.Flows)
		b.flows[key] = i
		b.rec.Flows = append(b.rec.Flows, Flow{Label: key.Label, Rank: key.rank, Peer: key.peer, Channel: key.channel, First: at, Last: at})
	}
	f := &b.rec.Flows[i]
	if at > f.Last {
		f.gaps.add(at - f.Last)
	}
	f.Last = at
	if moved == 0 {
		b.rec.Zeros = true
		return nil
	}
	if n := len(f.Epochs); n > 0 && f.Epochs[n-1].At == at {
		f.Epochs[n-1].Bytes += moved
		return nil
	}
	if b.epochs++; b.epochs > maxEpochs {
		return fmt.Errorf("more than %d intervals with traffic", maxEpochs)
	}
	f.Epochs = append(f.Epochs, pulse.Epoch{At: at, Bytes: moved})
	return nil
}

// histogram counts lengths of time by size: eight classes for each doubling.
type histogram struct {
	counts map[int]int
	total  int
}

const perDoubling = 8

func (h *histogram) add(d time.Duration) {
	if h.counts == nil {
		h.counts = map[int]int{}
	}
	h.counts[int(math.Round(perDoubling*math.Log2(float64(d))))]++
	h.total++
}

// share gives the length that this share of all does not exceed; 0 of none.
func (h *histogram) share(share float64) time.Duration {
	classes := make([]int, 0, len(h.counts))
	for c := range h.counts {
		classes = append(classes, c)
	}
	slices.Sort(classes)
	n := 0
	for _, c := range classes {
		if n += h.counts[c]; float64(n) >= share*float64(h.total) {
			return time.Duration(math.Exp2(float64(c) / perDoubling))
		}
	}
	return 0
}
