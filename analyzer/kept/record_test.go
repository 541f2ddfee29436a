// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"bytes"
	"io"
	"reflect"
	"runtime"
	"testing"

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

// Writing costs no memory that grows with the timeline: the text of one iteration's work of a large job is hundreds of megabytes.
func TestRecordIsWrittenInPieces(t *testing.T) {
	r := withTimeline(100_000)
	var size measure
	if err := r.encode(&size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := r.Write(io.Discard); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > uint64(size.bytes)/4 {
		t.Errorf("%d MiB were allocated to write %d MiB", used>>20, size.bytes>>20)
	}
}
