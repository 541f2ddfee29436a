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
)

// Mount is one line of /proc/PID/mountinfo.
type Mount struct {
	ID     int
	Point  string // In the process's own mount namespace.
	Type   string // nfs4, lustre, fuse.sshfs, ext4.
	Source string // Of a network file system it names the server: "nas1:/export".
}

// maxMounts bounds how many mounts of a process are read.
const maxMounts = 1 << 14

// Mounts reads the mounts that a process sees. The kernel lists them without a word with any file system, so one that hangs does not
// hold this up.
func (fs *FS) Mounts(pid int) (map[int]Mount, error) {
	f, err := os.Open(filepath.Join(fs.root, strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	defer f.Close()
	out := map[int]Mount{}
	lines := bufio.NewScanner(f)
	for lines.Scan() && len(out) < maxMounts {
		if m, ok := parseMount(lines.Text()); ok {
			out[m.ID] = m
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return out, nil
}

// parseMount reads "36 35 98:0 /inner /mnt rw,noatime master:1 - ext3 /dev/root rw".
func parseMount(line string) (Mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	place, what := strings.Fields(before), strings.Fields(after)
	if !ok || len(place) < 6 || len(what) < 2 {
		return Mount{}, false
	}
	id, err := strconv.Atoi(place[0])
	if err != nil {
		return Mount{}, false
	}
	return Mount{ID: id, Point: unescape(place[4]), Type: what[0], Source: unescape(what[1])}, true
}

// unescape undoes what the kernel does to spaces and the like in names: a backslash and three octal digits.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
