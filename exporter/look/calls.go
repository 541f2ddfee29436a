// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package look

import "golang.org/x/sys/unix"

// call is a system call, and which of its arguments say what it is about; -1: none does.
type call struct {
	name     string
	fd, path int
}

// calls are those in which threads are seen to wait, by their numbers. callsHere has those of this architecture alone.
var calls = map[int]call{
	unix.SYS_READ: {"read", 0, -1}, unix.SYS_WRITE: {"write", 0, -1}, unix.SYS_READV: {"readv", 0, -1}, unix.SYS_WRITEV: {"writev", 0, -1},
	unix.SYS_PREAD64: {"pread64", 0, -1}, unix.SYS_PWRITE64: {"pwrite64", 0, -1}, unix.SYS_PREADV: {"preadv", 0, -1}, unix.SYS_PWRITEV: {"pwritev", 0, -1},
	unix.SYS_SENDFILE: {"sendfile", 1, -1}, unix.SYS_COPY_FILE_RANGE: {"copy_file_range", 0, -1}, unix.SYS_SPLICE: {"splice", 0, -1},
	unix.SYS_FSYNC: {"fsync", 0, -1}, unix.SYS_FDATASYNC: {"fdatasync", 0, -1}, unix.SYS_SYNCFS: {"syncfs", 0, -1}, unix.SYS_CLOSE: {"close", 0, -1},
	unix.SYS_FTRUNCATE: {"ftruncate", 0, -1}, unix.SYS_FALLOCATE: {"fallocate", 0, -1}, unix.SYS_FLOCK: {"flock", 0, -1}, unix.SYS_FCNTL: {"fcntl", 0, -1},
	unix.SYS_LSEEK: {"lseek", 0, -1}, unix.SYS_FSTAT: {"fstat", 0, -1}, unix.SYS_GETDENTS64: {"getdents64", 0, -1}, unix.SYS_IOCTL: {"ioctl", 0, -1},
	unix.SYS_OPENAT: {"openat", 0, 1}, unix.SYS_OPENAT2: {"openat2", 0, 1}, unix.SYS_STATX: {"statx", 0, 1}, unix.SYS_MKDIRAT: {"mkdirat", 0, 1},
	unix.SYS_UNLINKAT: {"unlinkat", 0, 1}, unix.SYS_READLINKAT: {"readlinkat", 0, 1}, unix.SYS_FACCESSAT: {"faccessat", 0, 1}, unix.SYS_FACCESSAT2: {"faccessat2", 0, 1},
	unix.SYS_RENAMEAT2: {"renameat2", 0, 1}, unix.SYS_TRUNCATE: {"truncate", -1, 0}, unix.SYS_STATFS: {"statfs", -1, 0}, unix.SYS_CHDIR: {"chdir", -1, 0},
	unix.SYS_FUTEX: {"futex", -1, -1}, unix.SYS_PPOLL: {"ppoll", -1, -1}, unix.SYS_PSELECT6: {"pselect6", -1, -1}, unix.SYS_EPOLL_PWAIT: {"epoll_pwait", -1, -1},
	unix.SYS_NANOSLEEP: {"nanosleep", -1, -1}, unix.SYS_CLOCK_NANOSLEEP: {"clock_nanosleep", -1, -1}, unix.SYS_WAIT4: {"wait4", -1, -1}, unix.SYS_WAITID: {"waitid", -1, -1},
	unix.SYS_RECVFROM: {"recvfrom", 0, -1}, unix.SYS_RECVMSG: {"recvmsg", 0, -1}, unix.SYS_SENDTO: {"sendto", 0, -1}, unix.SYS_SENDMSG: {"sendmsg", 0, -1},
	unix.SYS_ACCEPT4: {"accept4", 0, -1}, unix.SYS_CONNECT: {"connect", 0, -1}, unix.SYS_MSYNC: {"msync", -1, -1}, unix.SYS_MMAP: {"mmap", 4, -1}, unix.SYS_MUNMAP: {"munmap", -1, -1},
	unix.SYS_EXIT_GROUP: {"exit_group", -1, -1}, unix.SYS_EXIT: {"exit", -1, -1},
}

func callOf(number int) (call, bool) {
	if c, ok := callsHere[number]; ok {
		return c, true
	}
	c, ok := calls[number]
	return c, ok
}
