// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// local looks at the process itself where the trace file is of this very boot and process namespace: it then tells the
// time, and whether the process still lives. ok is false when the file comes from elsewhere.
func local(id *trace.Identity) (nowNS uint64, k *nodeapi.Kernel, ok bool) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || id.BootID == "" || strings.TrimSpace(string(boot)) != id.BootID {
		return 0, nil, false
	}
	if id.PIDNamespace != 0 {
		ns, err := os.Readlink("/proc/self/ns/pid")
		if err != nil || ns != fmt.Sprintf("pid:[%d]", id.PIDNamespace) {
			return 0, nil, false
		}
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, nil, false
	}
	now := ts.Nano()
	if now < 0 {
		return 0, nil, false
	}
	return uint64(now), &nodeapi.Kernel{State: processState(id), Verified: true, CPUCores: -1, ReadBytesPerSec: -1, WriteBytesPerSec: -1}, true
}

// copiedAt tells when a trace file was copied, on its writer's clock, where it was while the writer was at work: a copy's
// file times, of which one may be kept from the original, are then just after the writer's last sign of life. What is under
// way in it is not stuck for that. A file that its writer has mapped is no copy; of others nothing is known.
func copiedAt(path string, s *trace.Snapshot) (nowNS uint64, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	file, ok := info.Sys().(*syscall.Stat_t)
	if !ok || s.Status.HeartbeatNS == 0 || mapped(s.Identity.PID, file) || bornWith(path, s) {
		return 0, false
	}
	// The kernel takes file times from a clock that is some milliseconds behind.
	const coarse = 20 * time.Millisecond
	for _, real := range []int64{file.Mtim.Nano(), file.Ctim.Nano()} {
		at := real - int64(s.Status.RealMinusMonoNS) // Within int64 until the year 2262.
		if gap := at - int64(s.Status.HeartbeatNS); gap >= -int64(coarse) && gap < int64(10*time.Second) {
			return max(uint64(at), s.Status.HeartbeatNS), true
		}
	}
	return 0, false
}

// bornWith says that a trace file is as old as its writer: the one that it made, and no copy, which comes later.
func bornWith(path string, s *trace.Snapshot) bool {
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &x); err != nil || x.Mask&unix.STATX_BTIME == 0 {
		return false // Not every file system tells.
	}
	born := x.Btime.Sec*int64(time.Second) + int64(x.Btime.Nsec) - int64(s.Status.RealMinusMonoNS) // Within int64 until the year 2262.
	since := time.Duration(born - int64(s.Identity.CreatedNS))
	return since.Abs() < 100*time.Millisecond
}

// mapped says whether a process of this machine has the file in its memory.
func mapped(pid uint32, file *syscall.Stat_t) bool {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	return err == nil && strings.Contains(string(maps), fmt.Sprintf(" %02x:%02x %d ", unix.Major(file.Dev), unix.Minor(file.Dev), file.Ino))
}

// processState reads /proc/PID/stat; another start time is another process.
func processState(id *trace.Identity) nodeapi.ProcessState {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.PID))
	if err != nil {
		return nodeapi.ProcessGone
	}
	// The name is in brackets and may hold anything; fields are counted from its end.
	_, rest, found := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest)
	const startTime = 19 // Field 22, the state being field 3.
	if !found || len(fields) <= startTime {
		return nodeapi.ProcessUnknown
	}
	if start, err := strconv.ParseUint(fields[startTime], 10, 64); err != nil || start != id.StartTicks {
		return nodeapi.ProcessGone
	}
	switch fields[0] {
	case "R", "S", "I":
		return nodeapi.ProcessRunning
	case "D":
		return nodeapi.ProcessDisk
	case "T", "t":
		return nodeapi.ProcessStopped
	case "Z", "X":
		return nodeapi.ProcessGone
	}
	return nodeapi.ProcessUnknown
}
