// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeapi is the exporter's HTTP API, as both sides speak it: GET /api/v1/state (now) and GET /api/v1/trace
// (history). docs/node-api.md documents it.
package nodeapi

import "github.com/culprit-project/culprit/trace"

// Version of the JSON documents. It grows when a field changes its meaning; new fields do not count.
const Version = 1

// Paths of the API below an exporter's address.
const (
	StatePath = "/api/v1/state"
	TracePath = "/api/v1/trace"
	// EventsPath takes PUT and DELETE, where the exporter was told to allow it.
	EventsPath = "/api/v1/events"
)

// State answers GET /api/v1/state: every traced process on the node. Query parameters job_id, rank and comm
// (repeatable) narrow it.
type State struct {
	Version  int    `json:"version"`
	Exporter string `json:"exporter"` // Version of the exporter.
	Node     string `json:"node"`     // Host name as the exporter knows it.
	AtUnixNS int64  `json:"at_unix_ns"`
	// NowNS is the node's CLOCK_MONOTONIC at the time of the answer: the clock of every *_ns stamp below.
	NowNS     uint64    `json:"now_ns"`
	Processes []Process `json:"processes"`
	Facts     []Fact    `json:"facts,omitempty"`
	Unread    []Unread  `json:"unread,omitempty"`
}

// Process is one traced process: what it wrote and what the kernel says of it.
type Process struct {
	File string `json:"file"` // Base name of the trace file.
	// JobID, Rank and GPU are the exporter's resolution of the claims in the snapshot: never empty for JobID, rank -1 when
	// it cannot be told. Host is the exporter's own host.
	JobID string `json:"job_id"`
	Rank  int32  `json:"rank"`
	Host  string `json:"host"`
	GPU   string `json:"gpu,omitempty"`
	// Pod, Namespace and Container are where the process runs: by the kubelet where it says so, else by claims that
	// nothing contradicts. Container may be the runtime's id.
	Pod       string `json:"pod,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Container string `json:"container,omitempty"`
	// Refuted lists the claims of the identity that the kernel or the kubelet contradicts, by their names.
	Refuted []string `json:"refuted,omitempty"`
	// UID is the user that the process runs as; where the kernel does not show the process, the owner of its file.
	UID string `json:"uid,omitempty"`
	// Disputed says why the claim to be this rank of this job is not believed; empty: nothing contradicts it. What such a
	// process shows must not be taken for the job's.
	Disputed string `json:"disputed,omitempty"`
	trace.Snapshot
	Kernel      *Kernel            `json:"kernel,omitempty"`
	Completions []trace.Completion `json:"completions,omitempty"` // The newest few per communicator, oldest first.
	// Lagging lists the queue pairs that lagged behind their sisters in the exporter's last window of 10 s, and those that stand.
	Lagging []trace.Lag `json:"lagging,omitempty"`
	// CallsSeen says that the process's NCCL calls are noted (the preload hooks); Calls are those that make or end a
	// communicator: those under way, then the last few that have made one and come back.
	CallsSeen bool         `json:"calls_seen,omitempty"`
	Calls     []trace.Call `json:"calls,omitempty"`
}

// ProcessState is the kernel's view of a process.
type ProcessState string

// States of a process.
const (
	ProcessRunning ProcessState = "running"
	ProcessSleep   ProcessState = "sleeping"
	ProcessDisk    ProcessState = "disk_sleep" // Uninterruptible: storage, driver, NFS.
	ProcessStopped ProcessState = "stopped"    // SIGSTOP or a debugger.
	ProcessZombie  ProcessState = "zombie"
	ProcessGone    ProcessState = "gone"   // No such process any more: it exited without orderly shutdown.
	ProcessExited  ProcessState = "exited" // Gone after an orderly end.
	ProcessUnknown ProcessState = "unknown"
)

// Kernel holds what /proc says. Rates are over the exporter's last sampling period.
type Kernel struct {
	State          ProcessState `json:"state"`
	GoneForSeconds float64      `json:"gone_for_seconds,omitempty"` // 0: it lives, or was killed before the exporter found it, nobody knows when.
	// SeenAliveSecondsAgo is how long ago the exporter last found the process alive, where GoneForSeconds says how long ago it found it
	// dead: it ended in between. 0: it lives, or nobody knows.
	SeenAliveSecondsAgo float64  `json:"seen_alive_seconds_ago,omitempty"`
	HostPID             int      `json:"host_pid,omitempty"`
	Verified            bool     `json:"verified"` // The claim of pid and start time matches the kernel's.
	CPUCores            float64  `json:"cpu_cores"`
	ReadBytesPerSec     float64  `json:"read_bytes_per_second"`  // Over 10 s. Storage, not cache (/proc/PID/io read_bytes).
	WriteBytesPerSec    float64  `json:"write_bytes_per_second"` // Over 10 s. Counted when a page is dirtied, not when the device has it.
	Wchan               string   `json:"wchan,omitempty"`
	Threads             []Thread `json:"threads,omitempty"` // Proxy and user threads named by the trace.
	CgroupPath          string   `json:"cgroup_path,omitempty"`
	ContainerID         string   `json:"container_id,omitempty"`
	PodUID              string   `json:"pod_uid,omitempty"` // From the cgroup.
}

// Thread is one thread of a traced process.
type Thread struct {
	TID          int     `json:"tid"`
	Role         string  `json:"role"` // proxy or user.
	State        string  `json:"state"`
	CPUCores     float64 `json:"cpu_cores"`
	RunDelayFrac float64 `json:"run_delay_ratio"` // Share of time runnable but not running (/proc/…/schedstat).
	Wchan        string  `json:"wchan,omitempty"`
	// CPUs lists the CPUs that it may run on ("0-3,8") and CPUCount counts them; empty and 0 unknown.
	CPUs     string `json:"cpus,omitempty"`
	CPUCount int    `json:"cpu_count,omitempty"`
}

// Fact is a piece of the node's own evidence: an XID, a throttled clock, a link below its width.
type Fact struct {
	Component  string  `json:"component"` // gpu, nic, pcie, cpu, memory, link, host.
	Device     string  `json:"device,omitempty"`
	Kind       string  `json:"kind"` // xid, clock_throttled, link_width_reduced, …
	Value      float64 `json:"value"`
	Unit       string  `json:"unit,omitempty"`
	Expected   float64 `json:"expected,omitempty"`
	Rank       int32   `json:"rank"` // Affected rank, -1 unknown or whole node.
	AgeSeconds float64 `json:"age_seconds,omitempty"`
	Text       string  `json:"text,omitempty"`
}

// Unread is a trace file that could not be read.
type Unread struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

// Events answers PUT and DELETE /api/v1/events: what became of the request, process by process.
type Events struct {
	Version   int          `json:"version"`
	Node      string       `json:"node"`
	Processes []Controlled `json:"processes"`
}

// Controlled is a process that was asked to report other events.
type Controlled struct {
	File      string `json:"file"`
	JobID     string `json:"job_id"`
	Rank      int32  `json:"rank"`
	EventMask uint64 `json:"event_mask"`      // Before it has heard of the request.
	Error     string `json:"error,omitempty"` // Why it could not be asked.
}

// Sample is one record of the real-time state log (M3): a process's operations and flows in progress at one moment. An
// operation or flow that is as it was in the process's previous sample is not repeated; flows come without their totals.
type Sample struct {
	AtNS   uint64       `json:"at_ns"`
	Rank   int32        `json:"rank"`
	JobID  string       `json:"job_id"`
	File   string       `json:"file"`
	Ops    []trace.Op   `json:"ops,omitempty"`
	Flows  []trace.Flow `json:"flows,omitempty"`
	Ended  []uint32     `json:"ended,omitempty"` // Slots of operations that are over since the previous sample.
	Status trace.Status `json:"status"`
}

// TraceLine is one line of the JSON-lines answer of GET /api/v1/trace; exactly one pointer is set.
type TraceLine struct {
	Header     *TraceHeader           `json:"header,omitempty"`
	Process    *Process               `json:"process,omitempty"` // Identity and comms, before the first record of that file.
	Completion *ProcessCompletion     `json:"completion,omitempty"`
	Lifecycle  *ProcessLifecycleEvent `json:"lifecycle,omitempty"`
	Sample     *Sample                `json:"sample,omitempty"`
	Transfer   *ProcessTransfer       `json:"transfer,omitempty"`
	Trailer    *TraceTrailer          `json:"trailer,omitempty"`
}

// Streamed is a line of the trace as it is streamed to Kafka: by itself, so with the process that it is of.
type Streamed struct {
	Node  string `json:"node"`
	JobID string `json:"job_id"`
	Rank  int32  `json:"rank"`
	Host  string `json:"host"`
	TraceLine
}

// TraceHeader opens the answer of GET /api/v1/trace.
type TraceHeader struct {
	Version  int    `json:"version"`
	Node     string `json:"node"`
	AtUnixNS int64  `json:"at_unix_ns"`
	NowNS    uint64 `json:"now_ns"`
}

// ProcessCompletion is a completion and the file it came from.
type ProcessCompletion struct {
	File string `json:"file"`
	trace.Completion
}

// ProcessLifecycleEvent is a lifecycle event and the file it came from.
type ProcessLifecycleEvent struct {
	File string `json:"file"`
	trace.LifecycleEvent
}

// ProcessTransfer is a finished transfer and the file it came from. Its flow is in the process's own line.
type ProcessTransfer struct {
	File string `json:"file"`
	trace.Transfer
}

// TraceTrailer closes the answer; an answer without one was cut off.
type TraceTrailer struct {
	Records   int64  `json:"records"`
	Lost      uint64 `json:"lost"`      // Records overwritten before they were read, in the span asked for.
	Truncated bool   `json:"truncated"` // The answer's limit was reached.
}
