// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"fmt"
	"time"
)

// Evidence is everything known about one job at one moment, from any source: exporters, trace files, Flight Recorder dumps, RAS
// reports. The engine reads nothing else. Unknown numbers are -1 where 0 is a value.
type Evidence struct {
	JobID     string
	WorldSize int // Ranks that the job should have; 0 unknown.
	// Partial: only the exporters that a search visited were asked. Ranks that were not seen and are not in Missing may be
	// healthy.
	Partial bool
	// Standing is how many ranks stand still, from a source that has all of them; 0 unknown. It describes the extent and decides
	// nothing.
	Standing int
	Ranks    []Rank
	Comms    []Comm
	Facts    []Fact
	Missing  []Missing
	// Timeline holds finished work for the analysis of slowness; empty for a plain hang.
	Timeline []Segment
	// PastAsked: finished work was requested, so an empty Timeline means that it is missing.
	PastAsked bool
	// Slowdown is how many times longer iterations take than when the job was healthy, from a source that has its past; 0 unknown.
	Slowdown float64
	// Sources names the sources of the evidence, for the verdict's report.
	Sources []string
}

// CommID identifies a communicator or process group within the evidence. It is any string that tells two apart, such as NCCL's
// commHash in hexadecimal with its size ("a1b2…/8"), or a Flight Recorder group with its hashed member list.
type CommID string

// Comm is a communicator as a whole.
type Comm struct {
	ID      CommID
	Name    string // For people: "dp", "tp_0", a process group's description.
	Size    int    // Members that it should have; 0 unknown.
	Members []int  // Global rank by rank in the communicator; -1 where unknown. May be shorter than Size.
}

// ProcessState is the state of a rank's process, from its host's kernel.
type ProcessState string

// Process states.
const (
	ProcessUnknown ProcessState = ""
	ProcessRunning ProcessState = "running" // Includes sleeping.
	ProcessStopped ProcessState = "stopped"
	ProcessDisk    ProcessState = "disk_sleep"
	ProcessGone    ProcessState = "gone"   // Died without an orderly end.
	ProcessExited  ProcessState = "exited" // Ended in an orderly way.
)

// Rank is one process of the job.
type Rank struct {
	ID    int    // Global rank.
	Name  string // Name for people where ID is not a rank of the job: "process 4711"; else empty.
	Host  string
	GPU   string
	NIC   string
	PID   int
	Pod   string
	State ProcessState
	// World is the size that the process reports for its run. Began is how long ago it made its first communicator, Ended how
	// long its host has known that it is gone, SeenAlive how long ago its host last saw it alive: it ended in between. 0 unknown.
	World                   int
	Began, Ended, SeenAlive time.Duration
	// Caps says what the source can see of this rank; the absence of anything else is no evidence.
	Caps Capability
	// Lost counts records that the source dropped: absence is then weaker.
	Lost uint64
	// Storage traffic and CPU use now, from the kernel; -1 unknown.
	ReadBytesPerSec, WriteBytesPerSec, CPUCores float64
	// ProxyRunDelay is the share of time that the proxy thread was runnable and did not get a CPU; -1 unknown.
	ProxyRunDelay float64
	// UsualRunDelay is the same before the first trigger of slowness; 0 little or unknown.
	UsualRunDelay float64
	GroupOpen     time.Duration // Time inside ncclGroupEnd; 0: not inside.
	Stack         []string      // Innermost frame last; empty unknown.
	Memberships   []Membership
	// Storage is the file that the rank's process waits for, by a close look; nil: none, or nobody looked.
	Storage *Storage
	// Still says that close looks seconds apart found its main thread asleep in the same call with the same stack, that it has not run in
	// between, and that no such call takes seconds by itself.
	Still bool
	// Calls are the calls of NCCL's API, other than operations, that the rank is inside, and those that have lately returned.
	Calls []Call
}

// Storage is a file that a process waits for, and where it lies.
type Storage struct {
	Call   string // "read".
	Path   string
	Mount  string // Where its file system is mounted.
	Type   string // "nfs4".
	Source string // "nas1:/export": of a network file system it names the server.
}

// Call is a call that makes or ends a communicator.
type Call struct {
	Name string // "ncclCommInitRank".
	// ID is the same on all ranks that must make the call; "" unknown. Size is the number of those ranks, 0 unknown. On is the
	// communicator on which the call is made, "" none or unknown.
	ID       string
	Size     int
	On       CommID
	Since    time.Duration // Since it was called; -1 unknown.
	Makes    bool          // It makes a communicator; else it ends one.
	Returned bool          // The call has returned.
	Done     bool          // It returned with success.
}

// Capability is a set of things a source can see.
type Capability uint32

// Capabilities.
const (
	SeesCalls      Capability = 1 << iota // Operations called and enqueued.
	SeesSteps                             // Flow counters of network edges.
	SeesPeerWait                          // A receiver that is not ready is told from network trouble.
	SeesKernels                           // Kernels entering and leaving.
	SeesCompletion                        // Operations leaving.
	SeesProcess                           // Kernel's process state.
	SeesInit                              // Calls that make and end communicators.
	SeesCallTimes                         // When operations are called, not only that they are launched.
	// MissesCalls: the source does not record the rank's sends, receives and waits outside collectives.
	MissesCalls
)

// Membership is what one rank shows of one communicator.
type Membership struct {
	Comm     CommID
	CommRank int // -1 unknown.
	// Order is the communicator's ordinal, from 1, among those that the rank has made; 0 unknown.
	Order int
	// Nodes is how many nodes the library counts in the communicator; 0 unknown. Ranks on what it takes for one node exchange
	// data by NVLink or shared memory.
	Nodes int
	// Called, Started and Completed count operations of all kinds since the communicator was made; -1 unknown.
	Called, Started, Completed int64
	// FuncCalled counts operations by function, where the source numbers them so (NCCL's seqNumber, RAS).
	FuncCalled map[string]int64
	// SinceCompleted is how long ago the last operation completed, SinceCalled how long ago the last was called; -1 never or unknown.
	SinceCompleted, SinceCalled time.Duration
	InFlight                    []Op // In call order.
	Recent                      []Op // The last few that the rank has left, oldest first, to compare types and sizes.
	KernelUntrusted             bool
}

// OpState is how far an operation has come on a rank.
type OpState int

// Operation states, in order.
const (
	OpUnknown  OpState = iota
	OpCalled           // API entered.
	OpEnqueued         // Kernel launched.
	OpEntered          // Kernel running.
	OpMoving           // Steps pass.
	OpLeft
)

// Op is an operation on one rank.
type Op struct {
	Number   int64 // Call order on the communicator from 0: an operation is called when Called > Number; -1 unknown.
	Seq      int64 // Per communicator and function, from 0; send/recv: per peer and direction; -1 unknown.
	Func     string
	Peer     int // Send/recv: rank in the communicator, else -1.
	Root     int // -1 none.
	Count    int64
	Bytes    int64
	Datatype string
	Algo     string // ring, tree, …
	Proto    string
	State    OpState
	// Age since called, Stuck since the last progress; -1 unknown.
	Age, Stuck time.Duration
	Channels   int
	// KernelStarted and KernelStopped count channels whose kernel started and stopped; -1 not observable.
	KernelStarted, KernelStopped int
	Barrier                      bool
	// NoCompletion: the source records no end of this operation, so its being in flight means nothing.
	NoCompletion bool
	// ProxyUnreliable: the algorithm's proxy operations never report their end (CollNet, NVLS).
	ProxyUnreliable bool
	Flows           []Flow
	Stack           []string // Where it was called, innermost last.
	// Unnumbered: the number only tells operations apart; it is not one that people know.
	Unnumbered bool
	// GroupOrdinal is its ordinal in the group of calls it was made in, from 1; 0 unknown. The kernels of a communicator's groups run
	// one after the other.
	GroupOrdinal int64
}

// Flow is one (channel, direction, peer) of an operation in flight. Send: Posted >= Ready (GPU_ready) >= Transmitted
// (RDMA_transmitted) >= Done (RDMA_done). Receive: Posted >= Ready (received) >= Transmitted (given) >= Done (consumed).
type Flow struct {
	Channel int
	Send    bool
	Peer    int // Rank in the communicator.
	Total   int64
	Posted, Ready, Transmitted,
	Done int64
	Bytes int64
	Stuck time.Duration // Time since a counter changed.
	// PeerPolls counts repeated "receiver not ready" polls, which show that the proxy thread is alive.
	PeerPolls int64
	// Wait is the finished waiting of this operation: send gpu, peer, net; receive net, flush, gpu.
	Wait   [3]time.Duration
	Active time.Duration
}

// SegmentKind is the kind of a finished piece of work.
type SegmentKind int

// Segment kinds.
const (
	SegmentOp      SegmentKind = iota // A collective or send/recv.
	SegmentCompute                    // Computation between operations.
)

// Segment is a finished piece of one rank's work. Start and End are nanoseconds on that rank's own clock; the clocks of two ranks
// need not agree.
type Segment struct {
	Rank      int
	Kind      SegmentKind
	Iteration int // -1 unknown.
	Comm      CommID
	Number    int64 // Call order on the communicator; -1 for compute.
	Seq       int64
	Func      string // Function, or the kind of computation ("forward-compute").
	Algo      string // ring, tree, …; empty unknown.
	Peer      int    // Global rank of the other side, send/recv; -1.
	Bytes     int64
	// GroupOrdinal is as Op.GroupOrdinal.
	GroupOrdinal int64
	Start        int64
	End          int64
	Entered      int64 // When the kernel entered; 0 unknown.

	Stage, DataRank, Layer int // Pipeline stage and data-parallel rank where the source knows; -1.
	Microbatch             int // -1 unknown.

	// Active is the time with a transfer in flight; 0 unknown. Wait is by cause as in Flow, send then receive; all 0 unknown.
	Active   time.Duration
	SendWait [3]time.Duration
	RecvWait [3]time.Duration
	Steps    int64
	// Flows over the network by direction: their number, their bytes, the time each had a transfer in flight (summed), and the
	// rank in the communicator at the other end of the slowest. No flows: there were none, or they were not seen.
	SendFlows, RecvFlows   int
	SendBytes, RecvBytes   int64
	SendActive, RecvActive time.Duration
	SendPeer, RecvPeer     int
	// SendProbes and RecvProbes are how many probes, one a millisecond, found SendCount or RecvCount changed, the most of the flows (C2); 0:
	// unknown. Those of a tree are comparable within a layer.
	SendProbes, RecvProbes int
	// Slowest channel of the operation and its time, with the fastest's; 0 unknown.
	SlowestChannel           int
	SlowestPeer              int
	SlowestTime, FastestTime time.Duration
}

// Fact is one finding that a host reports about itself.
type Fact struct {
	Host      string
	Rank      int    // -1: the whole host.
	Component string // gpu, nic, pcie, cpu, memory, link, storage, process.
	Device    string
	Kind      string // xid, clock_throttled, link_width_reduced, …
	Value     float64
	Expected  float64
	Age       time.Duration
	Text      string
}

// Missing is something that should have been seen and was not.
type Missing struct {
	What  string // "exporter", "prometheus", "rank", "file", "history", "claim", "host".
	Name  string // Its address or number.
	Ranks []int  // Ranks that it would have shown, if known.
	Why   string
	// Heard is how long ago an exporter was last heard of, for example by Prometheus; 0 unknown.
	Heard time.Duration
	// Alive: the host itself answered that nothing listens on the port.
	Alive bool
	// Reached: the host accepted a connection and nothing answered. Either the exporter hangs, or all processes of the host do.
	Reached bool
}

// String says what is missing, as verdicts list it.
func (m *Missing) String() string { return fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why) }

// Claimed reports whether nothing was out of sight, but several claim a job, a rank or a host.
func (m *Missing) Claimed() bool { return m.What == "claim" || m.What == "host" }
