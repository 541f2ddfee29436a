// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package proctest makes procfs trees for tests.
package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// InitNamespace is the inode of the initial PID namespace.
const InitNamespace = 4026531836

// BootID is the boot id of every tree.
const BootID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"

// FS is a procfs tree in a temporary directory.
type FS struct {
	Root string
	t    testing.TB
}

// Process is a process to put into a tree. Zero fields take plain defaults.
type Process struct {
	PID        int
	Command    string
	State      string // R.
	CPUTicks   uint64
	StartTicks uint64
	Namespace  uint64 // InitNamespace.
	InnerPID   int    // Number in its own namespace; PID.
	ReadBytes  uint64
	WriteBytes uint64
	Cgroup     string
	UID        int // Of whoever runs the test.
	Threads    []Thread
}

// Thread is a thread of a Process.
type Thread struct {
	TID, InnerTID int
	State         string
	CPUTicks      uint64
	RunDelayNS    uint64
	Wchan         string
	CPUs          string // That it may run on, as the kernel lists them; empty: the kernel does not say.
}

// New makes a tree with process 1 in the initial namespace, so that it sees every process.
func New(t testing.TB) *FS {
	t.Helper()
	fs := &FS{Root: t.TempDir(), t: t}
	fs.Write("sys/kernel/random/boot_id", BootID+"\n")
	fs.Put(Process{PID: 1, Command: "init"})
	return fs
}

// Write writes a file of the tree.
func (fs *FS) Write(name, content string) {
	fs.t.Helper()
	path := filepath.Join(fs.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		fs.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		fs.t.Fatal(err)
	}
}

// Put adds a process or replaces it.
func (fs *FS) Put(p Process) {
	fs.t.Helper()
	if p.State == "" {
		p.State = "R"
	}
	if p.Command == "" {
		p.Command = "python3"
	}
	if p.Namespace == 0 {
		p.Namespace = InitNamespace
	}
	if p.InnerPID == 0 {
		p.InnerPID = p.PID
	}
	if p.UID == 0 {
		p.UID = os.Geteuid()
	}
	dir := strconv.Itoa(p.PID)
	fs.Write(dir+"/stat", stat(p.PID, p.Command, p.State, p.CPUTicks, p.StartTicks))
	fs.Write(dir+"/status", status(p.PID, p.InnerPID, p.UID))
	fs.Write(dir+"/io", fmt.Sprintf("rchar: 1\nwchar: 2\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: 0\n", p.ReadBytes, p.WriteBytes))
	fs.Write(dir+"/cgroup", p.Cgroup)
	link := filepath.Join(fs.Root, dir, "ns", "pid")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		fs.t.Fatal(err)
	}
	_ = os.Remove(link) // It may not exist yet.
	if err := os.Symlink(fmt.Sprintf("pid:[%d]", p.Namespace), link); err != nil {
		fs.t.Fatal(err)
	}
	for _, th := range append([]Thread{{TID: p.PID, InnerTID: p.InnerPID, State: p.State, CPUTicks: p.CPUTicks}}, p.Threads...) {
		if th.InnerTID == 0 {
			th.InnerTID = th.TID
		}
		task := fmt.Sprintf("%s/task/%d", dir, th.TID)
		fs.Write(task+"/stat", stat(th.TID, p.Command, th.State, th.CPUTicks, p.StartTicks))
		text := status(th.TID, th.InnerTID, p.UID)
		if th.CPUs != "" {
			text += "Cpus_allowed_list:\t" + th.CPUs + "\n"
		}
		fs.Write(task+"/status", text)
		fs.Write(task+"/schedstat", fmt.Sprintf("%d %d 7\n", th.CPUTicks*1e7, th.RunDelayNS))
		fs.Write(task+"/wchan", th.Wchan)
	}
}

// Remove ends a process.
func (fs *FS) Remove(pid int) {
	fs.t.Helper()
	if err := os.RemoveAll(filepath.Join(fs.Root, strconv.Itoa(pid))); err != nil {
		fs.t.Fatal(err)
	}
}

func stat(id int, command, state string, cpu, start uint64) string {
	if state == "" {
		state = "S"
	}
	return fmt.Sprintf("%d (%s) %s 1 1 1 0 -1 4194304 1 0 0 0 %d %d 0 0 20 0 1 0 %d 4096 1 0\n", id, command, state, cpu-cpu/4, cpu/4, start)
}

func status(id, inner, uid int) string {
	ids := strconv.Itoa(id)
	if inner != id {
		ids += "\t" + strconv.Itoa(inner)
	}
	return fmt.Sprintf("Name:\tpython3\nPid:\t%d\nUid:\t%[2]d\t%[2]d\t%[2]d\t%[2]d\nNSpid:\t%[3]s\nThreads:\t1\n", id, uid, ids)
}
