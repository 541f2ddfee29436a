// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lib.so")
	args := append([]string{"-shared", "-fPIC", "-o", path, source}, flags...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return path
}

// DWARF versions say in different ways where a bit field lies.
func TestPlaces(t *testing.T) {
	want := map[string]Place{
		"fifo.size":         {Offset: 64, Bits: 64, ElementBytes: 8},
		"conn":              {Bits: 40 * 8},
		"conn.buffs":        {Offset: 0, Bits: 192, ElementBytes: 8},
		"conn.step":         {Offset: 256, Bits: 64, ElementBytes: 8},
		"conn.as_double":    {Offset: 256, Bits: 64, ElementBytes: 8},
		"peer.recv":         {Offset: 640, Bits: 640, ElementBytes: 40},
		"tree.down":         {Offset: 64, Bits: 96, ElementBytes: 4},
		"channel.ring":      {Offset: 64, Bits: 64, ElementBytes: 8},
		"channel.tree":      {Offset: 128, Bits: 160, ElementBytes: 20},
		"comm.channels":     {Offset: 64, Bits: 64, ElementBytes: 8},
		"commch.channels":   {Offset: 128, Bits: 4 * 320, ElementBytes: 40},
		"args.channelMask":  {Offset: 64, Bits: 64, ElementBytes: 8},
		"batch":             {Bits: 128},
		"batch.nextJump":    {Offset: 0, Bits: 14, ElementBytes: 4},
		"batch.nextExtends": {Offset: 14, Bits: 1, ElementBytes: 4},
		"batch.workType":    {Offset: 15, Bits: 2, ElementBytes: 4},
		"batch.funcId":      {Offset: 17, Bits: 15, ElementBytes: 4},
		"batch.flags":       {Offset: 0, Bits: 32, ElementBytes: 4},
		"batch.offsetBase":  {Offset: 32, Bits: 32, ElementBytes: 4},
		"coll.channelLo":    {Offset: 0, Bits: 8, ElementBytes: 4},
		"coll.channelHi":    {Offset: 8, Bits: 8, ElementBytes: 4},
		"coll.nWarps":       {Offset: 16, Bits: 8, ElementBytes: 4},
		"coll.recvbuff":     {Offset: 64, Bits: 64, ElementBytes: 8},
		"coll.countMid":     {Offset: 256, Bits: 64, ElementBytes: 8},
		"coll.grains":       {Offset: 320, Bits: 21, ElementBytes: 8},
		"coll.more":         {Offset: 344, Bits: 40, ElementBytes: 8},
		"coll.count":        {Offset: 192, Bits: 64, ElementBytes: 8},
		"collreg.coll":      {Offset: 0, Bits: 384, ElementBytes: 48},
		"collreg.dnInputs":  {Offset: 384, Bits: 128, ElementBytes: 8},
		"p2p.low":           {Offset: 64, Bits: 3, ElementBytes: 1},
		"p2p.high":          {Offset: 67, Bits: 5, ElementBytes: 1},
		"p2p.flag":          {Offset: 72, Bits: 1, ElementBytes: 1},
	}
	for _, flag := range []string{"-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"} {
		t.Run(flag, func(t *testing.T) {
			l, err := Read(compile(t, "testdata/structs.c", flag))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]Place{}
			for _, p := range l {
				if _, twice := got[p.Name]; twice {
					t.Errorf("%s is there twice", p.Name)
				}
				got[p.Name] = p
			}
			for name, p := range want {
				p.Name = name
				if got[name] != p {
					t.Errorf("got %+v, want %+v", got[name], p)
				}
			}
			if _, other := got["comm.unrelated"]; other {
				t.Error("comm is the other struct of that name")
			}
		})
	}
}

func TestRefused(t *testing.T) {
	source, err := os.ReadFile("testdata/structs.c")
	if err != nil {
		t.Fatal(err)
	}
	without := filepath.Join(t.TempDir(), "structs.c")
	if err := os.WriteFile(without, []byte(strings.ReplaceAll(string(source), "ncclDevWorkP2p", "renamed")), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, want string }{
		{"no file", "testdata/none.so", "no such file"},
		{"no library", "testdata/structs.c", "open library"},
		{"without debug information", compile(t, "testdata/structs.c"), "debug information"},
		{"without a struct", compile(t, without, "-g"), "ncclDevWorkP2p"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if l, err := Read(test.path); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %d places, error %v, want one that has %q", len(l), err, test.want)
			}
		})
	}
}

// TestLibraries reads every library in .cache/nccl.
func TestLibraries(t *testing.T) {
	if os.Getenv("NCCL") == "none" {
		t.Skip("NCCL=none: no real library was read")
	}
	paths, err := filepath.Glob("../../../.cache/nccl/*/libnccl.so.2")
	if err != nil || len(paths) == 0 {
		t.Fatal("no libnccl.so.2 in .cache/nccl: `go run ./tools/ci run nccl` fetches them, NCCL=none does without")
	}
	for _, path := range paths {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			l, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			var first, second strings.Builder
			if err := l.Write(&first); err != nil {
				t.Fatal(err)
			}
			again, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Write(&second); err != nil {
				t.Fatal(err)
			}
			if first.String() != second.String() || !strings.HasPrefix(first.String(), "nccl-layout 1\n") {
				t.Error("the text is not stable")
			}
			for _, member := range []string{"comm.rank", "channel.peers", "conn.step", "p2p.sendBytes", "coll.redOpArg", "args.workBuf"} {
				if !strings.Contains(first.String(), "\n"+member+" ") {
					t.Errorf("no %s", member)
				}
			}
		})
	}
}
