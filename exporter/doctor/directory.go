// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/internal/terminal"
)

const (
	// traceFile is the default size of a trace file.
	traceFile = 8 << 20
	// ranks is for how many more there should be room.
	ranks = 8
)

// directory looks at a directory of trace files.
func directory(dir string) []Finding {
	prepare := "as root: culprit-exporter --trace.prepare --trace.dir=" + terminal.Quote(dir)
	var stat unix.Stat_t
	switch err := unix.Lstat(dir, &stat); {
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{{"directory", Failed, dir + " does not exist, so jobs write no trace files.", prepare}}
	case err != nil:
		return []Finding{{"directory", Failed, fmt.Sprintf("%s cannot be looked at: %v.", dir, err), "run this as root"}}
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return []Finding{{"directory", Failed, dir + " is not a directory, so jobs write no trace files.", "rm -- " + terminal.Quote(dir) + ", then " + prepare}}
	}
	findings := []Finding{ok("directory", "%s exists.", dir), rights(dir, &stat, prepare)}
	if _, err := os.ReadDir(dir); err != nil {
		findings = append(findings, Finding{"rights", Failed, fmt.Sprintf("%s cannot be read: %v.", dir, err), prepare})
	}
	var room unix.Statfs_t
	if err := unix.Statfs(dir, &room); err != nil {
		return append(findings, Finding{"room", Warning, fmt.Sprintf("The free room in %s is unknown: %v.", dir, err), ""})
	}
	if room.Type != unix.TMPFS_MAGIC {
		findings = append(findings, Finding{
			"memory", Warning, dir + " is not on a tmpfs: trace files cost disk writes.",
			"set CULPRIT_DIR of the jobs and --trace.dir of the exporter to a directory in /dev/shm",
		})
	}
	if free := room.Bavail * uint64(room.Bsize); free < ranks*traceFile { // Block sizes are positive.
		return append(findings, Finding{
			"room", Failed, fmt.Sprintf("%s has %d MB left; %d ranks need %d MB.", dir, free>>20, ranks, ranks*traceFile>>20),
			"mount -o remount,size=50% /dev/shm, or give pods a larger shared memory",
		})
	}
	return append(findings, ok("room", "%s has %d MB left.", dir, room.Bavail*uint64(room.Bsize)>>20))
}

// rights must let every user make a directory in it and remove no other's.
func rights(dir string, stat *unix.Stat_t, prepare string) Finding {
	mode := stat.Mode & 0o7777
	switch {
	case mode&0o002 == 0 && stat.Uid == 0:
		return Finding{"rights", Failed, fmt.Sprintf("%s has mode %04o: only root's jobs can write trace files.", dir, mode), prepare}
	case mode&0o002 == 0:
		return Finding{"rights", Failed, fmt.Sprintf("%s has mode %04o and belongs to user %d: jobs of other users cannot write trace files.", dir, mode, stat.Uid), prepare}
	case mode&unix.S_ISVTX == 0:
		return Finding{"rights", Failed, fmt.Sprintf("%s has mode %04o, without the sticky bit: the shim refuses it, since any user could replace trace files.", dir, mode), prepare}
	case stat.Uid != 0:
		return Finding{"rights", Failed, fmt.Sprintf("%s belongs to user %d, not to root: jobs of other users refuse it.", dir, stat.Uid), prepare}
	}
	return ok("rights", "%s is root's, with mode %04o.", dir, mode)
}
