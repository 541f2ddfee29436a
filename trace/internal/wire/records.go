// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Code generated from ncclshim/culprit_trace.h by go generate. DO NOT EDIT.

package wire

// Section is struct culprit_section.
type Section struct {
	Kind       uint32 `c:"kind"`
	EntryBytes uint32 `c:"entry_bytes"`
	Count      uint32 `c:"count"`
	Reserved   uint32 `c:"reserved"`
	Offset     uint64 `c:"offset"`
}

// Header is struct culprit_header.
type Header struct {
	Magic            [8]byte              `c:"magic"`
	VersionMajor     uint16               `c:"version_major"`
	VersionMinor     uint16               `c:"version_minor"`
	HeaderBytes      uint32               `c:"header_bytes"`
	FileBytes        uint64               `c:"file_bytes"`
	SectionCount     uint32               `c:"section_count"`
	WriterABI        uint32               `c:"writer_abi"`
	Sections         [MaxSections]Section `c:"sections"`
	PID              uint32               `c:"pid"`
	Rank             int32                `c:"rank"`
	WorldSize        int32                `c:"world_size"`
	LocalRank        int32                `c:"local_rank"`
	NodeRank         int32                `c:"node_rank"`
	GPUIndex         int32                `c:"gpu_index"`
	PIDNamespace     uint64               `c:"pid_namespace"`
	StartTicks       uint64               `c:"start_ticks"`
	CreatedNS        uint64               `c:"created_ns"`
	CreatedRealNS    uint64               `c:"created_real_ns"`
	BootID           [40]byte             `c:"boot_id"`
	Hostname         [64]byte             `c:"hostname"`
	ProcessName      [32]byte             `c:"process_name"`
	JobID            [64]byte             `c:"job_id"`
	SlurmJobID       [32]byte             `c:"slurm_job_id"`
	SlurmStepID      [16]byte             `c:"slurm_step_id"`
	PodName          [128]byte            `c:"pod_name"`
	PodNamespace     [64]byte             `c:"pod_namespace"`
	PodUID           [48]byte             `c:"pod_uid"`
	ContainerName    [64]byte             `c:"container_name"`
	GPUUUID          [48]byte             `c:"gpu_uuid"`
	GPUPCIBusID      [24]byte             `c:"gpu_pci_bus_id"`
	VisibleDevices   [64]byte             `c:"visible_devices"`
	ShimVersion      [24]byte             `c:"shim_version"`
	Capabilities     uint64               `c:"capabilities"`
	EventMask        uint64               `c:"event_mask"`
	HeartbeatNS      uint64               `c:"heartbeat_ns"`
	RealMinusMonoNS  uint64               `c:"real_minus_mono_ns"`
	ClosedNS         uint64               `c:"closed_ns"`
	GroupOpenSinceNS uint64               `c:"group_open_since_ns"`
	GroupCount       uint64               `c:"group_count"`
	CommsHigh        uint32               `c:"comms_high"`
	OpsHigh          uint32               `c:"ops_high"`
	FlowsHigh        uint32               `c:"flows_high"`
	QPsHigh          uint32               `c:"qps_high"`
	CompletionsHead  uint64               `c:"completions_head"`
	LifecycleHead    uint64               `c:"lifecycle_head"`
	TransfersHead    uint64               `c:"transfers_head"`
	DroppedComms     uint64               `c:"dropped_comms"`
	DroppedOps       uint64               `c:"dropped_ops"`
	DroppedFlows     uint64               `c:"dropped_flows"`
	ContendedEvents  uint64               `c:"contended_events"`
	ForeignEvents    uint64               `c:"foreign_events"`
	StaleEvents      uint64               `c:"stale_events"`
	RepeatedEvents   uint64               `c:"repeated_events"`
	Callbacks        uint64               `c:"callbacks"`
	Address          [48]byte             `c:"address"`
}

// Comm is struct culprit_comm.
type Comm struct {
	Version         uint32          `c:"version"`
	Generation      uint32          `c:"generation"`
	InUse           uint32          `c:"in_use"`
	Flags           uint32          `c:"flags"`
	CommID          uint64          `c:"comm_id"`
	NRanks          int32           `c:"nranks"`
	Rank            int32           `c:"rank"`
	NNodes          int32           `c:"nnodes"`
	ProxyTID        uint32          `c:"proxy_tid"`
	UserTID         uint32          `c:"user_tid"`
	OpsInFlight     uint32          `c:"ops_in_flight"`
	Name            [64]byte        `c:"name"`
	CreatedNS       uint64          `c:"created_ns"`
	DestroyedNS     uint64          `c:"destroyed_ns"`
	OpsCalled       uint64          `c:"ops_called"`
	OpsStarted      uint64          `c:"ops_started"`
	OpsCompleted    uint64          `c:"ops_completed"`
	LastCalledNS    uint64          `c:"last_called_ns"`
	LastProgressNS  uint64          `c:"last_progress_ns"`
	LastCompletedNS uint64          `c:"last_completed_ns"`
	SeqStarted      [NumFunc]uint64 `c:"seq_started"`
	FuncCompleted   [NumFunc]uint64 `c:"func_completed"`
	FuncBytes       [NumFunc]uint64 `c:"func_bytes"`
	FuncNS          [NumFunc]uint64 `c:"func_ns"`
	OpsUnseen       uint64          `c:"ops_unseen"`
	Device          int32           `c:"device"`
	GPUIndex        int32           `c:"gpu_index"`
	GPUUUID         [48]byte        `c:"gpu_uuid"`
	GPUPCIBusID     [24]byte        `c:"gpu_pci_bus_id"`
}

// Op is struct culprit_op.
type Op struct {
	Version        uint32   `c:"version"`
	Generation     uint32   `c:"generation"`
	InUse          uint32   `c:"in_use"`
	Flags          uint32   `c:"flags"`
	CommIndex      uint32   `c:"comm_index"`
	CommGeneration uint32   `c:"comm_generation"`
	Number         uint64   `c:"number"`
	Seq            uint64   `c:"seq"`
	Func           uint16   `c:"func"`
	Algo           uint16   `c:"algo"`
	Proto          uint16   `c:"proto"`
	DatatypeBytes  uint16   `c:"datatype_bytes"`
	Datatype       [16]byte `c:"datatype"`
	Count          uint64   `c:"count"`
	Bytes          uint64   `c:"bytes"`
	Peer           int32    `c:"peer"`
	Root           int32    `c:"root"`
	Channels       uint32   `c:"channels"`
	State          uint32   `c:"state"`
	CalledNS       uint64   `c:"called_ns"`
	EnqueuedNS     uint64   `c:"enqueued_ns"`
	EnteredNS      uint64   `c:"entered_ns"`
	FirstStepNS    uint64   `c:"first_step_ns"`
	LastProgressNS uint64   `c:"last_progress_ns"`
	LeftNS         uint64   `c:"left_ns"`
	KernelStarted  uint64   `c:"kernel_started"`
	KernelStopped  uint64   `c:"kernel_stopped"`
	ProxyStarted   uint32   `c:"proxy_started"`
	ProxyStopped   uint32   `c:"proxy_stopped"`
	UserTID        uint32   `c:"user_tid"`
	GroupOrdinal   uint32   `c:"group_ordinal"`
	GPUReadyNS     uint64   `c:"gpu_ready_ns"`
}

// Flow is struct culprit_flow.
type Flow struct {
	Version          uint32    `c:"version"`
	Generation       uint32    `c:"generation"`
	InUse            uint32    `c:"in_use"`
	CommIndex        uint32    `c:"comm_index"`
	CommGeneration   uint32    `c:"comm_generation"`
	Channel          uint16    `c:"channel"`
	IsSend           uint8     `c:"is_send"`
	State            uint8     `c:"state"`
	Peer             int32     `c:"peer"`
	OpIndex          uint32    `c:"op_index"`
	OpGeneration     uint32    `c:"op_generation"`
	Queued           uint32    `c:"queued"`
	OpNumber         uint64    `c:"op_number"`
	OpSeq            uint64    `c:"op_seq"`
	Func             uint16    `c:"func"`
	Reserved0        uint16    `c:"reserved0"`
	StepsTotal       uint32    `c:"steps_total"`
	Posted           uint32    `c:"posted"`
	Ready            uint32    `c:"ready"`
	Transmitted      uint32    `c:"transmitted"`
	Done             uint32    `c:"done"`
	PeerPolls        uint32    `c:"peer_polls"`
	Epochs           uint32    `c:"epochs"`
	OpStartedNS      uint64    `c:"op_started_ns"`
	FirstStepNS      uint64    `c:"first_step_ns"`
	StateSinceNS     uint64    `c:"state_since_ns"`
	LastProgressNS   uint64    `c:"last_progress_ns"`
	Bytes            uint64    `c:"bytes"`
	WaitNS           [3]uint64 `c:"wait_ns"`
	ActiveNS         uint64    `c:"active_ns"`
	LargestGapNS     uint64    `c:"largest_gap_ns"`
	TotalOps         uint64    `c:"total_ops"`
	TotalPosted      uint64    `c:"total_posted"`
	TotalReady       uint64    `c:"total_ready"`
	TotalTransmitted uint64    `c:"total_transmitted"`
	TotalDone        uint64    `c:"total_done"`
	TotalBytes       uint64    `c:"total_bytes"`
	TotalWaitNS      [3]uint64 `c:"total_wait_ns"`
	TotalActiveNS    uint64    `c:"total_active_ns"`
	TotalEpochs      uint64    `c:"total_epochs"`
}

// Direction is struct culprit_direction.
type Direction struct {
	Flows          uint32    `c:"flows"`
	Steps          uint32    `c:"steps"`
	Bytes          uint64    `c:"bytes"`
	WaitNS         [3]uint64 `c:"wait_ns"`
	ActiveNS       uint64    `c:"active_ns"`
	LargestGapNS   uint64    `c:"largest_gap_ns"`
	FirstStepNS    uint64    `c:"first_step_ns"`
	LastStepNS     uint64    `c:"last_step_ns"`
	SlowestChannel uint32    `c:"slowest_channel"`
	SlowestPeer    int32     `c:"slowest_peer"`
	SlowestNS      uint64    `c:"slowest_ns"`
	FastestNS      uint64    `c:"fastest_ns"`
}

// Completion is struct culprit_completion.
type Completion struct {
	Ticket         uint64    `c:"ticket"`
	CommID         uint64    `c:"comm_id"`
	CommIndex      uint32    `c:"comm_index"`
	CommGeneration uint32    `c:"comm_generation"`
	NRanks         int32     `c:"nranks"`
	Rank           int32     `c:"rank"`
	Number         uint64    `c:"number"`
	Seq            uint64    `c:"seq"`
	Func           uint16    `c:"func"`
	Algo           uint16    `c:"algo"`
	Proto          uint16    `c:"proto"`
	DatatypeBytes  uint16    `c:"datatype_bytes"`
	Count          uint64    `c:"count"`
	Bytes          uint64    `c:"bytes"`
	Peer           int32     `c:"peer"`
	Root           int32     `c:"root"`
	Channels       uint32    `c:"channels"`
	Flags          uint32    `c:"flags"`
	CalledNS       uint64    `c:"called_ns"`
	EnqueuedNS     uint64    `c:"enqueued_ns"`
	EnteredNS      uint64    `c:"entered_ns"`
	LeftNS         uint64    `c:"left_ns"`
	GPUNS          uint64    `c:"gpu_ns"`
	Send           Direction `c:"send"`
	Recv           Direction `c:"recv"`
	GPUReadyNS     uint64    `c:"gpu_ready_ns"`
	SendProbes     uint32    `c:"send_probes"`
	RecvProbes     uint32    `c:"recv_probes"`
	GroupOrdinal   uint64    `c:"group_ordinal"`
	SendQP         uint64    `c:"send_qp"`
}

// Lifecycle is struct culprit_lifecycle.
type Lifecycle struct {
	Ticket    uint64   `c:"ticket"`
	AtNS      uint64   `c:"at_ns"`
	Kind      uint32   `c:"kind"`
	CommIndex uint32   `c:"comm_index"`
	CommID    uint64   `c:"comm_id"`
	Arg0      uint64   `c:"arg0"`
	Text      [56]byte `c:"text"`
}

// QP is struct culprit_qp.
type QP struct {
	Version           uint32    `c:"version"`
	Generation        uint32    `c:"generation"`
	InUse             uint32    `c:"in_use"`
	QPNum             uint32    `c:"qp_num"`
	DestQPNum         uint32    `c:"dest_qp_num"`
	CommIndex         uint32    `c:"comm_index"`
	CommGeneration    uint32    `c:"comm_generation"`
	FlowIndex         uint32    `c:"flow_index"`
	FlowGeneration    uint32    `c:"flow_generation"`
	Peer              int32     `c:"peer"`
	Port              uint16    `c:"port"`
	DestLID           uint16    `c:"dest_lid"`
	GIDIndex          uint16    `c:"gid_index"`
	State             uint16    `c:"state"`
	Device            [32]byte  `c:"device"`
	RemoteGID         [16]uint8 `c:"remote_gid"`
	CreatedNS         uint64    `c:"created_ns"`
	ConnectedNS       uint64    `c:"connected_ns"`
	LastPostNS        uint64    `c:"last_post_ns"`
	LastCompletionNS  uint64    `c:"last_completion_ns"`
	SendsPosted       uint64    `c:"sends_posted"`
	SendsCompleted    uint64    `c:"sends_completed"`
	SendBytes         uint64    `c:"send_bytes"`
	ReceivesPosted    uint64    `c:"receives_posted"`
	ReceivesCompleted uint64    `c:"receives_completed"`
	Errors            uint64    `c:"errors"`
	LastError         uint32    `c:"last_error"`
	Epochs            uint32    `c:"epochs"`
	ActiveNS          uint64    `c:"active_ns"`
}

// Transfer is struct culprit_transfer.
type Transfer struct {
	Ticket         uint64 `c:"ticket"`
	FlowIndex      uint32 `c:"flow_index"`
	FlowGeneration uint32 `c:"flow_generation"`
	OpNumber       uint64 `c:"op_number"`
	Step           uint32 `c:"step"`
	Bytes          uint32 `c:"bytes"`
	StartedNS      uint64 `c:"started_ns"`
	EndedNS        uint64 `c:"ended_ns"`
}
