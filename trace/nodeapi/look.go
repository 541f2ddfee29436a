// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package nodeapi

import "encoding/json"

// LookPath takes GET, where the exporter was told to allow it: a close look at a few processes.
const LookPath = "/api/v1/look"

// MaxLooked is how many processes one request looks at.
const MaxLooked = 16

// Look answers GET /api/v1/look. Query parameters job_id and rank are required. rank and pid are repeatable; pid leaves out other processes
// that claim to be one of the ranks, such as another user's.
type Look struct {
	Version   int        `json:"version"`
	Node      string     `json:"node"`
	Processes []LookedAt `json:"processes"`
}

// LookedAt is what the kernel and py-spy show of one process at this moment.
type LookedAt struct {
	File  string `json:"file"` // As in State.
	JobID string `json:"job_id"`
	Rank  int32  `json:"rank"`
	PID   int    `json:"pid"`   // As the exporter's procfs knows it.
	AtNS  uint64 `json:"at_ns"` // CLOCK_MONOTONIC.
	// Tracer names the process that traces it, such as gdb; TracerPID is 0 where none does.
	Tracer    string `json:"tracer,omitempty"`
	TracerPID int    `json:"tracer_pid,omitempty"`
	// Bytes that it has read and written so far: by calls that have returned, and as far as its file systems count it by storage.
	ReadBytes           uint64 `json:"read_bytes"`
	WrittenBytes        uint64 `json:"written_bytes"`
	StorageReadBytes    uint64 `json:"storage_read_bytes"`
	StorageWrittenBytes uint64 `json:"storage_written_bytes"`
	SwappedBytes        uint64 `json:"swapped_bytes,omitempty"`
	// Threads are the main thread, and of the others, and of the processes that it started, those that wait for a file or are stopped.
	Threads     []LookedThread `json:"threads"`
	ThreadCount int            `json:"thread_count"`
	Cgroup      *CgroupUse     `json:"cgroup,omitempty"`
	// Python is what py-spy dump --json printed.
	Python json.RawMessage `json:"python,omitempty"`
	// Missing says what could not be seen and why, a sentence each.
	Missing []string `json:"missing,omitempty"`
}

// LookedThread is one thread.
type LookedThread struct {
	PID        int     `json:"pid"` // That of LookedAt, or of a process that it started.
	TID        int     `json:"tid"`
	State      string  `json:"state"` // The kernel's letter: R, S, D, T, t.
	Wchan      string  `json:"wchan,omitempty"`
	CPUSeconds float64 `json:"cpu_seconds"`
	// Switches counts how often it has given up its CPU. A thread of which this stays the same has not run meanwhile.
	Switches uint64      `json:"switches"`
	Call     string      `json:"call,omitempty"`   // The system call that it is in; empty: none, or not seen.
	File     *LookedFile `json:"file,omitempty"`   // What the call is about.
	Kernel   []string    `json:"kernel,omitempty"` // Functions of the kernel, innermost first.
}

// LookedFile is a file, and where it lies.
type LookedFile struct {
	Path     string `json:"path"`
	Position uint64 `json:"position,omitempty"`
	Mount    string `json:"mount,omitempty"`  // Where its file system is mounted, as the process sees it; empty: it has none, as a pipe.
	Type     string `json:"type,omitempty"`   // Of the file system: nfs4, lustre, fuse.sshfs, ext4.
	Source   string `json:"source,omitempty"` // Of a network file system it names the server: "nas1:/export".
}

// CgroupUse is what a process's cgroup shows of limits (cgroup v2).
type CgroupUse struct {
	ThrottledPeriods uint64  `json:"throttled_periods"`
	ThrottledSeconds float64 `json:"throttled_seconds"` // So far, in which it was kept from the CPU.
	OOMKills         uint64  `json:"oom_kills"`         // So far.
	HighEvents       uint64  `json:"high_events"`       // Times that it was slowed down because of its memory.
	SwapBytes        uint64  `json:"swap_bytes"`
	// Shares of the last 10 s in which all its tasks waited for memory, for storage, and some task for a CPU, 0 to 1.
	MemoryStalled float64 `json:"memory_stalled_ratio"`
	IOStalled     float64 `json:"io_stalled_ratio"`
	CPUWaiting    float64 `json:"cpu_waiting_ratio"`
}
