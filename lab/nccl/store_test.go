// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// index stands where Python and the package index are: a script that answers pip download.
type index struct {
	dir   string
	wheel string
	sum   string
}

// newIndex makes a wheel with the given files and a script that hands it out.
func newIndex(t *testing.T, files ...string) *index {
	t.Helper()
	x := &index{dir: t.TempDir()}
	x.wheel = filepath.Join(x.dir, "good.whl")
	f, err := os.Create(x.wheel)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, name := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(w, "this is %s", name)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(x.wheel)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	x.sum = hex.EncodeToString(sum[:])
	return x
}

var wheelFiles = []string{
	"nvidia/__init__.py", "nvidia/nccl/include/nccl.h", "nvidia/nccl/lib/libnccl.so.2",
	"nvidia_nccl_cu12-9.9.9.dist-info/METADATA", "nvidia_nccl_cu12-9.9.9.dist-info/licenses/License.txt",
}

func (x *index) release() Release {
	return Release{Version: "9.9.9", Wheel: "nvidia_nccl_cu12-9.9.9-py3-none-any.whl", SHA256: x.sum}
}

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// hands gives the script of a pip that downloads the wheel and counts its runs.
func (x *index) hands(t *testing.T) string {
	t.Helper()
	return script(t, fmt.Sprintf(`echo run >>%s/runs
for a; do case $a in --dest=*) dest=${a#--dest=};; esac; done
cp %s "$dest/%s"
`, x.dir, x.wheel, x.release().Wheel))
}

func (x *index) runs() int {
	text, _ := os.ReadFile(filepath.Join(x.dir, "runs"))
	return strings.Count(string(text), "run\n")
}

func newStore(t *testing.T, python string) *Store {
	t.Helper()
	return &Store{
		Dir: filepath.Join(t.TempDir(), "nccl"), Python: python, Log: t.Logf,
		LayoutTool: script(t, `[ -f "$1" ] || exit 1; echo "layout of $(basename "$1")"`),
	}
}

func entries(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestGet(t *testing.T) {
	x := newIndex(t, wheelFiles...)
	s := newStore(t, x.hands(t))
	for range 2 {
		lib, err := s.Get(t.Context(), x.release())
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(lib.Path)
		if err != nil || string(text) != "this is nvidia/nccl/lib/libnccl.so.2" {
			t.Errorf("library: %q %v", text, err)
		}
		layout, err := os.ReadFile(lib.Layout)
		if err != nil || string(layout) != "layout of libnccl.so.2\n" {
			t.Errorf("layout: %q %v", layout, err)
		}
		// Nothing else of the wheel stays.
		if got := entries(t, filepath.Dir(lib.Path)); got != "License.txt METADATA layout libnccl.so.2" {
			t.Errorf("left behind: %s", got)
		}
	}
	if x.runs() != 1 {
		t.Errorf("pip ran %d times, want once", x.runs())
	}
}

// TestGetThroughLink: .cache may be a link to another place.
func TestGetThroughLink(t *testing.T) {
	x := newIndex(t, wheelFiles...)
	s := newStore(t, x.hands(t))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	s.Dir = filepath.Join(link, "nccl")
	if _, err := s.Get(t.Context(), x.release()); err != nil {
		t.Fatal(err)
	}
}

// TestLayoutFollowsItsTool: a layout that an older tool made is made again.
func TestLayoutFollowsItsTool(t *testing.T) {
	x := newIndex(t, wheelFiles...)
	s := newStore(t, x.hands(t))
	lib, err := s.Get(t.Context(), x.release())
	if err != nil {
		t.Fatal(err)
	}
	s.LayoutTool = script(t, `echo new`)
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(s.LayoutTool, later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), x.release()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(lib.Layout); err != nil || string(text) != "new\n" {
		t.Errorf("layout: %q %v", text, err)
	}
}

// TestGetFails: each way in which a download fails says what is wrong, and leaves nothing that looks like a library.
func TestGetFails(t *testing.T) {
	good := newIndex(t, wheelFiles...)
	empty := newIndex(t, "nvidia/nccl/include/nccl.h")
	other := good.release()
	other.SHA256 = strings.Repeat("0", 64)
	for name, x := range map[string]struct {
		python  string
		release Release
		want    string
	}{
		"no python":     {filepath.Join(t.TempDir(), "python3"), good.release(), "with pip, which is not here"},
		"not on path":   {"python-that-nobody-has", good.release(), "needs python-that-nobody-has with pip, which is not here"},
		"no pip":        {script(t, `echo "$0: No module named pip" >&2; exit 1`), good.release(), "has no pip"},
		"no network":    {script(t, `echo "ERROR: No matching distribution found" >&2; exit 1`), good.release(), "is the package index in reach?"},
		"wrong sum":     {good.hands(t), other, "has the SHA-256 sum " + good.sum},
		"other wheel":   {script(t, `exit 0`), good.release(), "opening the wheel"},
		"no library":    {empty.hands(t), empty.release(), "holds no libnccl.so.2"},
		"broken layout": {good.hands(t), good.release(), "reading the layout"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, x.python)
			if name == "broken layout" {
				s.LayoutTool = script(t, `echo "no debug information" >&2; exit 1`)
			}
			_, err := s.Get(t.Context(), x.release)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("error %v, want %q in it", err, x.want)
			}
			want := ".lock"
			if name == "broken layout" {
				want += " 9.9.9"
			}
			if got := entries(t, s.Dir); got != want {
				t.Errorf("left behind: %s", got)
			}
		})
	}
}

// TestGetInterrupted: Ctrl-C ends the download, and the next one begins anew.
func TestGetInterrupted(t *testing.T) {
	x := newIndex(t, wheelFiles...)
	started := filepath.Join(x.dir, "started")
	s := newStore(t, script(t, "touch "+started+"; exec sleep 100"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(started); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := s.Get(ctx, x.release()); err == nil || ctx.Err() == nil {
		t.Fatalf("error %v", err)
	}
	s.Python = x.hands(t)
	if _, err := s.Get(t.Context(), x.release()); err != nil {
		t.Fatal(err)
	}
}

func TestGiven(t *testing.T) {
	s := newStore(t, "")
	path := filepath.Join(t.TempDir(), "libnccl.so.2")
	// The text lies across the border of two blocks.
	text := strings.Repeat("x", 1<<20+58) + "NCCL version 2.29.3+cuda13.1\x00" + strings.Repeat("y", 1<<20)
	if err := os.WriteFile(path, []byte("\x7fELF"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	lib, err := s.Given(t.Context(), path)
	if err != nil || lib.Version != "2.29.3" || lib.Path != path {
		t.Fatalf("%+v %v", lib, err)
	}
	if text, err := os.ReadFile(lib.Layout); err != nil || string(text) != "layout of libnccl.so.2\n" {
		t.Errorf("layout: %q %v", text, err)
	}
	if err := os.WriteFile(path, []byte("\x7fELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Given(t.Context(), path); err == nil || !strings.Contains(err.Error(), "which version") {
		t.Errorf("error %v", err)
	}
}
