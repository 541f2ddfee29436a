// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

import "regexp"

// Kind is what a message tells. A program that prints a new message for something known needs a row, and no kind.
type Kind string

// Kinds that show what ranks did: who reads them compares ranks.
const (
	Timeout    Kind = "timeout"     // A collective timed out; its operation follows.
	Counters   Kind = "counters"    // How far a rank has come in a group.
	DumpSignal Kind = "dump_signal" // The same, and whose timeout made it say so.
	Lagging    Kind = "lagging"     // Which ranks did not come to an operation.
	Snapshot   Kind = "snapshot"    // Where all ranks stand.
	CallStack  Kind = "call_stack"  // Where the operation was called.
	Joined     Kind = "joined"      // A rank starts or ends a communicator.
	Launched   Kind = "launched"    // A rank calls an operation (NCCL_DEBUG_SUBSYS=COLL).
	NotJoined  Kind = "not_joined"  // PyTorch's fr_trace: who is missing in a collective.
	Print      Kind = "print"       // What a rank called.
	WaitsFor   Kind = "waits_for"   // One waits for others, which it names.
	Reached    Kind = "reached"     // One came to a barrier.
	Key        Kind = "key"         // A key of the store that nobody set.
	Placed     Kind = "placed"      // Which rank runs where.
	World      Kind = "world"       // How many ranks there are.
	Traceback  Kind = "traceback"
	LastLine   Kind = "last_line" // Of a traceback, whose beginning the text may lack.
	Abort      Kind = "abort"
	ListedEnd  Kind = "listed_end" // torchrun's list of failures.
	TaskEnd    Kind = "task_end"   // What srun tells of tasks.
	RankEnd    Kind = "rank_end"   // What a launcher tells of a rank.
	Lost       Kind = "lost"       // Ray lost a worker or a host.
	Watched    Kind = "watched"    // A launcher's watch over a rank.
	Slower     Kind = "slower"
	Ending     Kind = "ending" // The launcher ends a process because of another.
)

// Kinds that say something by themselves; package told has what follows from each.
const (
	GPUHardware     Kind = "gpu_hardware"
	LinkHardware    Kind = "link_hardware"
	HostHardware    Kind = "host_hardware"
	HostMemory      Kind = "host_memory"
	SharedMemory    Kind = "shared_memory"
	GPUMemory       Kind = "gpu_memory"
	GPUProgram      Kind = "gpu_program" // Illegal access, failed assertion.
	GPUUnknown      Kind = "gpu_unknown" // Program or hardware.
	GPUSetup        Kind = "gpu_setup"
	SameGPU         Kind = "same_gpu"
	Setup           Kind = "setup"
	Locked          Kind = "locked_memory"
	Storage         Kind = "storage"
	DiskFull        Kind = "disk_full"
	NotANumber      Kind = "nan"
	NaNTransient    Kind = "nan_transient"
	ProcessEnd      Kind = "process_end"
	Killed          Kind = "killed" // ProcessEnd by a signal that the process cannot have sent itself, or a crash.
	Crashed         Kind = "crashed"
	Aborted         Kind = "aborted"
	Terminated      Kind = "terminated"
	Exited          Kind = "exited"
	OneOfHost       Kind = "one_of_host" // DeepSpeed's launcher does not tell which of its processes.
	WorkerDied      Kind = "worker_died"
	Raised          Kind = "raised" // An exception.
	LauncherSignal  Kind = "launcher_signal"
	TimeLimit       Kind = "time_limit"
	Preempted       Kind = "preempted"
	Cancelled       Kind = "cancelled"
	Evicted         Kind = "evicted"
	HostLost        Kind = "host_lost"
	ClientsMissing  Kind = "clients_missing"
	StoreGone       Kind = "store_gone"
	StoreUnreached  Kind = "store_unreached"
	PortTaken       Kind = "port_taken"
	Leftovers       Kind = "leftovers"
	Rendezvous      Kind = "rendezvous"
	RemoteError     Kind = "remote_error"
	NCCLError       Kind = "nccl_error"
	NCCLUsage       Kind = "nccl_usage"    // NCCL refused a call.
	FirstFailed     Kind = "first_failure" // A line that no row knows.
	CutTraceback    Kind = "cut_traceback" // Without its last line.
	SideThreads     Kind = "side_threads"  // Stacks without the main thread's.
	Connect         Kind = "connect"
	ForeignClient   Kind = "foreign_client"
	NetworkError    Kind = "network_error"
	ClosedFirst     Kind = "closed_first"
	Disagree        Kind = "disagree" // Messages without numbers show different operations.
	Elsewhere       Kind = "elsewhere"
	Apart           Kind = "apart" // Ranks time out at different numbers, in groups that nobody names.
	Warning         Kind = "warning"
	OtherLibrary    Kind = "other_library"
	LibraryWaits    Kind = "library_waits"
	ServerWatchdog  Kind = "server_watchdog"
	HungTask        Kind = "hung_task"
	WatchdogStuck   Kind = "watchdog_stuck"
	Returned        Kind = "returned" // NCCL's functions failed, without a word why.
	VersionMismatch Kind = "version_mismatch"
	Starting        Kind = "starting"
	Behind          Kind = "behind"
	BrokenOff       Kind = "broken_off" // An exception that follows from another process.
	Awaited         Kind = "awaited"    // Others waited for it.
)

// aside says that a message of the kind makes no log worth reading: it only helps where something else is told.
func (k Kind) aside() bool {
	return k == World || k == Placed || k == Ending || k == CallStack
}

// Bare says that a message of the kind tells nothing of the failure in its own line.
func (k Kind) Bare() bool {
	return k.aside() || k == LastLine || k == Traceback || k == Abort || k == Launched || k == Joined || k == Key
}

func re(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

// ncclHead is how NCCL begins a line: host, process, thread and GPU. Launchers' labels may stand before it without a blank.
const ncclHead = `(?P<host>[^\s:\]>]+):(?P<pid>\d+):\d+ \[(?P<gpu>\d+)\] `
