// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Binary layout of a Culprit trace file, version 1. One file per training process, written by the shim and read by
// anybody with read permission. docs/trace-format.md explains it; package trace declares the same layout in Go.
//
// Conventions:
//  - little endian, natural alignment, every record a multiple of 8 bytes, no implicit padding.
//  - *_ns fields are CLOCK_MONOTONIC nanoseconds of the writing host unless the name says real (CLOCK_REALTIME) or
//    wait/active/gap (a duration). 0 means "has not happened".
//  - a fixed-size char array holds a NUL-terminated string; its last byte is always NUL.
//  - slots (comm, op, flow, qp) start with a seqlock `version`: odd while being written; a reader copies the slot and
//    retries when the version was odd or changed. `generation` grows each time the slot is given to a new owner and is
//    0 while the slot has never been used. `in_use` is 0 when the slot is free.
//  - ring records start with `ticket`: 0 while being written, else 1 + the record's running number. Record number n
//    lies at index n % count. The header's *_head is the number of records ever begun.
//  - fields are only ever appended, at the end of a record; a reader takes min(entry_bytes, known size) per record and
//    ignores sections of unknown kind.

#ifndef CULPRIT_TRACE_H
#define CULPRIT_TRACE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define CULPRIT_TRACE_MAGIC "culprit"  // 8 bytes with the NUL.
#define CULPRIT_TRACE_MAJOR 1
#define CULPRIT_TRACE_MINOR 7
#define CULPRIT_TRACE_SUFFIX ".trace"

#define CULPRIT_MAX_SECTIONS 16
#define CULPRIT_MAX_CHANNELS 64
#define CULPRIT_EPOCH_NS 32768u  // Length of one activity epoch (Pulse P1: 32 us), a power of two for a shift.
#define CULPRIT_PROBE_NS 1048576u  // Time between two probes of a count (CCL-D C2: 1 ms), a power of two for a shift.

enum culprit_section_kind {
  CULPRIT_SECTION_COMMS = 1,
  CULPRIT_SECTION_OPS = 2,
  CULPRIT_SECTION_FLOWS = 3,
  CULPRIT_SECTION_COMPLETIONS = 4,
  CULPRIT_SECTION_LIFECYCLE = 5,
  CULPRIT_SECTION_QPS = 6,
  CULPRIT_SECTION_TRANSFERS = 7,
};

// Kinds of operation. The numbers are part of the format.
enum culprit_func {
  CULPRIT_FUNC_UNKNOWN = 0,
  CULPRIT_FUNC_ALLGATHER = 1,
  CULPRIT_FUNC_ALLREDUCE = 2,
  CULPRIT_FUNC_ALLTOALL = 3,
  CULPRIT_FUNC_BROADCAST = 4,
  CULPRIT_FUNC_GATHER = 5,
  CULPRIT_FUNC_REDUCE = 6,
  CULPRIT_FUNC_REDUCESCATTER = 7,
  CULPRIT_FUNC_SCATTER = 8,
  CULPRIT_FUNC_SEND = 9,
  CULPRIT_FUNC_RECV = 10,
  CULPRIT_FUNC_COUNT = 16,
};

enum culprit_algo {
  CULPRIT_ALGO_UNKNOWN = 0,
  CULPRIT_ALGO_TREE = 1,
  CULPRIT_ALGO_RING = 2,
  CULPRIT_ALGO_COLLNET_DIRECT = 3,
  CULPRIT_ALGO_COLLNET_CHAIN = 4,
  CULPRIT_ALGO_NVLS = 5,
  CULPRIT_ALGO_NVLS_TREE = 6,
  CULPRIT_ALGO_PAT = 7,
};

enum culprit_proto {
  CULPRIT_PROTO_UNKNOWN = 0,
  CULPRIT_PROTO_LL = 1,
  CULPRIT_PROTO_LL128 = 2,
  CULPRIT_PROTO_SIMPLE = 3,
};

// What the head (oldest unfinished) step of a flow waits for; also the index into wait_ns.
enum culprit_flow_state {
  CULPRIT_FLOW_IDLE = 0,       // No operation is on the flow.
  CULPRIT_FLOW_QUEUED = 1,     // Proxy operation known, no step posted yet.
  CULPRIT_FLOW_SEND_GPU = 2,   // Send: credit given, waits for the own GPU's data (ncclProfilerProxyStepSendGPUWait).
  CULPRIT_FLOW_SEND_PEER = 3,  // Send: data ready, receiver has posted nothing (ncclProfilerProxyStepSendPeerWait_v4).
  CULPRIT_FLOW_SEND_NET = 4,   // Send: handed to the network, not acknowledged (ncclProfilerProxyStepSendWait).
  CULPRIT_FLOW_RECV_NET = 5,   // Receive: buffer posted, waits for data (ncclProfilerProxyStepRecvWait).
  CULPRIT_FLOW_RECV_FLUSH = 6, // Receive: data arrived, waits for the flush (ncclProfilerProxyStepRecvFlushWait).
  CULPRIT_FLOW_RECV_GPU = 7,   // Receive: given to the GPU, not consumed (ncclProfilerProxyStepRecvGPUWait).
  CULPRIT_FLOW_BETWEEN = 8,    // Operation moving, no step outstanding: next step not posted (no credit from the GPU).
};

enum culprit_op_state {
  CULPRIT_OP_CALLED = 1,    // API entered, not yet enqueued (CollApi/P2pApi, profiler ABI v5 on).
  CULPRIT_OP_ENQUEUED = 2,  // Kernel launched (Coll/P2p event).
  CULPRIT_OP_ENTERED = 3,   // Kernel seen running (KernelCh start).
  CULPRIT_OP_MOVING = 4,    // Steps are passing.
  CULPRIT_OP_LEFT = 5,      // All channels stopped, or all proxy operations done and a later operation progressed.
};

// Op flags.
#define CULPRIT_OP_P2P (1u << 0)
#define CULPRIT_OP_BARRIER (1u << 1)             // AllReduce of at most 4 bytes.
#define CULPRIT_OP_GRAPH (1u << 2)               // Captured in or replayed by a CUDA graph.
#define CULPRIT_OP_NO_COMPLETION (1u << 3)       // The path gives no completion event (symmetric, CE, AllGatherV broadcast).
#define CULPRIT_OP_PROXY_UNRELIABLE (1u << 4)    // CollNet/NVLS: proxy operations start and never stop.
#define CULPRIT_OP_KERNEL_UNTRUSTED (1u << 5)    // KernelCh of this communicator has drifted.
#define CULPRIT_OP_ABANDONED (1u << 6)           // Slot reclaimed before completion was seen (finalize, abort, reuse).
#define CULPRIT_OP_LEFT_INFERRED (1u << 7)       // Completion inferred (proxy quiescence or later op), not seen on all channels.
#define CULPRIT_OP_HIDDEN (1u << 8)              // Its call has returned and no launch was reported: whether it runs is not seen.
#define CULPRIT_OP_END_UNSEEN (1u << 9)          // Let go because later ones came: nothing says that it has ended.

// Comm flags.
#define CULPRIT_COMM_KERNEL_UNTRUSTED (1u << 0)
#define CULPRIT_COMM_HAS_KERNELCH (1u << 1)
#define CULPRIT_COMM_HAS_PROXY (1u << 2)
#define CULPRIT_COMM_HAS_API (1u << 3)
#define CULPRIT_COMM_FOREIGN_PROXY (1u << 4)     // Proxies operations of another process (PXN).
#define CULPRIT_COMM_FINALIZED (1u << 5)
#define CULPRIT_COMM_HIDES_OPS (1u << 6)         // Some operation was CULPRIT_OP_HIDDEN: nothing in flight does not mean nothing running.

// Capabilities: what the source can tell. A cleared bit means absence of such data is no evidence.
#define CULPRIT_CAP_COMM_IDENTITY (1ull << 0)
#define CULPRIT_CAP_API_EVENTS (1ull << 1)    // CollApi/P2pApi/GroupApi (v5 on, or preload hooks).
#define CULPRIT_CAP_PROXY_STEPS (1ull << 2)
#define CULPRIT_CAP_PEER_WAIT (1ull << 3)     // SendPeerWait: receiver-not-ready is told from network (v4 on).
#define CULPRIT_CAP_KERNEL_CH (1ull << 4)
#define CULPRIT_CAP_KERNEL_TIMER (1ull << 5)  // GPU time stamps in KernelCh.
#define CULPRIT_CAP_QPS (1ull << 6)
#define CULPRIT_CAP_COMPLETION (1ull << 7)
#define CULPRIT_CAP_P2P_CHANNELS (1ull << 8)  // p2p.nChannels is filled in (not by the v4 converter).

struct culprit_section {
  uint32_t kind;         // enum culprit_section_kind.
  uint32_t entry_bytes;
  uint32_t count;        // Entries.
  uint32_t reserved;
  uint64_t offset;       // From the start of the file, a multiple of 4096.
};

// First page of the file. The static part is written once before the magic; the counters below change while running.
struct culprit_header {
  char magic[8];  // Written last.
  uint16_t version_major;
  uint16_t version_minor;
  uint32_t header_bytes;  // 4096.
  uint64_t file_bytes;
  uint32_t section_count;
  uint32_t writer_abi;  // Profiler ABI version in use: 2..7; 0 preload hooks only.
  struct culprit_section sections[CULPRIT_MAX_SECTIONS];

  // Identity. A claim of the process about itself; -1 or empty: unknown.
  uint32_t pid;              // In the writer's PID namespace.
  int32_t rank;              // Global rank (RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK).
  int32_t world_size;
  int32_t local_rank;
  int32_t node_rank;
  int32_t gpu_index;         // CUDA device ordinal or, when CULPRIT_GPU is set, that number.
  uint64_t pid_namespace;    // Inode of /proc/self/ns/pid.
  uint64_t start_ticks;      // Field 22 of /proc/self/stat: start time in clock ticks after boot.
  uint64_t created_ns;
  uint64_t created_real_ns;
  char boot_id[40];
  char hostname[64];         // CULPRIT_HOSTNAME, else gethostname().
  char process_name[32];
  char job_id[64];           // CULPRIT_JOB_ID, or what the launcher says; empty: unknown
  char slurm_job_id[32];
  char slurm_step_id[16];
  char pod_name[128];
  char pod_namespace[64];
  char pod_uid[48];
  char container_name[64];
  char gpu_uuid[48];
  char gpu_pci_bus_id[24];
  char visible_devices[64];
  char shim_version[24];
  uint64_t capabilities;     // CULPRIT_CAP_*.

  // Live counters.
  uint64_t event_mask;            // NCCL event bits requested now.
  uint64_t heartbeat_ns;          // Last callback of any kind (coarse: at least every operation).
  uint64_t real_minus_mono_ns;    // CLOCK_REALTIME - CLOCK_MONOTONIC at the last clock anchor.
  uint64_t closed_ns;             // Orderly end (last finalize or exit handler); 0 while running or after a kill.
  uint64_t group_open_since_ns;   // Since when a thread is inside ncclGroupEnd (GroupApi open); 0 none.
  uint64_t group_count;           // Groups seen; about, with several threads.
  uint32_t comms_high;            // Slots [0, high) of each table have been used at some time.
  uint32_t ops_high;
  uint32_t flows_high;
  uint32_t qps_high;
  uint64_t completions_head;
  uint64_t lifecycle_head;
  uint64_t transfers_head;
  uint64_t dropped_comms;         // No free slot: not tracked.
  uint64_t dropped_ops;
  uint64_t dropped_flows;
  uint64_t contended_events;      // Event left out because another thread was writing the same slot.
  uint64_t foreign_events;        // Proxy operations of another process (PXN).
  uint64_t stale_events;          // Handle of an earlier generation, or not ours.
  uint64_t repeated_events;       // Same state again (SendPeerWait polls are not counted here).
  uint64_t callbacks;             // Approximate number of callbacks seen.

  char address[48];               // Identity, too: the IP address by which the process is reached (M1); empty: unknown.
};

struct culprit_comm {
  uint32_t version;
  uint32_t generation;
  uint32_t in_use;  // 1 while the communicator exists; a finalized one stays readable until the slot is needed.
  uint32_t flags;   // CULPRIT_COMM_*.
  uint64_t comm_id; // Equal on all ranks of the communicator (ncclProfiler commId/commHash); not unique by itself: key on (comm_id, nranks).
  int32_t nranks;
  int32_t rank;     // Rank in this communicator.
  int32_t nnodes;
  uint32_t proxy_tid;  // Thread that last delivered proxy events; 0 unknown.
  uint32_t user_tid;   // Thread that last called an operation.
  uint32_t ops_in_flight;
  char name[64];
  uint64_t created_ns;
  uint64_t destroyed_ns;
  uint64_t ops_called;      // Operations numbered so far, all kinds, in call order; the last one's number is ops_called - 1.
  uint64_t ops_started;     // Enqueued.
  uint64_t ops_completed;   // Completion seen or inferred.
  uint64_t last_called_ns;
  uint64_t last_progress_ns;
  uint64_t last_completed_ns;
  uint64_t seq_started[CULPRIT_FUNC_COUNT];    // 1 + last sequence number enqueued, per function; 0 none.
  uint64_t func_completed[CULPRIT_FUNC_COUNT];
  uint64_t func_bytes[CULPRIT_FUNC_COUNT];     // Payload bytes of completed operations (count x size of datatype).
  uint64_t func_ns[CULPRIT_FUNC_COUNT];        // Enqueued to left, summed over completed operations, ns.
  uint64_t ops_unseen;      // Of ops_completed, those let go without a sign of their end (CULPRIT_OP_END_UNSEEN).
  int32_t device;           // GPU that it runs on, as CUDA numbers them in this process; -1 unknown.
  int32_t gpu_index;        // And as the node numbers them: the device's entry of CUDA_VISIBLE_DEVICES; -1 unknown.
  char gpu_uuid[48];
  char gpu_pci_bus_id[24];
};

struct culprit_op {
  uint32_t version;
  uint32_t generation;
  uint32_t in_use;
  uint32_t flags;       // CULPRIT_OP_*.
  uint32_t comm_index;  // Slot of the communicator.
  uint32_t comm_generation;
  uint64_t number;      // Call order on the communicator, from 0.
  uint64_t seq;         // NCCL sequence number per communicator and function; p2p: per (comm, peer, direction).
  uint16_t func;        // enum culprit_func.
  uint16_t algo;
  uint16_t proto;
  uint16_t datatype_bytes;  // Size of one element, 0 unknown.
  char datatype[16];
  uint64_t count;       // Elements as the user passed them where known.
  uint64_t bytes;       // count x datatype_bytes.
  int32_t peer;         // p2p: peer in the communicator, else -1.
  int32_t root;         // -1 when none.
  uint32_t channels;    // Announced by NCCL, 0 unknown.
  uint32_t state;       // enum culprit_op_state.
  uint64_t called_ns;
  uint64_t enqueued_ns;
  uint64_t entered_ns;        // First KernelCh start.
  uint64_t first_step_ns;     // First proxy step.
  uint64_t last_progress_ns;  // Last KernelCh or step change.
  uint64_t left_ns;
  uint64_t kernel_started;    // Bit per channel.
  uint64_t kernel_stopped;
  uint32_t proxy_started;     // Proxy operations.
  uint32_t proxy_stopped;
  uint32_t user_tid;
  uint32_t group_ordinal;     // Its ordinal in its group of calls, from 1; 0 unknown. Groups of a communicator run one after the other.
  uint64_t gpu_ready_ns;      // The first data that its GPU had ready to send over the network; 0: none yet.
};

// One (communicator, channel, direction, peer). Counters without "total" belong to the current operation.
struct culprit_flow {
  uint32_t version;
  uint32_t generation;
  uint32_t in_use;
  uint32_t comm_index;
  uint32_t comm_generation;
  uint16_t channel;
  uint8_t is_send;
  uint8_t state;         // enum culprit_flow_state.
  int32_t peer;          // Rank in the communicator.
  uint32_t op_index;     // Slot of the current operation.
  uint32_t op_generation;
  uint32_t queued;       // Further proxy operations started on this flow, not moving yet.
  uint64_t op_number;
  uint64_t op_seq;
  uint16_t func;
  uint16_t reserved0;
  uint32_t steps_total;  // proxyOp.nSteps.
  uint32_t posted;       // Send: buffers offered to the GPU. Receive: buffers posted to the network.
  uint32_t ready;        // Send: GPU_ready. Receive: received.
  uint32_t transmitted;  // Send: RDMA_transmitted. Receive: given to the GPU (flushed).
  uint32_t done;         // Send: RDMA_done. Receive: consumed by the GPU.
  uint32_t peer_polls;   // Repeated SendPeerWait since the last change: the proxy thread lives.
  uint32_t epochs;       // Epochs of CULPRIT_EPOCH_NS with a transfer outstanding, this operation.
  uint64_t op_started_ns;     // Proxy operation dequeued.
  uint64_t first_step_ns;
  uint64_t state_since_ns;
  uint64_t last_progress_ns;  // Last change of a counter.
  uint64_t bytes;
  uint64_t wait_ns[3];        // Send: gpu, peer, net. Receive: net, flush, gpu. Finished waits of the head step, this operation.
  uint64_t active_ns;         // Time with a transfer outstanding, this operation.
  uint64_t largest_gap_ns;    // Longest time without a change, this operation.
  uint64_t total_ops;         // Finished proxy operations.
  uint64_t total_posted;
  uint64_t total_ready;
  uint64_t total_transmitted;
  uint64_t total_done;
  uint64_t total_bytes;
  uint64_t total_wait_ns[3];
  uint64_t total_active_ns;
  uint64_t total_epochs;
};

// One direction of a finished operation, summed over its flows.
struct culprit_direction {
  uint32_t flows;
  uint32_t steps;
  uint64_t bytes;
  uint64_t wait_ns[3];       // As culprit_flow.wait_ns, summed.
  uint64_t active_ns;        // Longest of the flows.
  uint64_t largest_gap_ns;   // Longest of the flows.
  uint64_t first_step_ns;
  uint64_t last_step_ns;
  uint32_t slowest_channel;  // Channel of the flow that finished last.
  int32_t slowest_peer;
  uint64_t slowest_ns;       // Its first step to last step, ns.
  uint64_t fastest_ns;       // The shortest of the flows.
};

struct culprit_completion {
  uint64_t ticket;
  uint64_t comm_id;
  uint32_t comm_index;
  uint32_t comm_generation;
  int32_t nranks;
  int32_t rank;
  uint64_t number;
  uint64_t seq;
  uint16_t func;
  uint16_t algo;
  uint16_t proto;
  uint16_t datatype_bytes;
  uint64_t count;
  uint64_t bytes;
  int32_t peer;
  int32_t root;
  uint32_t channels;
  uint32_t flags;
  uint64_t called_ns;
  uint64_t enqueued_ns;
  uint64_t entered_ns;
  uint64_t left_ns;
  uint64_t gpu_ns;  // Longest channel by the GPU's own timer, 0 unknown.
  struct culprit_direction send;
  struct culprit_direction recv;
  uint64_t gpu_ready_ns;  // As culprit_op.gpu_ready_ns.
  uint32_t send_probes;   // Probes every CULPRIT_PROBE_NS that find SendCount (done) changed, most of the flows; 0: none recorded.
  uint32_t recv_probes;   // The same of RecvCount (received).
  uint64_t group_ordinal; // As culprit_op.group_ordinal.
  uint64_t send_qp;       // Number of the RDMA queue pair that carried the sending flow that finished last; 0 unknown.
};

enum culprit_lifecycle_kind {
  CULPRIT_LIFE_PROCESS_START = 1,
  CULPRIT_LIFE_PROCESS_END = 2,
  CULPRIT_LIFE_COMM_CREATED = 3,
  CULPRIT_LIFE_COMM_DESTROYED = 4,
  CULPRIT_LIFE_DROPPED = 5,      // arg0: enum culprit_section_kind that was full.
  CULPRIT_LIFE_DISTRUST = 6,     // arg0: CULPRIT_COMM_* or CULPRIT_OP_* flag, text: why.
  CULPRIT_LIFE_MASK_CHANGED = 7, // arg0: new mask.
  CULPRIT_LIFE_FORK = 8,         // The process forked; the child writes nothing.
  CULPRIT_LIFE_CALL_BEGIN = 9,   // A thread entered an NCCL call that can block (preload); text: the call, comm_id: the same on
                                 // all that must call it, arg0: how many those are (0 unknown) << 32 | thread id, comm_index:
                                 // what it is called on.
  CULPRIT_LIFE_CALL_END = 10,    // It came back; arg0: thread id << 32 | ncclResult_t, text: the call.
};

struct culprit_lifecycle {
  uint64_t ticket;
  uint64_t at_ns;
  uint32_t kind;
  uint32_t comm_index;  // UINT32_MAX: none.
  uint64_t comm_id;
  uint64_t arg0;
  char text[56];
};

// A queue pair of the process, as the verbs interposer sees it. The time with work outstanding is counted per epoch, as for a
// flow. Slots of destroyed queue pairs are given away.
struct culprit_qp {
  uint32_t version;
  uint32_t generation;
  uint32_t in_use;
  uint32_t qp_num;           // Local number.
  uint32_t dest_qp_num;      // Number at the peer; 0 until connected.
  uint32_t comm_index;       // Of the flow that was seen to send on it; UINT32_MAX unknown.
  uint32_t comm_generation;
  uint32_t flow_index;       // UINT32_MAX unknown.
  uint32_t flow_generation;
  int32_t peer;              // Rank in the communicator; -1 unknown.
  uint16_t port;             // Local port number.
  uint16_t dest_lid;         // InfiniBand; 0 on RoCE.
  uint16_t gid_index;        // Local GID index.
  uint16_t state;            // Last state set: enum ibv_qp_state (RTR 2, RTS 3, ERR 6).
  char device[32];           // "mlx5_0".
  uint8_t remote_gid[16];    // RoCE v2: the peer's address, IPv4 mapped into IPv6.
  uint64_t created_ns;
  uint64_t connected_ns;     // When it was made ready to send.
  uint64_t last_post_ns;
  uint64_t last_completion_ns;
  uint64_t sends_posted;
  uint64_t sends_completed;  // Work requests known done: a signaled one's completion covers those before it.
  uint64_t send_bytes;       // Posted.
  uint64_t receives_posted;
  uint64_t receives_completed;
  uint64_t errors;           // Completions with another status than success.
  uint32_t last_error;       // enum ibv_wc_status of the last of them.
  uint32_t epochs;           // Epochs with a send outstanding.
  uint64_t active_ns;        // Time with a send outstanding.
};

// One transfer of a flow, written when it is done and CULPRIT_TRANSFERS asks for it.
struct culprit_transfer {
  uint64_t ticket;
  uint32_t flow_index;
  uint32_t flow_generation;
  uint64_t op_number;
  uint32_t step;
  uint32_t bytes;
  uint64_t started_ns;  // Send: handed to the network. Receive: buffer posted.
  uint64_t ended_ns;    // Send: acknowledged. Receive: data there.
};

static_assert(sizeof(struct culprit_section) == 24, "section");
static_assert(offsetof(struct culprit_header, sections) == 32, "header.sections");
static_assert(sizeof(struct culprit_header) <= 4096, "header fits its page");
static_assert(sizeof(struct culprit_comm) % 8 == 0, "comm");
static_assert(sizeof(struct culprit_op) % 8 == 0, "op");
static_assert(sizeof(struct culprit_flow) % 8 == 0, "flow");
static_assert(sizeof(struct culprit_completion) % 8 == 0, "completion");
static_assert(sizeof(struct culprit_lifecycle) % 8 == 0, "lifecycle");
static_assert(sizeof(struct culprit_qp) % 8 == 0, "qp");
static_assert(sizeof(struct culprit_transfer) % 8 == 0, "transfer");

#endif
