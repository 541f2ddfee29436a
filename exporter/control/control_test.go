// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/exporter/control"
)

func TestCheck(t *testing.T) {
	for _, line := range []string{"-proxystep", "+kernelch", "coll,p2p,proxyop", "default,-proxystep", "all", "none"} {
		if err := control.Check(line); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	for _, line := range []string{"", ",", "steps", "--proxystep", "-proxystep\nall", "-proxystep ", "coll;p2p", strings.Repeat("all,", 60) + "all"} {
		if err := control.Check(line); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
}

// open gives a descriptor of a directory.
func open(t *testing.T, dir string) int {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

func TestWriteAndRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.trace")
	me, dir := uint32(os.Geteuid()), open(t, filepath.Dir(path))
	for _, line := range []string{"-proxystep", "default"} {
		if err := control.Write(dir, "1.trace", me, line); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path + control.Suffix)
		if err != nil || string(content) != line+"\n" {
			t.Errorf("%q, %v", content, err)
		}
		if fi, err := os.Stat(path + control.Suffix); err != nil || fi.Mode() != 0o644 {
			t.Errorf("mode %v, %v", fi.Mode(), err)
		}
	}
	for range 2 {
		if err := control.Remove(dir, "1.trace"); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLinksAreNotFollowed has somebody wait with a link where the control file will be.
func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	precious, path := filepath.Join(dir, "precious"), filepath.Join(dir, "1.trace")
	if err := os.WriteFile(precious, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, path+control.Suffix); err != nil {
		t.Fatal(err)
	}
	if err := control.Write(open(t, dir), "1.trace", uint32(os.Geteuid()), "none"); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(precious); err != nil || string(content) != "mine" {
		t.Errorf("written through a link: %q, %v", content, err)
	}
	if fi, err := os.Lstat(path + control.Suffix); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("%v, %v", fi, err)
	}
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	me := uint32(os.Geteuid())
	path, at := filepath.Join(dir, "1.trace"), open(t, dir)
	if err := control.Write(at, "1.trace", me, "no such event"); err == nil {
		t.Error("nonsense is written")
	}
	if err := control.Write(-1, "1.trace", me, "all"); err == nil {
		t.Error("written without a directory")
	}
	if err := os.MkdirAll(filepath.Join(path+control.Suffix, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := control.Write(at, "1.trace", me, "all"); err == nil {
		t.Error("a directory is replaced")
	}
	if err := control.Remove(at, "1.trace"); err == nil {
		t.Error("a directory is removed")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".culprit-ctl-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if me != 0 {
		if err := control.Write(at, "1.trace", me+1, "all"); !errors.Is(err, control.ErrNotObeyed) {
			t.Errorf("another user's job: %v", err)
		}
	}
}
