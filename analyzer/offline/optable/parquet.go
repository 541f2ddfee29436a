// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
)

var parquetMagic = []byte("PAR1")

const (
	parquetBatch    = 1024
	maxUncompressed = 8 << 30 // Bytes that a file's own footer may claim for its column chunks.
)

// readParquet reads a flat Parquet file. The library panics on some malformed files: that becomes an error.
func readParquet(file string, data []byte, columns map[string]string, rank int) (t *Table, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("malformed Parquet: %v", p)
		}
	}()
	if err := footerFits(data); err != nil {
		return nil, fmt.Errorf("opening Parquet: %w", err)
	}
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
