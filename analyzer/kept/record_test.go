// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/culprit-project/culprit/analyzer/rca"
)

func withTimeline(segments int) *Record {
	ev := rca.Evidence{JobID: "job", WorldSize: 8, Timeline: make([]rca.Segment, segments)}
	for i := range ev.Timeline {
		ev.Timeline[i] = rca.Segment{Rank: i % 8, Number: int64(i), Func: "AllReduce", Start: int64(i) * 1e6, End: int64(i)*1e6 + 5e5}
	}
	return New(noon, rca.Options{}, ev, Context{}, rca.Verdict{Summary: "slow"})
}

// What is written is read again, whatever the length of the timeline, and the record itself stays as it was.
func TestRecordIsReadAgain(t *testing.T) {
	for _, segments := range []int{0, 1, 1000} {
		r := withTimeline(segments)
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		got, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Evidence.Timeline) != segments || len(got.Evidence.Timeline) != segments || got.Timeline != nil {
			t.Fatalf("%d segments: %d remain, %d were read", segments, len(r.Evidence.Timeline), len(got.Evidence.Timeline))
		}
		for i := range got.Evidence.Timeline {
			if !reflect.DeepEqual(got.Evidence.Timeline[i], r.Evidence.Timeline[i]) {
				t.Fatalf("segment %d: %+v", i, got.Evidence.Timeline[i])
			}
		}
	}
}

// A document of version 1, with its timeline inside the evidence, is read.
func TestRecordOfVersion1(t *testing.T) {
	r, err := Parse([]byte(`{"format":"culprit-evidence","version":1,"evidence":{"JobID":"job","Timeline":[{"Rank":3}]}}`))
	if err != nil || len(r.Evidence.Timeline) != 1 || r.Evidence.Timeline[0].Rank != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The record that is written stays small beside the timeline in memory: that of a large job's iteration is hundreds of megabytes.
func TestRecordIsWrittenInPieces(t *testing.T) {
	r := withTimeline(100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := r.Write(io.Discard); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	held := uint64(len(r.Evidence.Timeline)) * uint64(unsafe.Sizeof(rca.Segment{}))
	if used := after.TotalAlloc - before.TotalAlloc; used > held/8 {
		t.Errorf("%d MiB were allocated to write a timeline of %d MiB", used>>20, held>>20)
	}
}

// Every field of a segment is written and read again, also where it is 0, constant, or text.
func TestTimelineByColumns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]rca.Segment, 200)
	for i := range rows {
		for _, c := range columns {
			v := c.of(&rows[i])
			switch {
			case v.Kind() == reflect.String:
				v.SetString([]string{"", "AllReduce", `"quoted"`}[random.IntN(3)])
			case random.IntN(3) > 0:
				v.SetInt(random.Int64N(1<<40) - 1<<39)
			}
		}
	}
	rows[7].End, rows[8].End, rows[9].End = rows[7].Start, rows[8].Start-1, rows[9].Start+1
	for n := range 3 {
		constant := make([]rca.Segment, n)
		for i := range constant {
			constant[i] = rows[0]
		}
		for _, want := range [][]rca.Segment{rows, constant} {
			r := New(noon, rca.Options{}, rca.Evidence{Timeline: want}, Context{}, rca.Verdict{})
			var b bytes.Buffer
			if err := r.Write(&b); err != nil {
				t.Fatal(err)
			}
			got, err := Read(&b)
			if err != nil || !slices.Equal(got.Evidence.Timeline, want) {
				t.Fatalf("%d rows are not read as they were written: %v", len(want), err)
			}
		}
	}
}

// Columns that do not belong together are refused.
func TestTimelineRefused(t *testing.T) {
	for _, text := range []string{
		`{"columns":{"Start":[1,2],"End":[1,2,3]}}`,
		`{"columns":{"Start":[1,2],"Func":[1]},"strings":["a"]}`,
		`{"columns":{"Start":[1,2],"Func":[-1]},"strings":["a"]}`,
		`{"columns":{"End":[1,2]}}`,
	} {
		if r, err := Parse([]byte(`{"format":"culprit-evidence","version":3,"timeline":` + text + `}`)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
}

// FuzzTimeline has any columns; those that are read are written and read as the same.
func FuzzTimeline(f *testing.F) {
	for _, text := range []string{
		`{"strings":["a","b"],"columns":{"Start":[17,2,2],"Func":[1],"Comm":[0,1,0],"SendWait.1":[0,3,0],"Entered":[0,1,-4]}}`,
		`[{"Rank":3,"Func":"AllReduce"},{}]`, `{}`, `{"columns":{"Start":[]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want, got timeline
		if want.UnmarshalJSON(data) != nil || len(want) == 0 {
			return
		}
		var text bytes.Buffer
		b := bufio.NewWriter(&text)
		if err := errors.Join(want.write(b), b.Flush(), got.UnmarshalJSON(text.Bytes())); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q becomes %q: %v", data, &text, err)
		}
	})
}
