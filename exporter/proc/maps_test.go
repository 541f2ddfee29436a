// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package proc_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
)

func TestMapped(t *testing.T) {
	const heap, line = "7f00-7f10 rw-p 00000000 00:00 0 \n", "7f00-7f10 r-xp 00000000 fd:01 12 "
	for _, tc := range []struct {
		name, maps string
		want       proc.Mapped
	}{
		{"nothing of ours", heap + line + "/usr/lib/libc.so.6\n", proc.Mapped{}},
		{"NCCL as PyTorch brings it", line + "/opt/venv/nvidia/nccl/lib/libnccl.so.2\n", proc.Mapped{NCCL: true}},
		{"RCCL", line + "/opt/rocm/lib/librccl.so.1.0\n", proc.Mapped{NCCL: true}},
		{"another profiler", line + "/usr/lib/libnccl-profiler-inspector.so\n", proc.Mapped{}},
		{"a plugin deleted by an update", line + "/opt/culprit/libnccl-profiler-culprit.so (deleted)\n", proc.Mapped{Plugin: true}},
		{"the preload library", line + "/opt/culprit/libculprit-preload.so\n", proc.Mapped{Plugin: true}},
		{
			"a trace file whose path has a space", "7f00-7f10 rw-s 00000000 00:1a 77    /dev/shm/a b/u0/x.trace\n",
			proc.Mapped{Files: []proc.MappedFile{{Path: "/dev/shm/a b/u0/x.trace", Device: unix.Mkdev(0, 0x1a), Inode: 77}}},
		},
		{"cut off", "7f00-7f10 rw-s /x.trace\n", proc.Mapped{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := proctest.New(t)
			tree.Put(proctest.Process{PID: 7})
			tree.Write("7/maps", tc.maps)
			fs, err := proc.Open(tree.Root)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := fs.Mapped(7, ".trace"); err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("mapped is %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

// Links inside a process's mount namespace do not lead out of it.
func TestOpenDirIn(t *testing.T) {
	tree, inside, outside := proctest.New(t), t.TempDir(), t.TempDir()
	tree.Put(proctest.Process{PID: 7})
	for _, err := range []error{
		os.Symlink(inside, filepath.Join(tree.Root, "7", "root")),
		os.MkdirAll(filepath.Join(inside, "dev", "shm"), 0o755),
		os.Symlink("/dev/shm", filepath.Join(inside, "short")),
		os.Symlink(outside, filepath.Join(inside, "away")),
		os.Mkdir(filepath.Join(outside, "in"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fs, err := proc.Open(tree.Root)
	if err != nil {
		t.Fatal(err)
	}
	var want unix.Stat_t
	if err := unix.Stat(filepath.Join(inside, "dev", "shm"), &want); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/dev/shm", "/../dev/shm"} {
		fd, err := fs.OpenDirIn(7, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got unix.Stat_t
		if err := unix.Fstat(fd, &got); err != nil || got.Ino != want.Ino {
			t.Errorf("%s is another directory, %v", name, err)
		}
		_ = unix.Close(fd)
	}
	if fd, err := fs.OpenDirIn(7, "/away/in"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link led to %d, %v", fd, err)
	}
}
