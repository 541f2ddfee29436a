// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package nvmltest plays hosts for tests of programs that load the played NVML.
package nvmltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Host is the directory of a played host, which the library finds by FAKEGPU_DIR.
type Host string

// NewHost makes a host of so many GPUs in a directory.
func NewHost(dir, name string, gpus int) (Host, error) {
	err := os.WriteFile(filepath.Join(dir, "node"), fmt.Appendf(nil, "name %s\ngpus %d\n", name, gpus), 0o644)
	return Host(dir), err
}

// Control asks something of a GPU, as the README of nvml/ lists it; no lines: a healthy one.
func (h Host) Control(t *testing.T, gpu int, lines ...string) {
	t.Helper()
	path := filepath.Join(string(h), fmt.Sprintf("gpu%d.control", gpu))
	if err := os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Patience is for a machine under load. Nothing takes so long on one that is not.
const Patience = time.Minute

// Eventually asks until check has nothing to complain of: control files are looked at now and then only.
func Eventually(t *testing.T, check func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(Patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-tick.C
	}
}
