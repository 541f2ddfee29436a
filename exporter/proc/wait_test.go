// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"testing"
)

func TestMount(t *testing.T) {
	for line, want := range map[string]Mount{
		`36 35 0:44 / /ckpt rw,noatime shared:1 - nfs4 nas1:/export/ckpt rw,vers=4.2`: {36, "/ckpt", "nfs4", "nas1:/export/ckpt"},
		`40 35 0:51 /a /data\040set rw - fuse.sshfs user@host:/d rw`:                  {40, "/data set", "fuse.sshfs", "user@host:/d"},
		`41 1 8:1 / /x\134y\9 rw - ext4 /dev/sda1 rw`:                                 {41, `/x\y\9`, "ext4", "/dev/sda1"},
	} {
		if got, ok := parseMount(line); !ok || got != want {
			t.Errorf("%s: %+v, %v", line, got, ok)
		}
	}
	for _, line := range []string{"", "36 35 0:44 / /ckpt rw", "x 35 0:44 / /ckpt rw - nfs4 a", "36 35 - nfs4 a"} {
		if got, ok := parseMount(line); ok {
			t.Errorf("%q is %+v", line, got)
		}
	}
}

func FuzzMount(f *testing.F) {
	f.Add(`36 35 0:44 / /ckpt\040a rw - nfs4 nas1:/export rw`)
	f.Fuzz(func(t *testing.T, line string) {
		if m, ok := parseMount(line); ok && len(m.Point) > len(line) {
			t.Errorf("%q is longer than %q", m.Point, line)
		}
	})
}

func TestSyscall(t *testing.T) {
	s, err := parseSyscall("0 0x3 0x7fff90e37bb0 0x1000 0x8 0x0 0x56106034c4a0 0x7fff90e37b18 0x7f0bd81222ad\n")
	if err != nil || s.Number != 0 || s.Args[0] != 3 || s.Args[2] != 0x1000 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, line := range []string{"running\n", "-1 0x7fff90e37b18 0x7f0bd81222ad\n", ""} {
		if _, err := parseSyscall(line); !errors.Is(err, ErrRuns) {
			t.Errorf("%q: %v", line, err)
		}
	}
	if _, err := parseSyscall("a 0 0 0 0 0 0 0 0"); err == nil || errors.Is(err, ErrRuns) {
		t.Error(err)
	}
}

func FuzzSyscall(f *testing.F) {
	f.Add("0 0x3 0x7f 0x1000 0x8 0x0 0x56 0x7ffe 0x7f0b")
	f.Fuzz(func(t *testing.T, line string) {
		if s, err := parseSyscall(line); err == nil && s.Number < 0 {
			t.Errorf("%+v", s)
		}
	})
}
