// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
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
