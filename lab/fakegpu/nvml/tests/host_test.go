// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/culprit-project/culprit/lab/fakegpu/nvml/nvmltest"
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

// state is what the runtime leaves in a GPU's state file, as lab/fakegpu/state.h lays it out.
type state struct {
	Magic, Version                  uint32
	Memory, BusyNS, PCIeIn, PCIeOut uint64
	Processes                       [16]process
}

type process struct {
	PID, Reserved  uint32
	Memory, BusyNS uint64
}

// writeState writes a GPU's state into the file that the library may have mapped already.
func writeState(t *testing.T, h nvmltest.Host, gpu int, s state) {
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
