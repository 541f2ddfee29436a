// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bytes"
	"fmt"
	"testing"
)

func FuzzPlain(f *testing.F) {
	f.Add([]byte("[rank0]: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, Timeout(ms)=600000)\n"))
	f.Add([]byte(`{"log":"[rank0]: x\n","stream":"stderr"}`))
	f.Add([]byte("2026-11-22T10:00:00.1Z stderr P [rank\n2026-11-22T10:00:00.1Z stderr F 0]: x\n"))
	f.Add([]byte("(EngineCore_DP0 pid=10) (Worker_PP3 pid=13) ERROR 01-01 10:00:00 [multiproc_executor.py:654] x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := Plain(data); len(got) > 32*len(data)+64 {
			t.Errorf("%d bytes of %d", len(got), len(data))
		}
		if _, _, err := Sieve(bytes.NewReader(data)); err != nil {
			t.Error(err)
		}
	})
}

// firstByWord finds what the pass over all words at once has to find, by looking for each.
func firstByWord(b []byte) int {
	at := -1
	for _, w := range telling.words {
		if i := bytes.Index(b, w); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	return at
}

func TestFirst(t *testing.T) {
	words := telling.words
	for i, w := range words {
		other := words[(i+7)%len(words)]
		for _, text := range []string{"%s", "lorem ipsum %s dolor %s\n", "%[2]s %[1]s"} {
			b := fmt.Appendf(nil, text, w, other)
			for cut := 0; cut <= len(b); cut += 1 + i%5 {
				want := firstByWord(b[:cut])
				if got := first(b[:cut]); got != want || telling.none(b[:cut]) != (want < 0) {
					t.Fatalf("%q: %d, want %d, none: %v", b[:cut], got, want, telling.none(b[:cut]))
				}
			}
		}
	}
}

func FuzzFirst(f *testing.F) {
	for _, w := range telling.words {
		f.Add(w)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := firstByWord(data)
		if got := first(data); got != want {
			t.Errorf("%d, want %d", got, want)
		}
		if telling.none(data) != (want < 0) {
			t.Errorf("none says %v, the first is at %d", telling.none(data), want)
		}
		s := sieve{}
		s.chunk(data[:len(data)/2])
		s.chunk(data[len(data)/2:])
		if len(s.kept) > len(data) {
			t.Errorf("kept %d of %d bytes", len(s.kept), len(data))
		}
	})
}

func FuzzScan(f *testing.F) {
	for i := range table {
		f.Add([]byte(table[i].Test))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		for _, e := range Scan(Plain(data)) {
			_ = e.Words()
		}
	})
}

// Each row says who prints it and where that can be looked up, and reads its own line.
func TestRows(t *testing.T) {
	for i := range table {
		r := &table[i]
		name := fmt.Sprintf("%s/%s", r.Kind, r.Prints)
		if r.Prints == "" || r.Source == "" || r.Test == "" || len(r.Anchors) == 0 {
			t.Errorf("%s: a row needs a program, a source, a test and an anchor", name)
		}
		for _, a := range r.Anchors {
			if len(a) < shortestAnchor {
				t.Errorf("%s: %q is shorter than %d", name, a, shortestAnchor)
			}
		}
		read := false
		for _, e := range Scan([]byte("before\n" + r.Test + "\nafter\n")) {
			read = read || e.Row == r
		}
		if !read {
			t.Errorf("%s does not read %q", name, r.Test)
		}
		if bytes.Contains([]byte(r.Says), []byte("${")) {
			for _, e := range Scan([]byte(r.Test)) {
				if e.Row == r && bytes.Contains([]byte(e.Words()), []byte("  ")) {
					t.Errorf("%s says %q", name, e.Words())
				}
			}
		}
	}
}
