// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ticker ticks like a time.Ticker, by a timer of the kernel's that the runtime polls as it does sockets. The runtime's own
// timers wake its monitor thread beside the one that has something to do; this one lets it sleep.
type ticker struct {
	file *os.File
	raw  syscall.RawConn
}

func newTicker(period time.Duration) (*ticker, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a timer: %w", err)
	}
	t := &ticker{file: os.NewFile(uintptr(fd), "timer")}
	every := unix.NsecToTimespec(int64(period))
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("setting a timer: %w", err), t.file.Close())
	}
	if t.raw, err = t.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("setting a timer: %w", err), t.file.Close())
	}
	return t, nil
}

// wait returns at the next tick, or at once when one has passed unseen. It fails when ctx has ended.
func (t *ticker) wait() error {
	var ticks [8]byte
	var errno syscall.Errno
	err := t.raw.Read(func(fd uintptr) bool {
		// It does not block, and telling the runtime of a system call would wake the monitor.
		_, _, errno = unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&ticks)), uintptr(len(ticks)))
		return !errors.Is(errno, unix.EAGAIN)
	})
	switch {
	case err != nil:
		return fmt.Errorf("waiting for a tick: %w", err)
	case errno != 0:
		return fmt.Errorf("reading a timer: %w", errno)
	case binary.NativeEndian.Uint64(ticks[:]) == 0:
		return errors.New("reading a timer: it has not ticked")
	}
	return nil
}

// closeWith ends the ticker, and who waits for it, when ctx ends.
func (t *ticker) closeWith(ctx context.Context) { context.AfterFunc(ctx, func() { t.file.Close() }) }
