// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The same table as spreadsheets of different countries export it.
func TestNotations(t *testing.T) {
	comma := func(f float64) string { return strings.Replace(fmt.Sprintf("%.6f", f), ".", ",", 1) }
	micros := func(f float64, sep string) string {
		n := int64(f*1e6 + 0.5)
		if n < 1_000_000 {
			return fmt.Sprint(n)
		}
		return fmt.Sprintf("%d%s%03d%s%03d", n/1_000_000, sep, n/1000%1000, sep, n%1000)
	}
	for _, tc := range []struct {
		name, header, separator string
		number                  func(float64) string
	}{
		{"plain", "rank;op;start;duration", ";", func(f float64) string { return fmt.Sprintf("%.6f", f) }},
		{"decimal comma", "rank;op;start;duration", ";", comma},
		{"decimal comma in groups", "rank;op;start_us;duration_us", ";", func(f float64) string { return micros(f, ".") + ",0" }},
		{"groups", "rank;op;start_us;duration_us", ";", func(f float64) string { return micros(f, ",") }},
		{"groups in quotes", "rank,op,start_us,duration_us", ",", func(f float64) string { return `"` + micros(f, ",") + `"` }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString(tc.header + "\n")
			for i := range 4 {
				b.WriteString(strings.Join([]string{"3", "all_reduce", tc.number(0.25 + float64(i)), tc.number(0.012345)}, tc.separator) + "\n")
			}
			table, err := Read(t.Context(), "t.csv", []byte(b.String()), nil, -1)
			if err != nil {
				t.Fatal(err)
			}
			if len(table.Rows) != 4 || table.Skipped != 0 {
				t.Fatalf("%d rows, %d skipped", len(table.Rows), table.Skipped)
			}
			for i, r := range table.Rows {
				if want := int64(i)*int64(time.Second) + int64(250*time.Millisecond); r.Start != want || r.End-r.Start != 12_345_000 {
					t.Errorf("row %d starts at %d for %d, want %d", i, r.Start, r.End-r.Start, want)
				}
			}
		})
	}
}
