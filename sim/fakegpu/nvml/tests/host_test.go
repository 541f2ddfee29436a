// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Where things are, from this directory.
var (
	root       = mustAbs("../../../..")
	libraryDir = filepath.Join(root, "bin", "fakegpu")
	library    = filepath.Join(libraryDir, "libnvidia-ml.so.1")
)

func mustAbs(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return abs
}

// host is the directory of a played host.
type host string

// newHost makes a host of so many GPUs.
func newHost(dir, name string, gpus int) (host, error) {
	err := os.WriteFile(filepath.Join(dir, "node"), fmt.Appendf(nil, "name %s\ngpus %d\n", name, gpus), 0o644)
	return host(dir), err
}

// control asks something of a GPU; no lines: a healthy one.
func (h host) control(t *testing.T, gpu int, lines ...string) {
	t.Helper()
	path := filepath.Join(string(h), fmt.Sprintf("gpu%d.control", gpu))
	if err := os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// state is what the runtime leaves in a GPU's state file, as sim/fakegpu/state.h lays it out.
type state struct {
	Magic, Version                  uint32
	Memory, BusyNS, PCIeIn, PCIeOut uint64
	Processes                       [16]process
}

type process struct {
	PID, Reserved  uint32
	Memory, BusyNS uint64
}

// state writes a GPU's state into the file that the library may have mapped already.
func (h host) state(t *testing.T, gpu int, s state) {
	t.Helper()
	s.Magic, s.Version = 0x55504746, 1
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, &s); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(string(h), fmt.Sprintf("gpu%d.state", gpu)), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(b.Bytes(), 0); err != nil {
		t.Fatal(err)
	}
}

// patience is for a machine under load. Nothing takes so long on one that is not.
const patience = time.Minute

// eventually asks until check has nothing to complain of: control files are looked at now and then only.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
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
