// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Threads lists the threads of a process, its main thread first.
func (fs *FS) Threads(pid int) ([]int, error) {
	names, err := os.ReadDir(filepath.Join(fs.root, strconv.Itoa(pid), "task"))
	if err != nil {
		return nil, fmt.Errorf("listing threads: %w", err)
	}
	out := make([]int, 0, len(names))
	for _, e := range names {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, tid)
		}
	}
	slices.Sort(out)
	if i := slices.Index(out, pid); i > 0 { // Numbers begin anew when they run out.
		out = slices.Insert(slices.Delete(out, i, i+1), 0, pid)
	}
	return out, nil
}

// Children lists the processes that a process's threads have started and that still run.
func (fs *FS) Children(pid int) []int {
	threads, _ := fs.Threads(pid)
	var out []int
	for _, tid := range threads {
		b, err := fs.read(taskFile(pid, tid, "children"))
		if err != nil {
			continue
		}
		for f := range bytes.FieldsSeq(b) {
			if n, err := strconv.Atoi(string(f)); err == nil {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out
}

// ErrRuns says that a thread is in no system call: it runs, or handles a page fault.
var ErrRuns = errors.New("the thread is in no system call")

// Syscall is the call that a thread sleeps in.
type Syscall struct {
	Number int
	Args   [6]uint64
}

// Syscall reads which call a thread sleeps in, which takes the rights of a debugger.
func (fs *FS) Syscall(pid, tid int) (Syscall, error) {
	b, err := fs.read(taskFile(pid, tid, "syscall"))
	if err != nil {
		return Syscall{}, err
	}
	return parseSyscall(string(b))
}

// parseSyscall reads "0 0x3 0x7fff 0x1000 0x8 0x0 0x56 0x7ffe 0x7f0b": number, arguments, stack pointer, instruction; or "running", or
// "-1" with the two last.
func parseSyscall(line string) (Syscall, error) {
	f := strings.Fields(line)
	var s Syscall
	if len(f) < len(s.Args)+1 {
		return s, ErrRuns
	}
	n, err := strconv.Atoi(f[0])
	if err != nil || n < 0 {
		return s, fmt.Errorf("parsing syscall: number %q", f[0])
	}
	s.Number = n
	for i := range s.Args {
		if s.Args[i], err = strconv.ParseUint(strings.TrimPrefix(f[i+1], "0x"), 16, 64); err != nil {
			return s, fmt.Errorf("parsing syscall: %w", err)
		}
	}
	return s, nil
}

// KernelStack gives the functions of the kernel that a thread is in, innermost first and without addresses. It takes CAP_SYS_ADMIN.
func (fs *FS) KernelStack(pid, tid int) ([]string, error) {
	b, err := fs.read(taskFile(pid, tid, "stack"))
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range bytes.Lines(b) {
		// "[<0>] vfs_read+0x32c/0x360", with the module in brackets behind it.
		_, name, ok := strings.Cut(strings.TrimSpace(string(line)), "] ")
		if name, _, _ = strings.Cut(name, "+0x"); ok && name != "" {
			out = append(out, name)
		}
	}
	return out, nil
}

// OpenFile is a descriptor of a process.
type OpenFile struct {
	Path    string // As the process sees it; "pipe:[17]" and "socket:[18]" name no file.
	MountID int    // Of Mounts.
	Position,
	Inode uint64
}

// OpenFile reads what a descriptor of a process leads to, which takes the rights of a debugger. It asks the file itself nothing: its
// server may not answer.
func (fs *FS) OpenFile(pid, fd int) (OpenFile, error) {
	link := filepath.Join(fs.root, strconv.Itoa(pid), "fd", strconv.Itoa(fd))
	name, err := os.Readlink(link)
	if err != nil {
		return OpenFile{}, fmt.Errorf("reading a descriptor: %w", err)
	}
	b, err := fs.read(fmt.Sprintf("%d/fdinfo/%d", pid, fd))
	if err != nil {
		return OpenFile{}, err
	}
	f := OpenFile{Path: name}
	for line := range bytes.Lines(b) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		value = strings.TrimSpace(value)
		switch key { // A value that is none stays zero: it decides nothing.
		case "pos":
			f.Position, _ = strconv.ParseUint(value, 10, 64)
		case "mnt_id":
			f.MountID, _ = strconv.Atoi(value)
		case "ino":
			f.Inode, _ = strconv.ParseUint(value, 10, 64)
		}
	}
	return f, nil
}

// Usage is what a process, or a thread, has done so far, and who traces it.
type Usage struct {
	Tracer    int    // The process that traces it, 0 none.
	SwapBytes uint64 // Of a process.
	// Switches counts how often it gave up the CPU, by itself or not: a thread that sleeps on counts none.
	Switches uint64
}

// Usage reads a thread's status file.
func (fs *FS) Usage(pid, tid int) (Usage, error) {
	b, err := fs.read(taskFile(pid, tid, "status"))
	if err != nil {
		return Usage{}, err
	}
	var u Usage
	for line := range bytes.Lines(b) {
		key, rest, _ := bytes.Cut(line, []byte(":"))
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		switch string(key) {
		case "TracerPid":
			u.Tracer, _ = strconv.Atoi(string(fields[0]))
		case "VmSwap":
			kb, _ := parseUint(fields[0])
			u.SwapBytes = kb << 10
		case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			n, _ := parseUint(fields[0])
			u.Switches += n
		}
	}
	return u, nil
}

// Command is a process's name as the kernel has it: 15 bytes at most.
func (fs *FS) Command(pid int) string {
	b, err := fs.read(strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// maxPath bounds the path that is read of a process's memory.
const maxPath = 512

// PathAt reads the path that a process hands to a system call, which takes the rights of a debugger; empty when it cannot be read. It may
// wait for a process that maps a file.
func (fs *FS) PathAt(pid int, address uint64) string {
	f, err := os.Open(filepath.Join(fs.root, strconv.Itoa(pid), "mem"))
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, maxPath)
	n, _ := f.ReadAt(b, int64(address)) // What is mapped may end before.
	path, _, ended := bytes.Cut(b[:n], []byte{0})
	if !ended {
		return ""
	}
	return string(path)
}

// LinkOf gives where a link in a process's directory leads, such as cwd; empty when it cannot be read.
func (fs *FS) LinkOf(pid int, name string) string {
	target, _ := os.Readlink(filepath.Join(fs.root, strconv.Itoa(pid), name))
	return target
}
