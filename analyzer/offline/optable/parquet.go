// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"

	"github.com/culprit-project/culprit/analyzer/offline/isolate"
)

var parquetMagic = []byte("PAR1")

const (
	parquetBatch    = 1024
	maxUncompressed = 8 << 30 // Bytes that a file's own footer may claim for its column chunks.
)

// parquetReader is the name of the process that reads a Parquet file.
const parquetReader = "culprit-parquet-reader"

func init() { isolate.Serve(parquetReader, serveParquet) }

// parquetQuery says how a file is to be read.
type parquetQuery struct {
	File    string
	Columns map[string]string
	Rank    int
}

// parquetRows is how many rows are handed over at a time.
const parquetRows = 4096

// readParquet has a process of its own read a flat Parquet file: the library makes room for as much as a file claims.
func readParquet(ctx context.Context, file string, data []byte, columns map[string]string, rank int) (*Table, error) {
	if err := footerFits(data); err != nil {
		return nil, fmt.Errorf("opening Parquet: %w", err)
	}
	query, err := json.Marshal(parquetQuery{file, columns, rank})
	if err != nil {
		return nil, fmt.Errorf("asking for the table: %w", err)
	}
	var t *Table
	err = isolate.Read(ctx, parquetReader, []string{string(query)}, data, func(r io.Reader) error {
		var err error
		t, err = receiveTable(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.File = file
	return t, nil
}

// serveParquet is the process.
func serveParquet(args []string, in io.Reader, out io.Writer) error {
	var q parquetQuery
	if err := json.Unmarshal([]byte(args[0]), &q); err != nil {
		return fmt.Errorf("reading what is asked for: %w", err)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("reading the file: %w", err)
	}
	t, err := decodeParquet(q.File, data, q.Columns, q.Rank)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	if err := sendTable(w, t); err != nil {
		return err
	}
	return w.Flush()
}

// sendTable writes a table, its rows in batches, of which the last is empty.
func sendTable(w io.Writer, t *Table) error {
	to := gob.NewEncoder(w)
	rows := t.Rows
	t.Rows = nil
	if err := to.Encode(t); err != nil {
		return fmt.Errorf("handing over the table: %w", err)
	}
	for {
		n := min(len(rows), parquetRows)
		if err := to.Encode(rows[:n]); err != nil {
			return fmt.Errorf("handing over rows: %w", err)
		}
		if n == 0 {
			return nil
		}
		rows = rows[n:]
	}
}

func receiveTable(r io.Reader) (*Table, error) {
	from := gob.NewDecoder(r)
	t := &Table{}
	if err := from.Decode(t); err != nil {
		return nil, fmt.Errorf("taking over the table: %w", err)
	}
	for names := map[string]string{}; ; {
		var rows []Row
		if err := from.Decode(&rows); err != nil {
			return nil, fmt.Errorf("taking over rows: %w", err)
		}
		if len(rows) == 0 {
			return t, nil
		}
		for i := range rows {
			for _, text := range []*string{&rows[i].Op, &rows[i].Kind, &rows[i].Comm} {
				*text = shared(names, *text)
			}
		}
		t.Rows = append(t.Rows, rows...)
	}
}

// decodeParquet reads a file in this process. The library panics on some malformed files: that becomes an error.
func decodeParquet(file string, data []byte, columns map[string]string, rank int) (t *Table, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("malformed Parquet: %v", p)
		}
	}()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("opening Parquet: %w", err)
	}
	leaves := f.Schema().Columns()
	header := make([]string, len(leaves))
	for i, path := range leaves {
		header[i] = path[len(path)-1]
	}
	var claimed int64
	for _, g := range f.Metadata().RowGroups {
		for i := range g.Columns {
			claimed += max(0, g.Columns[i].MetaData.TotalUncompressedSize)
		}
	}
	if claimed > maxUncompressed || claimed < 0 || f.NumRows() > maxRows {
		return nil, fmt.Errorf("claims %d rows of %d bytes, more than is read", f.NumRows(), claimed)
	}
	b, err := newBuilder(file, header, columns, rank)
	if err != nil {
		return nil, err
	}
	for _, g := range f.RowGroups() {
		if err := b.rowGroup(g, len(header)); err != nil {
			return nil, err
		}
	}
	return b.finish()
}

// footerFits says why a file's footer cannot be in it: the library makes room for as many bytes as the file claims, up to 4 GiB, before it
// looks for them.
func footerFits(data []byte) error {
	const ends = 4 + 4 + 4 // The magic at both ends, and the footer's length before the last one.
	if len(data) < ends {
		return fmt.Errorf("%d bytes are too few", len(data))
	}
	if n := binary.LittleEndian.Uint32(data[len(data)-8:]); uint64(n) > uint64(len(data)-ends) {
		return fmt.Errorf("the footer claims %d bytes of %d", n, len(data))
	}
	return nil
}

func (b *builder) rowGroup(g parquet.RowGroup, width int) error {
	rows := g.Rows()
	defer func() { _ = rows.Close() }()
	batch := make([]parquet.Row, parquetBatch)
	cells := make([]cell, width)
	for {
		n, err := rows.ReadRows(batch)
		for _, row := range batch[:n] {
			clear(cells)
			for _, v := range row {
				if c := v.Column(); c >= 0 && c < width && v.RepetitionLevel() == 0 {
					cells[c] = parquetCell(v)
				}
			}
			if err := b.row(cells); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading Parquet rows: %w", err)
		}
		if n == 0 {
			return errors.New("reading Parquet rows: no progress")
		}
	}
}

func parquetCell(v parquet.Value) cell {
	switch v.Kind() {
	case parquet.Boolean:
		return cell{}
	case parquet.Int32:
		n := int64(v.Int32())
		return cell{text: fmt.Sprint(n), whole: n, number: float64(n), isWhole: true, isNum: true}
	case parquet.Int64:
		n := v.Int64()
		return cell{text: fmt.Sprint(n), whole: n, number: float64(n), isWhole: true, isNum: true}
	case parquet.Float, parquet.Double:
		f := v.Double()
		if v.Kind() == parquet.Float {
			f = float64(v.Float())
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return cell{}
		}
		c := cell{number: f, isNum: true}
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			c.whole = int64(f)
			c.text = fmt.Sprint(c.whole)
		}
		return c
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return textCell(string(v.ByteArray()))
	default:
		return cell{}
	}
}
