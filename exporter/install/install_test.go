// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLibraries has a job that holds the old library open while a new one is installed.
func TestLibraries(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "culprit")
	library := filepath.Join(from, "libnccl-profiler-culprit.so")
	install := func(content string) {
		t.Helper()
		if err := os.WriteFile(library, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if done, err := Libraries(from, to); err != nil || len(done) != 1 {
			t.Fatalf("%v, %v", done, err)
		}
	}
	install("old")
	held, err := os.Open(filepath.Join(to, filepath.Base(library)))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	install("newer")
	old := make([]byte, 16)
	if n, err := held.Read(old); err != nil || string(old[:n]) != "old" {
		t.Errorf("the job's library is %q, %v", old[:n], err)
	}
	got, err := os.ReadFile(held.Name())
	if err != nil || string(got) != "newer" {
		t.Errorf("installed %q, %v", got, err)
	}
	info, err := os.Stat(held.Name())
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	files, err := os.ReadDir(to)
	if err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	if _, err := Libraries(t.TempDir(), to); err == nil {
		t.Error("nothing was to be installed, and nothing is said")
	}
}
