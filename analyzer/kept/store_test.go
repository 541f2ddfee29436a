// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// watch is a clock that stands until it is set.
type watch struct{ now time.Time }

func (w *watch) Now() time.Time                       { return w.now }
func (w *watch) Sleep(context.Context, time.Duration) {}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var wide = Bounds{PerIncident: 1 << 20, Total: 1 << 20, Retention: time.Hour}

func open(t *testing.T, dir string, b Bounds, w *watch) *Store {
	t.Helper()
	s, err := NewStore(dir, b, promslog.NewNopLogger(), w)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func record(summary string) *Record {
	return New(noon, rca.Options{}, rca.Evidence{JobID: "job", WorldSize: 8}, Context{}, rca.Verdict{Summary: summary})
}

// summary gives what the archive of an incident says.
func summary(t *testing.T, s *Store, id string) (string, error) {
	t.Helper()
	f, size, err := s.Open(id)
	if err != nil {
		return "", err
	}
	defer f.Close()
	counted := &bounded{w: io.Discard, left: math.MaxInt64}
	zr, err := gzip.NewReader(io.TeeReader(f, counted))
	if err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(zr)
	h, err := tr.Next()
	if err != nil || h.Name != id+"/evidence.json" {
		t.Fatal(h, err)
	}
	text, err := io.ReadAll(tr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, zr); err != nil || math.MaxInt64-counted.left != size {
		t.Errorf("%d bytes, said to be %d: %v", math.MaxInt64-counted.left, size, err)
	}
	if !Sniff(text) {
		t.Errorf("not recognised: %.100s", text)
	}
	r, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r.Verdict.Summary, nil
}

func id(n int) string { return strings.Repeat("a", 11) + string(rune('a'+n)) }

// The newest record of an incident is what is kept of it, in a folder over a restart.
func TestStoreKeepsTheNewest(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "evidence")} {
		w := &watch{noon}
		s := open(t, dir, wide, w)
		if _, err := summary(t, s, id(0)); !errors.Is(err, ErrNotKept) {
			t.Errorf("of nothing: %v", err)
		}
		s.Keep(id(0), record("first"))
		s.Keep(id(0), record("second"))
		if _, ok := s.Size(id(0)); !ok {
			t.Error("what is to be written is not there")
		}
		s.Flush()
		s.Keep(id(0), record("third"))
		if got, err := summary(t, s, id(0)); got != "third" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if dir != "" {
			if err := os.WriteFile(filepath.Join(dir, "."+id(3)+"-12"), []byte("cut off"), 0o600); err != nil {
				t.Fatal(err)
			}
			w.now = time.Now() // A file's time is the machine's.
			s = open(t, dir, wide, w)
			if got, err := summary(t, s, id(0)); got != "third" || err != nil {
				t.Errorf("after a restart %q, %v", got, err)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
				t.Errorf("the folder holds %v, %v", files, err)
			}
		}
		s.Forget(id(0))
		if _, err := summary(t, s, id(0)); !errors.Is(err, ErrNotKept) {
			t.Errorf("forgotten, and there: %v", err)
		}
	}
}

// What is too large, too old, or too much is not kept, and the folder holds what is.
func TestStoreIsBounded(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		w := &watch{noon}
		s := open(t, dir, wide, w)
		s.Keep(id(0), record("one"))
		s.Flush()
		one, _ := s.Size(id(0))
		s.Apply(Bounds{PerIncident: one + 50, Total: 3*one + 150, Retention: time.Hour})
		for n := 1; n < 5; n++ {
			w.now = w.now.Add(time.Minute)
			s.Keep(id(n), record(fmt.Sprint("number ", n)))
			s.Flush()
		}
		for n := range 5 {
			if _, ok := s.Size(id(n)); ok != (n >= 2) {
				t.Errorf("incident %d is kept: %t", n, ok)
			}
		}
		var long strings.Builder
		for n := range 2000 {
			fmt.Fprint(&long, n*n*7919)
		}
		s.Keep(id(4), record(long.String()))
		if _, err := summary(t, s, id(4)); !errors.Is(err, ErrNotKept) || !errors.Is(err, ErrTooLarge) {
			t.Errorf("the former verdict's evidence is kept for this one: %v", err)
		}
		w.now = w.now.Add(2 * time.Hour)
		s.sweep()
		if dir != "" {
			if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
				t.Errorf("after the retention the folder holds %v, %v", files, err)
			}
		}
		if _, ok := s.Size(id(3)); ok {
			t.Error("kept after its time")
		}
	}
}

// Run writes what it is given, and what is left when it ends.
func TestStoreRuns(t *testing.T) {
	s := open(t, t.TempDir(), wide, &watch{noon})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	s.Keep(id(0), record("one"))
	go func() { defer close(done); s.Run(ctx) }()
	cancel()
	<-done
	if files, err := os.ReadDir(s.dir); err != nil || len(files) != 1 {
		t.Errorf("the folder holds %v, %v", files, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]error{
		`{"format":"culprit-evidence","version":4}`: ErrVersion,
		`{"format":"another","version":1}`:          ErrFormat,
		`{"format":`:                                nil,
		strings.Repeat("{", maxObjects+1):           ErrTooLarge,
	} {
		if _, err := Parse([]byte(text)); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%.60s: %v, want %v", text, err, want)
		}
	}
}

// Evidence that no JSON can hold is told, and nothing half is kept.
func TestStoreOfWhatCannotBeWritten(t *testing.T) {
	s := open(t, t.TempDir(), wide, &watch{noon})
	r := record("x")
	r.Evidence.Facts = []rca.Fact{{Value: math.NaN()}}
	s.Keep(id(0), r)
	if _, _, err := s.Open(id(0)); !errors.Is(err, ErrNotKept) {
		t.Errorf("%v", err)
	}
	if files, err := os.ReadDir(s.dir); err != nil || len(files) != 0 {
		t.Errorf("the folder holds %v, %v", files, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"format":"culprit-evidence","version":1,"evidence":{"Ranks":[{"ID":1}]},"context":{"patient":true,"patience":5}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		v := r.Verdict
		r.Context.Apply(&v)
		_ = r.objects()
	})
}
