// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile is what an analyzer holds locked for as long as it runs.
const lockFile = "lock"

// lock says that this process alone uses a folder. The kernel gives it back when the process ends, in whatever way.
type lock struct{ file *os.File }

// hold takes the storage folder for this analyzer. Two that write to one folder would overwrite each other's incidents, and neither
// would know of the other's actions.
func hold(folder string) (*lock, error) {
	if folder == "" {
		return nil, nil
	}
	file, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o640)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the storage folder: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another analyzer uses it; give each its own --storage.path")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the storage folder %s: %w", folder, err), file.Close())
	}
	return &lock{file}, nil
}

// release gives the folder back.
func (l *lock) release() {
	if l != nil {
		_ = l.file.Close()
	}
}
