// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strconv"
	"time"
)

// Snapshot is one consistent-enough copy of a trace file: every slot by itself is untorn, slots may differ by the time
// the copy took. Times are nanoseconds of the writing host's CLOCK_MONOTONIC.
type Snapshot struct {
	Identity Identity `json:"identity"`
	Status   Status   `json:"status"`
	Comms    []Comm   `json:"comms,omitempty"`
	Ops      []Op     `json:"ops,omitempty"`
	Flows    []Flow   `json:"flows,omitempty"`
	QPs      []QP     `json:"qps,omitempty"`

	cache slotCache
}

// Identity is what the process says about itself. Numbers are -1 and strings empty when unknown.
type Identity struct {
	PID            uint32 `json:"pid"`
	PIDNamespace   uint64 `json:"pid_namespace"`
	StartTicks     uint64 `json:"start_ticks"`
	Rank           int32  `json:"rank"`
	WorldSize      int32  `json:"world_size"`
	LocalRank      int32  `json:"local_rank"`
	NodeRank       int32  `json:"node_rank"`
	GPUIndex       int32  `json:"gpu_index"`
	CreatedNS      uint64 `json:"created_ns"`
	CreatedRealNS  uint64 `json:"created_real_ns"`
	BootID         string `json:"boot_id,omitempty"`
	Hostname       string `json:"hostname,omitempty"`
	ProcessName    string `json:"process_name,omitempty"`
	JobID          string `json:"job_id,omitempty"`
	SlurmJobID     string `json:"slurm_job_id,omitempty"`
	SlurmStepID    string `json:"slurm_step_id,omitempty"`
	PodName        string `json:"pod_name,omitempty"`
	PodNamespace   string `json:"pod_namespace,omitempty"`
	PodUID         string `json:"pod_uid,omitempty"`
	ContainerName  string `json:"container_name,omitempty"`
	GPUUUID        string `json:"gpu_uuid,omitempty"`
	GPUPCIBusID    string `json:"gpu_pci_bus_id,omitempty"`
	VisibleDevices string `json:"visible_devices,omitempty"`
	ShimVersion    string `json:"shim_version,omitempty"`
	Address        string `json:"address,omitempty"` // IP; empty: a writer before version 1.7, or unknown.
	WriterABI      uint32 `json:"writer_abi"`
	Capabilities   uint64 `json:"capabilities"`
}

// Status is the changing part of the file's header.
type Status struct {
	EventMask        uint64 `json:"event_mask"`
	HeartbeatNS      uint64 `json:"heartbeat_ns"`
	RealMinusMonoNS  uint64 `json:"real_minus_mono_ns"`
	ClosedNS         uint64 `json:"closed_ns,omitempty"`
	GroupOpenSinceNS uint64 `json:"group_open_since_ns,omitempty"`
	GroupCount       uint64 `json:"group_count"`
	CompletionsHead  uint64 `json:"completions_head"`
	LifecycleHead    uint64 `json:"lifecycle_head"`
	TransfersHead    uint64 `json:"transfers_head"`
	DroppedComms     uint64 `json:"dropped_comms,omitempty"`
	DroppedOps       uint64 `json:"dropped_ops,omitempty"`
	DroppedFlows     uint64 `json:"dropped_flows,omitempty"`
	ContendedEvents  uint64 `json:"contended_events,omitempty"`
	ForeignEvents    uint64 `json:"foreign_events,omitempty"`
	StaleEvents      uint64 `json:"stale_events,omitempty"`
	RepeatedEvents   uint64 `json:"repeated_events,omitempty"`
	Callbacks        uint64 `json:"callbacks"`
	TornSlots        int    `json:"torn_slots,omitempty"` // Slots left out of this copy because they never held still.
}

// CommID identifies a communicator on all its ranks (NCCL's commHash). It is not unique by itself: see CommKey.
type CommID uint64

// String gives the id as NCCL's logs and RAS print it, without prefix.
func (id CommID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText writes the id as hexadecimal.
func (id CommID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads hexadecimal with or without 0x.
func (id *CommID) UnmarshalText(b []byte) error {
	s := string(b)
	if len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		s = s[2:]
	}
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return err
	}
	*id = CommID(v)
	return nil
}

// CommKey tells communicators apart: ids can collide, sizes rarely at the same time.
type CommKey struct {
	ID     CommID
	NRanks int32
}

// Comm is the state of one communicator in one process.
type Comm struct {
	Index           uint32          `json:"index"`
	Generation      uint32          `json:"generation"`
	Ended           bool            `json:"ended,omitempty"` // Finalized; readable until the slot is needed.
	Flags           CommFlags       `json:"flags"`
	ID              CommID          `json:"comm"`
	NRanks          int32           `json:"nranks"`
	Rank            int32           `json:"rank"` // In this communicator.
	NNodes          int32           `json:"nnodes"`
	ProxyTID        uint32          `json:"proxy_tid,omitempty"`
	UserTID         uint32          `json:"user_tid,omitempty"`
	OpsInFlight     uint32          `json:"ops_in_flight"`
	Name            string          `json:"name,omitempty"`
	CreatedNS       uint64          `json:"created_ns"`
	DestroyedNS     uint64          `json:"destroyed_ns,omitempty"`
	OpsCalled       uint64          `json:"ops_called"`
	OpsStarted      uint64          `json:"ops_started"`
	OpsCompleted    uint64          `json:"ops_completed"`
	LastCalledNS    uint64          `json:"last_called_ns"`
	LastProgressNS  uint64          `json:"last_progress_ns"`
	LastCompletedNS uint64          `json:"last_completed_ns"`
	SeqStarted      [NumFunc]uint64 `json:"seq_started"` // 1 + last sequence number enqueued, per function.
	FuncCompleted   [NumFunc]uint64 `json:"func_completed"`
	FuncBytes       [NumFunc]uint64 `json:"func_bytes"`
	FuncNS          [NumFunc]uint64 `json:"func_ns"`
	OpsUnseen       uint64          `json:"ops_unseen,omitempty"` // Of OpsCompleted, those let go without a sign of their end.
	// Device is the GPU that it runs on, as CUDA numbers them in the process; -1 unknown. Of writers before version 1.3 always 0.
	Device int32 `json:"device"`
}

// Key gives the communicator's cluster-wide key.
func (c *Comm) Key() CommKey { return CommKey{c.ID, c.NRanks} }

// Op is an operation in flight.
type Op struct {
	Index          uint32  `json:"index"`
	Generation     uint32  `json:"generation"`
	Flags          OpFlags `json:"flags"`
	CommIndex      uint32  `json:"comm_index"`
	CommGeneration uint32  `json:"comm_generation"`
	Number         uint64  `json:"number"` // Call order on the communicator, from 0.
	Seq            uint64  `json:"seq"`    // NCCL's per-function number; send/recv: per (comm, peer, direction).
	Func           Func    `json:"func"`
	Algo           Algo    `json:"algo"`
	Proto          Proto   `json:"proto"`
	DatatypeBytes  uint16  `json:"datatype_bytes"`
	Datatype       string  `json:"datatype,omitempty"`
	Count          uint64  `json:"count"`
	Bytes          uint64  `json:"bytes"`
	Peer           int32   `json:"peer"`
	Root           int32   `json:"root"`
	Channels       uint32  `json:"channels"`
	State          OpState `json:"state"`
	CalledNS       uint64  `json:"called_ns,omitempty"`
	EnqueuedNS     uint64  `json:"enqueued_ns,omitempty"`
	EnteredNS      uint64  `json:"entered_ns,omitempty"`
	FirstStepNS    uint64  `json:"first_step_ns,omitempty"`
	LastProgressNS uint64  `json:"last_progress_ns,omitempty"`
	LeftNS         uint64  `json:"left_ns,omitempty"`
	KernelStarted  uint64  `json:"kernel_started"` // Bit per channel.
	KernelStopped  uint64  `json:"kernel_stopped"`
	ProxyStarted   uint32  `json:"proxy_started"`
	ProxyStopped   uint32  `json:"proxy_stopped"`
	UserTID        uint32  `json:"user_tid,omitempty"`
	// GroupOrdinal is its ordinal in its group of calls, from 1; 0 unknown. The kernels of a communicator's groups run one after the other.
	GroupOrdinal uint32 `json:"group_ordinal,omitempty"`
	GPUReadyNS   uint64 `json:"gpu_ready_ns,omitempty"` // First data that its GPU had ready to send over the network.
}

// Flow is one (communicator, channel, direction, peer). Fields without Total belong to the current operation.
// Send: Posted >= Ready (GPU_ready) >= Transmitted (RDMA_transmitted) >= Done (RDMA_done).
// Receive: Posted >= Ready (received) >= Transmitted (given to the GPU) >= Done (consumed).
type Flow struct {
	Index            uint32    `json:"index"`
	Generation       uint32    `json:"generation"`
	CommIndex        uint32    `json:"comm_index"`
	CommGeneration   uint32    `json:"comm_generation"`
	Channel          uint16    `json:"channel"`
	IsSend           bool      `json:"is_send"`
	State            FlowState `json:"state"`
	Peer             int32     `json:"peer"`
	OpIndex          uint32    `json:"op_index"`
	OpGeneration     uint32    `json:"op_generation"`
	Queued           uint32    `json:"queued,omitempty"`
	OpNumber         uint64    `json:"op_number"`
	OpSeq            uint64    `json:"op_seq"`
	Func             Func      `json:"func"`
	StepsTotal       uint32    `json:"steps_total"`
	Posted           uint32    `json:"posted"`
	Ready            uint32    `json:"ready"`
	Transmitted      uint32    `json:"transmitted"`
	Done             uint32    `json:"done"`
	PeerPolls        uint32    `json:"peer_polls,omitempty"`
	Epochs           uint32    `json:"epochs"`
	OpStartedNS      uint64    `json:"op_started_ns,omitempty"`
	FirstStepNS      uint64    `json:"first_step_ns,omitempty"`
	StateSinceNS     uint64    `json:"state_since_ns,omitempty"`
	LastProgressNS   uint64    `json:"last_progress_ns,omitempty"`
	Bytes            uint64    `json:"bytes"`
	WaitNS           [3]uint64 `json:"wait_ns"` // Send: gpu, peer, net. Receive: net, flush, gpu.
	ActiveNS         uint64    `json:"active_ns"`
	LargestGapNS     uint64    `json:"largest_gap_ns"`
	TotalOps         uint64    `json:"total_ops"`
	TotalPosted      uint64    `json:"total_posted"`
	TotalReady       uint64    `json:"total_ready"`
	TotalTransmitted uint64    `json:"total_transmitted"`
	TotalDone        uint64    `json:"total_done"`
	TotalBytes       uint64    `json:"total_bytes"`
	TotalWaitNS      [3]uint64 `json:"total_wait_ns"`
	TotalActiveNS    uint64    `json:"total_active_ns"`
	TotalEpochs      uint64    `json:"total_epochs"`
	QPNum            uint32    `json:"qp_num,omitempty"` // Send: the queue pair that it was last seen to post to (Snapshot.Pair); 0 unknown.
}

// Direction is one direction of a finished operation, summed over its flows.
type Direction struct {
	Flows          uint32    `json:"flows"`
	Steps          uint32    `json:"steps"`
	Bytes          uint64    `json:"bytes"`
	WaitNS         [3]uint64 `json:"wait_ns"`
	ActiveNS       uint64    `json:"active_ns"`
	LargestGapNS   uint64    `json:"largest_gap_ns"`
	FirstStepNS    uint64    `json:"first_step_ns,omitempty"`
	LastStepNS     uint64    `json:"last_step_ns,omitempty"`
	SlowestChannel uint32    `json:"slowest_channel"`
	SlowestPeer    int32     `json:"slowest_peer"`
	SlowestNS      uint64    `json:"slowest_ns"`
	FastestNS      uint64    `json:"fastest_ns"`
}

// Completion is a finished operation (M2).
type Completion struct {
	Ticket         uint64    `json:"ticket"` // Running number in the file, from 1; a hole in the sequence is loss.
	CommID         CommID    `json:"comm"`
	CommIndex      uint32    `json:"comm_index"`
	CommGeneration uint32    `json:"comm_generation"`
	NRanks         int32     `json:"nranks"`
	Rank           int32     `json:"rank"`
	Number         uint64    `json:"number"`
	Seq            uint64    `json:"seq"`
	Func           Func      `json:"func"`
	Algo           Algo      `json:"algo"`
	Proto          Proto     `json:"proto"`
	DatatypeBytes  uint16    `json:"datatype_bytes"`
	Count          uint64    `json:"count"`
	Bytes          uint64    `json:"bytes"`
	Peer           int32     `json:"peer"`
	Root           int32     `json:"root"`
	Channels       uint32    `json:"channels"`
	Flags          OpFlags   `json:"flags"`
	CalledNS       uint64    `json:"called_ns,omitempty"`
	EnqueuedNS     uint64    `json:"enqueued_ns,omitempty"`
	EnteredNS      uint64    `json:"entered_ns,omitempty"`
	LeftNS         uint64    `json:"left_ns,omitempty"`
	GPUNS          uint64    `json:"gpu_ns,omitempty"`
	Send           Direction `json:"send,omitzero"` // Of an operation with network flows of this direction.
	Recv           Direction `json:"recv,omitzero"`
	GPUReadyNS     uint64    `json:"gpu_ready_ns,omitempty"` // As Op.GPUReadyNS.
	// SendProbes and RecvProbes are how many probes, one every 2^20 ns (1.05 ms), find SendCount (Done) or RecvCount (Ready) changed, the
	// most of the direction's flows. SendRate and RecvRate of CCL-D are their reciprocals. 0: no flows, or a writer before version 1.5.
	SendProbes uint32 `json:"send_probes,omitempty"`
	RecvProbes uint32 `json:"recv_probes,omitempty"`
	// GroupOrdinal is as Op.GroupOrdinal; 0: a writer before version 1.6.
	GroupOrdinal uint64 `json:"group_ordinal,omitempty"`
	// SendQP is the QPNum of the sending flow that finished last (Send.SlowestChannel); 0 unknown, or a writer before version 1.7.
	SendQP uint64 `json:"send_qp,omitempty"`
}

// LifecycleEvent is something that happened to the process or a communicator.
type LifecycleEvent struct {
	Ticket    uint64        `json:"ticket"`
	AtNS      uint64        `json:"at_ns"`
	Kind      LifecycleKind `json:"kind"`
	CommIndex int64         `json:"comm_index"` // -1: none.
	CommID    CommID        `json:"comm"`
	Arg0      uint64        `json:"arg0"`
	Text      string        `json:"text,omitempty"`
}

// QP is an RDMA queue pair of the process, as the verbs interposer sees it. Indexes are -1 and numbers 0 when unknown.
type QP struct {
	Index             uint32 `json:"index"`
	Generation        uint32 `json:"generation"`
	QPNum             uint32 `json:"qp_num"`
	DestQPNum         uint32 `json:"dest_qp_num,omitempty"`
	CommIndex         int64  `json:"comm_index"` // Of the flow that was seen to send on it.
	CommGeneration    uint32 `json:"comm_generation,omitempty"`
	FlowIndex         int64  `json:"flow_index"`
	FlowGeneration    uint32 `json:"flow_generation,omitempty"`
	Peer              int32  `json:"peer"` // Rank in the communicator; -1 unknown.
	Port              uint16 `json:"port"`
	DestLID           uint16 `json:"dest_lid,omitempty"`
	GIDIndex          uint16 `json:"gid_index,omitempty"`
	State             uint16 `json:"state"` // enum ibv_qp_state: ready to receive 2, ready to send 3, error 6.
	Device            string `json:"device"`
	Remote            string `json:"remote,omitempty"` // The peer's address, from its GID; empty on plain InfiniBand.
	CreatedNS         uint64 `json:"created_ns"`
	ConnectedNS       uint64 `json:"connected_ns,omitempty"`
	LastPostNS        uint64 `json:"last_post_ns,omitempty"`
	LastCompletionNS  uint64 `json:"last_completion_ns,omitempty"`
	SendsPosted       uint64 `json:"sends_posted"`
	SendsCompleted    uint64 `json:"sends_completed"`
	SendBytes         uint64 `json:"send_bytes"` // Posted.
	ReceivesPosted    uint64 `json:"receives_posted"`
	ReceivesCompleted uint64 `json:"receives_completed"`
	Errors            uint64 `json:"errors,omitempty"`
	LastError         uint32 `json:"last_error,omitempty"` // enum ibv_wc_status.
	Epochs            uint32 `json:"epochs"`               // With a send outstanding.
	ActiveNS          uint64 `json:"active_ns"`            // Time with a send outstanding.
}

// Transfer is one finished transfer of a flow, for drawing rate curves (Pulse P4). Only written when the job asks for it.
type Transfer struct {
	Ticket         uint64 `json:"ticket"` // Running number in the file, from 1.
	FlowIndex      uint32 `json:"flow_index"`
	FlowGeneration uint32 `json:"flow_generation"`
	OpNumber       uint64 `json:"op_number"`
	Step           uint32 `json:"step"`
	Bytes          uint32 `json:"bytes"`
	StartedNS      uint64 `json:"started_ns"` // Send: handed to the network. Receive: buffer posted.
	EndedNS        uint64 `json:"ended_ns"`   // Send: acknowledged. Receive: data there.
}

// Pair gives send flows the queue pairs that were seen to carry them.
func (s *Snapshot) Pair() {
	if len(s.QPs) == 0 {
		return
	}
	type slot struct{ index, generation uint32 }
	on := make(map[slot]uint32, len(s.QPs))
	for i := range s.QPs {
		if q := &s.QPs[i]; q.FlowIndex >= 0 {
			on[slot{uint32(q.FlowIndex), q.FlowGeneration}] = q.QPNum
		}
	}
	for i := range s.Flows {
		f := &s.Flows[i]
		f.QPNum = on[slot{f.Index, f.Generation}]
	}
}

// Since gives how long before now (both on the writer's monotonic clock, ns) at was; 0 when at has not happened or
// lies in the future.
func Since(nowNS, atNS uint64) time.Duration {
	if atNS == 0 || atNS >= nowNS {
		return 0
	}
	return time.Duration(nowNS - atNS) // Differences of one boot fit.
}
