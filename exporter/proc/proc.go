// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package proc asks the kernel about processes, through a procfs that may be the node's own, mounted elsewhere. It
// reads what a training rank's hang may show: process and thread state, CPU time, run queue delay, storage traffic,
// what a thread sleeps in, and the container it belongs to.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is USER_HZ, which Linux fixes at 100 on every architecture with GPUs.
const ticksPerSecond = 100

// initNamespace is the inode of the initial PID namespace (PROC_PID_INIT_INO).
const initNamespace = 0xEFFFFFFC

// FS is a mounted procfs. It is not safe for concurrent use.
type FS struct {
	root      string
	namespace uint64 // Of the mount: PID namespace of its process 1, 0 unknown.
	bootID    string
	buf       []byte
	kept      map[string]int // Descriptors of files that are read again and again, by name; nil: none are kept.
}

// maxKept bounds the descriptors. Opening such a file costs several times what reading it does.
const maxKept = 1024

// Open opens the procfs mounted at root.
func Open(root string) (*FS, error) {
	fs := &FS{root: root, buf: make([]byte, 8192)}
	boot, err := fs.read("sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("reading the boot id: %w", err)
	}
	fs.bootID = string(bytes.TrimSpace(boot))
	// Only procfs writes a file anew for each read, and lets no reader of an old process take it for a new one.
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err == nil && st.Type == unix.PROC_SUPER_MAGIC {
		fs.kept = map[string]int{}
	}
	if fs.namespace, err = fs.namespaceOf("1"); err != nil && fs.isOwn() {
		fs.namespace, _ = fs.namespaceOf("self")
	}
	return fs, nil
}

// isOwn tells whether the mount belongs to this process's own PID namespace. Then "self", whose link anybody may
// read, stands for process 1, whose link needs privileges. Seen from an outer namespace a process has several numbers.
func (fs *FS) isOwn() bool {
	b, err := fs.read("self/status")
	return err == nil && len(innerIDs(b)) == 1
}

// BootID identifies the running kernel.
func (fs *FS) BootID() string { return fs.bootID }

// Namespace is the inode of the mount's PID namespace, 0 when it cannot be told.
func (fs *FS) Namespace() uint64 { return fs.namespace }

// SeesAll tells whether every process of the machine is visible, so that absence means death.
func (fs *FS) SeesAll() bool { return fs.namespace == initNamespace }

func (fs *FS) namespaceOf(pid string) (uint64, error) {
	link, err := os.Readlink(filepath.Join(fs.root, pid, "ns", "pid"))
	if err != nil {
		return 0, err
	}
	inode, ok := strings.CutPrefix(link, "pid:[")
	if !ok {
		return 0, fmt.Errorf("unexpected namespace link %q", link)
	}
	return strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64)
}

// read reads a small file into the shared buffer; the result is valid until the next call.
func (fs *FS) read(name string) ([]byte, error) {
	fd, err := unix.Open(fs.root+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	n := 0
	for n < len(fs.buf) {
		m, err := unix.Read(fd, fs.buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		}
		if m == 0 {
			break
		}
		n += m
	}
	return fs.buf[:n], nil
}

// readAgain is read for a file of a process that will be read again until Forget.
func (fs *FS) readAgain(name string) ([]byte, error) {
	if fs.kept == nil {
		return fs.read(name)
	}
	fd, ok := fs.kept[name]
	if !ok {
		if len(fs.kept) >= maxKept {
			return fs.read(name)
		}
		var err error
		if fd, err = unix.Open(fs.root+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		fs.kept[name] = fd
	}
	n, err := unix.Pread(fd, fs.buf, 0)
	if err == nil {
		return fs.buf[:n], nil
	}
	// Its process or thread has ended, and another may have its number.
	unix.Close(fd)
	delete(fs.kept, name)
	return fs.read(name)
}

// Forget closes what is kept open of a process.
func (fs *FS) Forget(pid int) {
	prefix := strconv.Itoa(pid) + "/"
	for name, fd := range fs.kept {
		if strings.HasPrefix(name, prefix) {
			unix.Close(fd)
			delete(fs.kept, name)
		}
	}
}

// Stat is what /proc/PID/stat says of a process or thread.
type Stat struct {
	State      byte    // R, S, D, T, t, Z, X, I.
	CPUSeconds float64 // User and system time so far.
	StartTicks uint64  // Start time, clock ticks after boot.
}

// Stat reads a process.
func (fs *FS) Stat(pid int) (Stat, error) { return parsed(fs.readAgain(strconv.Itoa(pid) + "/stat")) }

// statOnce is Stat for a process that may be none of ours.
func (fs *FS) statOnce(pid int) (Stat, error) { return parsed(fs.read(strconv.Itoa(pid) + "/stat")) }

// ThreadStat reads a thread of a process.
func (fs *FS) ThreadStat(pid, tid int) (Stat, error) {
	return parsed(fs.read(taskFile(pid, tid, "stat")))
}

func parsed(b []byte, err error) (Stat, error) {
	if err != nil {
		return Stat{}, err
	}
	return parseStat(b)
}

func taskFile(pid, tid int, name string) string {
	return strconv.Itoa(pid) + "/task/" + strconv.Itoa(tid) + "/" + name
}

// parseStat reads the fields after the command, which may hold spaces and parentheses of its own.
func parseStat(b []byte) (Stat, error) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return Stat{}, errors.New("parsing stat: no command")
	}
	rest := b[i+1:]
	var s Stat
	var ticks uint64
	for n := 3; ; n++ { // Fields are numbered from 1; the command is 2.
		rest = bytes.TrimLeft(rest, " \n")
		if len(rest) == 0 {
			return Stat{}, fmt.Errorf("parsing stat: ends before field %d", n)
		}
		end := bytes.IndexAny(rest, " \n")
		if end < 0 {
			end = len(rest)
		}
		field := rest[:end]
		rest = rest[end:]
		switch n {
		case 3:
			if len(field) != 1 || field[0] < 'A' || field[0] > 'z' {
				return Stat{}, fmt.Errorf("parsing stat: state %q", field)
			}
			s.State = field[0]
		case 14, 15, 22:
			v, err := parseUint(field)
			if err != nil {
				return Stat{}, fmt.Errorf("parsing stat: field %d: %w", n, err)
			}
			if n == 22 {
				s.StartTicks = v
				s.CPUSeconds = float64(ticks) / ticksPerSecond
				return s, nil
			}
			ticks += v
		}
	}
}

func parseUint(b []byte) (uint64, error) { return strconv.ParseUint(string(b), 10, 64) }

// Sched is what /proc/PID/task/TID/schedstat says of a thread: how long it has run so far, and how long it has been
// ready to run without a CPU, in seconds.
type Sched struct{ CPUSeconds, DelaySeconds float64 }

// ThreadSched reads a thread's share of the CPU.
func (fs *FS) ThreadSched(pid, tid int) (Sched, error) {
	b, err := fs.readAgain(taskFile(pid, tid, "schedstat"))
	if err != nil {
		return Sched{}, err
	}
	run, rest, _ := bytes.Cut(b, []byte(" "))
	delay, _, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return Sched{}, errors.New("parsing schedstat: too few fields")
	}
	var s Sched
	for _, v := range []struct {
		field []byte
		dst   *float64
	}{{run, &s.CPUSeconds}, {delay, &s.DelaySeconds}} {
		ns, err := parseUint(v.field)
		if err != nil {
			return Sched{}, fmt.Errorf("parsing schedstat: %w", err)
		}
		*v.dst = float64(ns) / 1e9
	}
	return s, nil
}

// Affinity is the CPUs that a thread may run on, as the kernel lists them ("0-3,8"), and their number; 0 when the kernel
// does not tell.
func (fs *FS) Affinity(pid, tid int) (list string, cpus int) {
	b, err := fs.read(taskFile(pid, tid, "status"))
	if err != nil {
		return "", 0
	}
	_, rest, ok := bytes.Cut(b, []byte("\nCpus_allowed_list:"))
	if !ok {
		return "", 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	list = string(bytes.TrimSpace(line))
	if cpus = CountCPUs(list); cpus == 0 {
		return "", 0
	}
	return list, cpus
}

// maxCPU is above the number of any CPU that Linux knows.
const maxCPU = 1 << 16

// CountCPUs counts the CPUs in a list such as "0-3,8"; 0 for anything else.
func CountCPUs(list string) int {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 32)
		b, errB := strconv.ParseUint(last, 10, 32)
		if errA != nil || errB != nil || b < a || b >= maxCPU {
			return 0
		}
		n += int(b-a) + 1
	}
	return n
}

// IO is what a process has read and written so far, in bytes.
type IO struct {
	ReadBytes, WriteBytes uint64 // From and towards storage, which not all file systems count.
	Read, Written         uint64 // By calls that have returned, from and to anything.
}

// IO reads /proc/PID/io, which needs the rights of a debugger.
func (fs *FS) IO(pid int) (IO, error) {
	b, err := fs.readAgain(strconv.Itoa(pid) + "/io")
	if err != nil {
		return IO{}, err
	}
	var io IO
	for line := range bytes.Lines(b) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		var dst *uint64
		switch string(key) {
		case "read_bytes":
			dst = &io.ReadBytes
		case "write_bytes":
			dst = &io.WriteBytes
		case "rchar":
			dst = &io.Read
		case "wchar":
			dst = &io.Written
		default:
			continue
		}
		if *dst, err = parseUint(value); err != nil {
			return IO{}, fmt.Errorf("parsing io: %w", err)
		}
	}
	return io, nil
}

// Wchan names the kernel function that a thread sleeps in; empty when it runs or the kernel does not tell.
func (fs *FS) Wchan(pid, tid int) string {
	b, err := fs.read(taskFile(pid, tid, "wchan"))
	if err != nil || string(b) == "0" {
		return ""
	}
	return string(b)
}

// Outside gives the user that one of a process's user namespace is here; false: that has no such user, or cannot be seen.
func (fs *FS) Outside(pid int, inside uint32) (uint32, bool) {
	b, err := fs.read(strconv.Itoa(pid) + "/uid_map")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		var first, here, count uint64
		if _, err := fmt.Sscan(string(line), &first, &here, &count); err == nil && uint64(inside) >= first && uint64(inside)-first < count {
			return uint32(here + uint64(inside) - first), true // User numbers have 32 bits.
		}
	}
	return 0, false
}

// UID is the user that owns the files that a process makes. The owner of its directory in procfs will not do: it is root for
// a process that may not be dumped.
func (fs *FS) UID(pid int) (uint32, error) {
	b, err := fs.read(strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(b, []byte("\nUid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	ids := bytes.Fields(line) // Real, effective, saved, filesystem.
	if len(ids) != 4 {
		return 0, errors.New("parsing status: no Uid line")
	}
	uid, err := strconv.ParseUint(string(ids[3]), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("parsing status: %w", err)
	}
	return uint32(uid), nil
}
