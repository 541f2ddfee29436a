// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"slices"
	"testing"
	"time"
)

// TestTar has the same entries in another order give the same bytes, with the folders above them.
func TestTar(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	entries := []Entry{
		{Name: "usr/bin/b", Mode: 0o755, Data: []byte("b")},
		{Name: "usr/bin/a", Link: "b", Mode: 0o777},
		{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	var first, second bytes.Buffer
	if err := Tar(&first, entries, at); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(entries)
	if err := Tar(&second, entries, at); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the order of entries shows")
	}
	var names []string
	for r := tar.NewReader(&first); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		if !h.ModTime.Equal(at) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s: %v, user %d %q", h.Name, h.ModTime, h.Uid, h.Uname)
		}
		if h.Name == "tmp/" && h.Mode != 0o1777 {
			t.Errorf("tmp has mode %o", h.Mode)
		}
		names = append(names, h.Name)
	}
	if want := []string{"tmp/", "usr/", "usr/bin/", "usr/bin/a", "usr/bin/b"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}
