// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Holds tells whether the kernel shows that a process has locked a file or has it mapped. The locks are shown to
// everybody, mappings to those with the rights of a debugger. False may mean that neither can be seen.
func (fs *FS) Holds(pid int, device, inode uint64) bool {
	number := strconv.Itoa(pid)
	major, minor := unix.Major(device), unix.Minor(device)
	// "1: FLOCK  ADVISORY  READ 4711 00:1a:77 0 EOF"
	locked := fs.anyLine("locks", func(f []string) bool {
		return len(f) >= 6 && f[4] == number && f[5] == fmt.Sprintf("%02x:%02x:%d", major, minor, inode)
	})
	// "7f00-7f10 rw-s 00000000 00:1a 77   /dev/shm/culprit/x.trace"
	return locked || fs.anyLine(filepath.Join(number, "maps"), func(f []string) bool {
		return len(f) >= 5 && f[3] == fmt.Sprintf("%02x:%02x", major, minor) && f[4] == strconv.FormatUint(inode, 10)
	})
}

// Disowns tells whether the kernel shows what a process has mapped, and no file of that name is among it. Files are compared by name
// because some filesystems show other device numbers in mappings than to those who open the file. False may mean that the mappings
// cannot be seen.
func (fs *FS) Disowns(pid int, name string) bool {
	shown := false
	mapped := fs.anyLine(filepath.Join(strconv.Itoa(pid), "maps"), func(f []string) bool {
		shown = true
		return len(f) > mapsPath && slices.ContainsFunc(f[mapsPath:], func(part string) bool { return filepath.Base(part) == name })
	})
	return shown && !mapped
}

// mapsPath is the field of a line of mappings at which the path begins; it may hold spaces, and " (deleted)" follows it.
const mapsPath = 5

// anyLine tells whether the fields of one of a file's lines match.
func (fs *FS) anyLine(name string, match func(fields []string) bool) bool {
	f, err := os.Open(filepath.Join(fs.root, name))
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if match(strings.Fields(lines.Text())) {
			return true
		}
	}
	return false
}
