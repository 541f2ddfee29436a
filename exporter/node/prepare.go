// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sharedMode lets all users make folders in a directory, and none remove another's.
const sharedMode = unix.S_ISVTX | 0o777

// Prepare makes a directory of trace files for all users of the host, or makes one of an existing directory: root's, sticky, and
// writable for all. It must run as root. A symbolic link is not followed.
func Prepare(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("making the trace directory: %w", err)
	}
	f, err := openFolder(unix.AT_FDCWD, path, path)
	if err != nil {
		return fmt.Errorf("opening the trace directory: %w", err)
	}
	defer f.close()
	if f.owner != 0 {
		if err := unix.Fchown(f.fd(), 0, 0); err != nil {
			return fmt.Errorf("giving %s to root: %w", path, err)
		}
	}
	if err := unix.Fchmod(f.fd(), sharedMode); err != nil {
		return fmt.Errorf("setting the mode of %s: %w", path, err)
	}
	return nil
}
