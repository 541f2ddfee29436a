// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package look

import "golang.org/x/sys/unix"

var callsHere = map[int]call{
	unix.SYS_OPEN: {"open", -1, 0}, unix.SYS_STAT: {"stat", -1, 0}, unix.SYS_LSTAT: {"lstat", -1, 0}, unix.SYS_NEWFSTATAT: {"newfstatat", 0, 1},
	unix.SYS_MKDIR: {"mkdir", -1, 0}, unix.SYS_RENAME: {"rename", -1, 0}, unix.SYS_UNLINK: {"unlink", -1, 0}, unix.SYS_RMDIR: {"rmdir", -1, 0},
	unix.SYS_ACCESS: {"access", -1, 0}, unix.SYS_READLINK: {"readlink", -1, 0},
	unix.SYS_POLL: {"poll", -1, -1}, unix.SYS_SELECT: {"select", -1, -1}, unix.SYS_EPOLL_WAIT: {"epoll_wait", -1, -1}, unix.SYS_PAUSE: {"pause", -1, -1},
}
