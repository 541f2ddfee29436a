// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mapped is what a process's mappings show of its part in collective communication.
type Mapped struct {
	NCCL   bool // The library of NCCL or RCCL. A program that links it statically does not show it.
	Plugin bool // Culprit's plugin, or its preload library.
	Files  []MappedFile
}

// MappedFile is a file that a process has mapped, with its path in the process's own mount namespace.
type MappedFile struct {
	Path          string
	Device, Inode uint64
}

// maxMapped bounds the files that are told of one process.
const maxMapped = 16

// Names of libraries begin so.
var (
	ncclNames   = []string{"libnccl.so", "librccl.so"}
	pluginNames = []string{"libnccl-profiler-culprit.so", "libculprit-preload.so"}
)

// Mapped reads a process's mappings, which takes the rights of a debugger. Of its files it tells those whose name has the suffix.
func (fs *FS) Mapped(pid int, suffix string) (Mapped, error) {
	f, err := os.Open(filepath.Join(fs.root, strconv.Itoa(pid), "maps"))
	if err != nil {
		return Mapped{}, fmt.Errorf("reading the mappings of process %d: %w", pid, err)
	}
	defer f.Close()
	var m Mapped
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// "7f00-7f10 rw-s 00000000 00:1a 77   /dev/shm/culprit/x.trace"; the path may hold spaces.
		at := strings.IndexByte(lines.Text(), '/')
		if at < 0 {
			continue
		}
		m.note(lines.Text()[:at], lines.Text()[at:], suffix)
	}
	if err := lines.Err(); err != nil && !errors.Is(err, unix.ESRCH) {
		return Mapped{}, fmt.Errorf("reading the mappings of process %d: %w", pid, err)
	}
	return m, nil
}

func (m *Mapped) note(fields, name, suffix string) {
	base := path.Base(name)
	switch {
	case hasAnyPrefix(base, ncclNames):
		m.NCCL = true
	case hasAnyPrefix(base, pluginNames):
		m.Plugin = true
	case strings.HasSuffix(base, suffix) && len(m.Files) < maxMapped:
		var major, minor uint32
		f := MappedFile{Path: name}
		if columns := strings.Fields(fields); len(columns) == 5 {
			if n, err := fmt.Sscanf(columns[3], "%x:%x", &major, &minor); err != nil || n != 2 {
				return
			}
			f.Device = unix.Mkdev(major, minor)
			f.Inode, _ = strconv.ParseUint(columns[4], 10, 64) // 0 is no file's.
			m.Files = append(m.Files, f)
		}
	}
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// PIDs lists the processes that are visible.
func (fs *FS) PIDs() ([]int, error) {
	dir, err := os.Open(fs.root)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// Owners are the users of whom processes are visible.
func (fs *FS) Owners() map[uint32]bool {
	pids, err := fs.PIDs()
	if err != nil {
		return nil
	}
	out := map[uint32]bool{}
	for _, pid := range pids {
		if uid, err := fs.UID(pid); err == nil {
			out[uid] = true
		}
	}
	return out
}

// OpenDirIn opens a directory by its path in a process's own mount namespace. No link on the way leads out of that.
func (fs *FS) OpenDirIn(pid int, name string) (fd int, err error) {
	link := filepath.Join(fs.root, strconv.Itoa(pid), "root")
	root, err := unix.Open(link, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: link, Err: err}
	}
	defer unix.Close(root)
	how := unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range 3 { // The kernel asks to try again when something was renamed meanwhile.
		if fd, err = unix.Openat2(root, name, &how); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: filepath.Join(link, name), Err: err}
	}
	return fd, nil
}

// OwnMounts tells whether a process has a mount namespace other than that of the caller.
func (fs *FS) OwnMounts(pid int) (bool, error) {
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return false, fmt.Errorf("finding the mount namespace: %w", err)
	}
	theirs, err := os.Readlink(filepath.Join(fs.root, strconv.Itoa(pid), "ns", "mnt"))
	if err != nil {
		return false, fmt.Errorf("finding the mount namespace of process %d: %w", pid, err)
	}
	return ours != theirs, nil
}

// StartTime tells which process of a number it is: its start in clock ticks after boot.
func (fs *FS) StartTime(pid int) (uint64, error) {
	st, err := fs.statOnce(pid)
	return st.StartTicks, err
}
