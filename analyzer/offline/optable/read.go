// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ErrNotTable is given for what is no table of operations.
var ErrNotTable = errors.New("not an op table")

// Table is what was read from one file.
type Table struct {
	File string
	Rows []Row
	// Skipped rows lacked a rank, an operation or times, or were cut off.
	Skipped int
	Has     map[Role]bool
	// CutOff: the file ends before its table does. Numbered: the table has no rank numbers, ranks are counted by coordinates.
	CutOff, Numbered bool
}

// Row is one operation of one rank. Numbers are -1 and texts empty where unknown. Times are nanoseconds.
type Row struct {
	Rank       int
	Step       int
	Op         string
	Kind       string
	Comm       string
	Start, End int64
	Seq        int64
	Peer       int
	Bytes      int64
	Stage, DP, TP,
	Microbatch, Chunk int
}

const (
	maxRows = 16 << 20 // Each takes 300 bytes.
	maxRank = 1 << 20
)

// cell is one value.
type cell struct {
	text    string
	number  float64
	whole   int64
	isWhole bool
	isNum   bool
}

func textCell(s string) cell {
	c := cell{text: s}
	t := strings.TrimSpace(s)
	if n, err := strconv.ParseInt(t, 10, 64); err == nil {
		c.whole, c.number, c.isWhole, c.isNum = n, float64(n), true, true
	} else if f, err := strconv.ParseFloat(t, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
		c.number, c.isNum = f, true
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			c.whole = int64(f)
		}
	}
	return c
}

// Sniff says whether text starts with the header of an op table. columns are names given by the user.
func Sniff(data []byte, columns map[string]string) bool {
	if bytes.HasPrefix(data, parquetMagic) {
		return true
	}
	header, _, err := open(data)
	if err != nil {
		return false
	}
	_, ok, err := find(header, columns)
	return ok || err != nil
}

// Read reads a table in any form. columns gives roles to names of columns where detection is not wanted. rank is used
// where the table has no rank column; -1 none. The context ends a process that reads for it.
func Read(ctx context.Context, file string, data []byte, columns map[string]string, rank int) (*Table, error) {
	if bytes.HasPrefix(data, parquetMagic) {
		return readParquet(ctx, file, data, columns, rank)
	}
	header, r, err := open(data)
	if err != nil {
		return nil, err
	}
	b, err := newBuilder(file, header, columns, rank)
	if err != nil {
		return nil, err
	}
	cells := make([]cell, len(header))
	numbers := sample(data)
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(record) != len(header) {
			b.table.Skipped++
			if errors.Is(err, csv.ErrQuote) || err == nil || errors.Is(err, csv.ErrFieldCount) {
				continue
			}
			return nil, fmt.Errorf("reading row: %w", err)
		}
		for i, s := range record {
			if numbers != plain {
				s = numbers.plain(s)
			}
			cells[i] = textCell(s)
		}
		if err := b.row(cells); err != nil {
			return nil, err
		}
	}
	return b.finish()
}

// sample finds out how the table writes numbers from its first rows.
func sample(data []byte) notation {
	_, r, err := open(data)
	if err != nil {
		return plain
	}
	const rows = 256
	var cells []string
	for range rows {
		record, err := r.Read()
		if err != nil {
			break
		}
		cells = append(cells, record...)
	}
	return notationOf(cells)
}

// open reads the header and gives a reader of the rows.
func open(data []byte) ([]string, *csv.Reader, error) {
	line := data
	if before, _, ok := bytes.Cut(data, []byte{'\n'}); ok {
		line = before
	}
	const longest = 64 << 10
	if len(line) == 0 || len(line) > longest || bytes.IndexByte(line, 0) >= 0 {
		return nil, nil, ErrNotTable
	}
	separator, most := rune(0), 0
	for _, s := range "\t,;|" {
		if n := bytes.Count(line, []byte(string(s))); n > most {
			separator, most = s, n
		}
	}
	if most == 0 {
		return nil, nil, ErrNotTable
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = separator, true, -1
	header, err := r.Read()
	if err != nil {
		return nil, nil, ErrNotTable
	}
	header = slices.Clone(header)
	r.ReuseRecord = true
	return header, r, nil
}

// builder turns cells into rows.
type builder struct {
	layout layout
	table  *Table
	rank   int
	names  map[string]string
	// raw times wait until the unit is known.
	start, duration, end []cell
}

func newBuilder(file string, header []string, columns map[string]string, rank int) (*builder, error) {
	l, ok, err := find(header, columns)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: columns %s lack an operation with its times (give --column)", ErrNotTable, strings.Join(header, ", "))
	}
	if !l.has(Rank) && rank < 0 {
		return nil, fmt.Errorf("%w: no rank column, and the file's name has no rank", ErrNotTable)
	}
	b := &builder{layout: l, rank: rank, names: map[string]string{}, table: &Table{File: file, Has: map[Role]bool{}}}
	for r := range l.column {
		b.table.Has[r] = true
	}
	return b, nil
}

func (b *builder) cell(cells []cell, r Role) cell {
	if i, ok := b.layout.column[r]; ok {
		return cells[i]
	}
	return cell{}
}

func (b *builder) int(cells []cell, r Role) int64 {
	if c := b.cell(cells, r); c.isNum && c.number > -1 && c.number < math.MaxInt64/2 {
		return c.whole
	}
	return -1
}

func (b *builder) small(cells []cell, r Role) int {
	if n := b.int(cells, r); n < maxRank {
		return int(n)
	}
	return -1
}

// name shares equal texts.
func (b *builder) name(s string) string { return shared(b.names, s) }

func shared(names map[string]string, s string) string {
	if t, ok := names[s]; ok {
		return t
	}
	s = strings.Clone(s)
	names[s] = s
	return s
}

func (b *builder) row(cells []cell) error {
	if len(b.table.Rows) >= maxRows {
		return fmt.Errorf("more than %d rows", maxRows)
	}
	row := Row{
		Rank: b.rank, Step: b.small(cells, Step), Op: b.name(strings.TrimSpace(b.cell(cells, Op).text)),
		Kind: b.name(b.cell(cells, Kind).text), Comm: b.name(b.cell(cells, Comm).text),
		Seq: b.int(cells, Seq), Peer: b.small(cells, Peer), Bytes: b.int(cells, Bytes), Stage: b.small(cells, Stage),
		DP: b.small(cells, DP), TP: b.small(cells, TP), Microbatch: b.small(cells, Microbatch), Chunk: b.small(cells, Chunk),
	}
	if b.layout.has(Rank) {
		row.Rank = b.small(cells, Rank)
	}
	start, duration, end := b.cell(cells, Start), b.cell(cells, Duration), b.cell(cells, End)
	times := 0
	for _, c := range []cell{start, duration, end} {
		if c.isNum {
			times++
		}
	}
	if row.Rank < 0 || row.Op == "" || times < 2 && (!duration.isNum || b.layout.has(Start)) || duration.number < 0 {
		b.table.Skipped++
		return nil
	}
	b.table.Rows = append(b.table.Rows, row)
	b.start, b.duration, b.end = append(b.start, start), append(b.duration, duration), append(b.end, end)
	return nil
}

// finish settles units and times.
func (b *builder) finish() (*Table, error) {
	if len(b.table.Rows) == 0 {
		return nil, fmt.Errorf("%w: no row has a rank, an operation and times", ErrNotTable)
	}
	at := b.unit(Start, b.start)
	if !b.layout.has(Start) {
		at = b.unit(End, b.end)
	}
	span := b.layout.unit[Duration]
	if span == 0 {
		span = at
	}
	last := map[int]int64{}
	for i := range b.table.Rows {
		r := &b.table.Rows[i]
		start, duration, end := b.start[i].scaled(at), b.duration[i].scaled(span), b.end[i].scaled(at)
		switch {
		case b.start[i].isNum && b.duration[i].isNum:
			r.Start, r.End = start, start+duration
		case b.start[i].isNum:
			r.Start, r.End = start, max(end, start)
		case b.end[i].isNum:
			r.Start, r.End = end-duration, end
		default: // Only durations: one after another.
			r.Start, r.End = last[r.Rank], last[r.Rank]+duration
		}
		last[r.Rank] = r.End
	}
	b.start, b.duration, b.end = nil, nil, nil
	return b.table, nil
}

func (c cell) scaled(ns unit) int64 {
	if c.isWhole && ns >= 1 && ns == unit(math.Trunc(float64(ns))) && math.Abs(c.number) < math.MaxInt64/4/float64(ns) {
		return c.whole * int64(ns)
	}
	v := c.number * float64(ns)
	if math.Abs(v) > math.MaxInt64/4 {
		return 0
	}
	return int64(math.Round(v))
}

// unit is the given or, from magnitudes, likeliest unit of times: times since 1970 tell by themselves; of relative ones
// fractions are seconds unless operations would take minutes, and whole numbers microseconds.
func (b *builder) unit(r Role, cells []cell) unit {
	if u := b.layout.unit[r]; u > 0 {
		return u
	}
	largest, whole := 0.0, true
	for _, c := range cells {
		largest = max(largest, math.Abs(c.number))
		whole = whole && (c.isWhole || !c.isNum)
	}
	switch {
	case largest > 1e17:
		return 1
	case largest > 1e14:
		return 1e3
	case largest > 1e11:
		return 1e6
	case whole && largest < 1e9 && b.layout.has(r):
		return 1e3
	}
	durations := make([]float64, 0, len(b.duration))
	for _, c := range b.duration {
		if c.isNum {
			durations = append(durations, c.number)
		}
	}
	slices.Sort(durations)
	const minutes = 120
	if n := len(durations); n > 0 && durations[n/2] > minutes {
		return 1e3
	}
	return 1e9
}
