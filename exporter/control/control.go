// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package control writes the control files that tell the shim in a running job which events to ask NCCL for.
// docs/trace-format.md says what they are and whom the shim obeys.
package control

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Suffix is what a control file's name has behind its trace file's.
const Suffix = ".ctl"

// events are the names that the shim knows.
var events = map[string]bool{
	"coll": true, "p2p": true, "proxyop": true, "proxystep": true, "kernelch": true, "groupapi": true, "collapi": true, "p2papi": true,
	"cecoll": true, "all": true, "none": true, "default": true,
}

// maxLine bounds a line; the shim reads 255 bytes.
const maxLine = 200

// Check tells what is wrong with a line: names of events separated by commas, each with + or - in front or not.
func Check(line string) error {
	if len(line) > maxLine {
		return fmt.Errorf("events: %d characters, at most %d", len(line), maxLine)
	}
	for name := range strings.SplitSeq(line, ",") {
		if bare := strings.TrimLeft(name, "+-"); len(name)-len(bare) > 1 || !events[bare] {
			return fmt.Errorf("events: %q is no event", name)
		}
	}
	return nil
}

// ErrNotObeyed means that the shim would not read a control file of this process's user.
var ErrNotObeyed = errors.New("a job obeys root and its own user only, and the exporter runs as another one")

// Write makes the control file of a trace file in an open directory, whose owner is given. The directory may be writable by
// anybody, so the file is made under another name and moved: whatever lies under the control file's name is replaced, never followed.
func Write(dir int, name string, owner uint32, line string) error {
	if err := Check(line); err != nil {
		return err
	}
	me := os.Geteuid()
	if me != 0 && uint32(me) != owner { // User numbers have 32 bits.
		return ErrNotObeyed
	}
	temporary := ".culprit-ctl-" + rand.Text()
	fd, err := unix.Openat(dir, temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("making the control file: %w", err)
	}
	err = fill(os.NewFile(uintptr(fd), temporary), owner, line+"\n")
	if err == nil {
		err = unix.Renameat(dir, temporary, dir, name+Suffix)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("making the control file: %w", err), unix.Unlinkat(dir, temporary, 0))
	}
	return nil
}

func fill(file *os.File, owner uint32, line string) error {
	_, err := file.WriteString(line)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err == nil && os.Geteuid() == 0 {
		// In a user namespace of its own the job may not know root.
		err = unix.Fchown(int(file.Fd()), int(owner), -1)
	}
	return errors.Join(err, file.Close())
}

// Remove takes the control file away, after which the job reports what it did at its start. It is no error that there is
// none.
func Remove(dir int, name string) error {
	if err := unix.Unlinkat(dir, name+Suffix, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the control file: %w", err)
	}
	return nil
}
