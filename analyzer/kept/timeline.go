// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// timeline is finished work as a record holds it. Since version 3 it is written by columns, which take two fifths of the room that rows take:
//
//	{"strings": ["", "AllReduce"], "columns": {"Func": [1], "Start": [17000, 250, 250], "SendWait.1": [0, 31, 4], …}}
//
// A column has a number for each row. One number alone is that of all rows, and a column that is missing is 0. Columns of text count from 0
// in strings. Some columns are differences (see ahead and beside).
type timeline []rca.Segment

// anchor is the column that is never shortened: it says how many rows there are, so that a few bytes cannot claim millions of them.
const anchor = "Start"

// ahead are the columns that hold the difference from the row before: they grow from row to row.
var ahead = map[string]bool{"Start": true, "Number": true, "Seq": true}

// beside are the columns that hold the difference from another column of their row, which is read before them. There, 0 stays 0 (unknown)
// and what is not negative is one larger.
var beside = map[string]string{"End": "Start", "Entered": "Start", "FastestTime": "SlowestTime"}

// column is one number or text of a segment.
type column struct {
	name  string
	field int
	item  int // Of an array; -1.
	base  int // The field that it is beside; -1.
}

// columns are those of a segment, those first that others are beside.
var columns = func() []column {
	var first, rest []column
	segment := reflect.TypeFor[rca.Segment]()
	for i := range segment.NumField() {
		f := segment.Field(i)
		if f.Type.Kind() == reflect.Array {
			for k := range f.Type.Len() {
				rest = append(rest, column{f.Name + "." + strconv.Itoa(k), i, k, -1})
			}
			continue
		}
		base, ok := segment.FieldByName(beside[f.Name])
		if !ok {
			first = append(first, column{f.Name, i, -1, -1})
			continue
		}
		rest = append(rest, column{f.Name, i, -1, base.Index[0]})
	}
	return append(first, rest...)
}()

// of gives the column's place in a segment.
func (c *column) of(s *rca.Segment) reflect.Value {
	v := reflect.ValueOf(s).Elem().Field(c.field)
	if c.item >= 0 {
		v = v.Index(c.item)
	}
	return v
}

// other gives the number that the column's is a difference from.
func (c *column) other(rows []rca.Segment, i int) int64 {
	if c.base >= 0 {
		return reflect.ValueOf(&rows[i]).Elem().Field(c.base).Int()
	}
	if ahead[c.name] && i > 0 {
		return c.of(&rows[i-1]).Int()
	}
	return 0
}

// numbers gives the column as it is written, in list, which has a place for each row; texts counts the strings.
func (c *column) numbers(rows []rca.Segment, texts *dictionary, list []int64) []int64 {
	constant := c.name != anchor
	for i := range rows {
		list[i] = 0
		v := c.of(&rows[i])
		switch {
		case v.Kind() == reflect.String:
			list[i] = texts.number(v.String())
		case c.base < 0:
			list[i] = v.Int() - c.other(rows, i)
		case v.Int() != 0:
			if list[i] = v.Int() - c.other(rows, i); list[i] >= 0 {
				list[i]++
			}
		}
		constant = constant && list[i] == list[0]
	}
	if constant {
		list = list[:1]
	}
	return list
}

// set reads the column into the rows.
func (c *column) set(rows []rca.Segment, list []int64, texts []string) error {
	if len(list) != 1 && len(list) != len(rows) {
		return fmt.Errorf("%w: column %s has %d numbers for %d rows", ErrFormat, c.name, len(list), len(rows))
	}
	for i := range rows {
		n := list[min(i, len(list)-1)]
		v := c.of(&rows[i])
		switch {
		case v.Kind() == reflect.String:
			if n < 0 || n >= int64(len(texts)) {
				return fmt.Errorf("%w: column %s counts to %d of %d strings", ErrFormat, c.name, n, len(texts))
			}
			v.SetString(texts[n])
		case c.base < 0:
			v.SetInt(n + c.other(rows, i))
		case n > 0:
			v.SetInt(n - 1 + c.other(rows, i))
		case n < 0:
			v.SetInt(n + c.other(rows, i))
		}
	}
	return nil
}

// dictionary numbers texts.
type dictionary struct {
	list []string
	of   map[string]int64
}

func (d *dictionary) number(text string) int64 {
	n, ok := d.of[text]
	if !ok {
		n = int64(len(d.list))
		d.of[text] = n
		d.list = append(d.list, text)
	}
	return n
}

// write writes the columns, one at a time. Errors stay in b.
func (t timeline) write(b *bufio.Writer) error {
	texts := &dictionary{of: map[string]int64{}}
	room := make([]int64, len(t))
	before := `{"columns":{`
	for _, c := range columns {
		list := c.numbers(t, texts, room)
		if len(list) == 1 && list[0] == 0 && c.name != anchor && c.of(&t[0]).Kind() != reflect.String {
			continue
		}
		_, _ = fmt.Fprintf(b, "%s%q:", before, c.name)
		before = ","
		for i, n := range list {
			_ = b.WriteByte("[,"[min(i, 1)])
			_, _ = b.Write(strconv.AppendInt(b.AvailableBuffer(), n, 10))
		}
		_ = b.WriteByte(']')
	}
	text, err := json.Marshal(texts.list)
	if err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	_, _ = fmt.Fprintf(b, `},"strings":%s}`, text)
	return nil
}

// UnmarshalJSON reads columns, and the rows of older versions.
func (t *timeline) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte{'['}) {
		return json.Unmarshal(data, (*[]rca.Segment)(t))
	}
	var doc struct {
		Columns map[string][]int64 `json:"columns"`
		Strings []string           `json:"strings"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	if len(doc.Columns[anchor]) > maxObjects {
		return ErrTooLarge
	}
	rows := make([]rca.Segment, len(doc.Columns[anchor]))
	var errs error
	for _, c := range columns {
		if list := doc.Columns[c.name]; len(list) > 0 {
			errs = errors.Join(errs, c.set(rows, list, doc.Strings))
		}
	}
	*t = rows
	return errs
}
