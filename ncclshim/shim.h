// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The shim's one instance: the mapped trace file, and beside it, in private memory, what the shim itself needs to know
// about each slot. Nothing that steers the shim is ever read back from the file, so that a damaged file damages only
// numbers.
//
// Who writes what:
//  - communicator: init and finalize under its seqlock; the counters by any thread, each an atomic word of its own.
//  - operation: any thread, under its seqlock.
//  - flow: the thread that delivers its proxy events (see flow.c), in the end any thread, under its seqlock.
//  - rings: any thread; a ticket is drawn from the header's head.

#ifndef CULPRIT_SHIM_H
#define CULPRIT_SHIM_H

#include "clock.h"
#include "culprit_trace.h"
#include "handle.h"
#include "profiler_abi.h"
#include "seqlock.h"
#include "settings.h"
#include "tracefile.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define NONE UINT32_MAX  // No slot.

#define OP_WINDOW 4096u    // Operations of one communicator that can be open at a time: two all-to-alls of 1024 ranks.
#define FLOW_BUCKETS 512u  // Per communicator.
#define LEARNED 64u        // Operation signatures remembered per communicator.
#define GROUP_SLOTS 64u    // Threads inside a group at a time.
#define UNSEEN_TAIL 16u    // See op_end.c.
#define UNSEEN_TAIL_CALLED 64u
#define UNSEEN_TAIL_PROXY 256u
#define UNSEEN_TAIL_OLD 1024u

// A lock-free stack of free slots, filled lazily: slots from `high` on have never been used.
struct pool {
  uint64_t head;  // Change counter << 32 | 1 + first free slot.
  uint32_t high;
  uint32_t capacity;
  uint32_t *next;
};

// What the proxies of an operation with this signature came to, once it was certain.
struct learned {
  uint64_t both;  // Signature << 32 | number of proxy operations; 0 empty.
};

// How send/recv with a peer moves, as far as it has been seen.
enum p2p_path { P2P_UNKNOWN = 0, P2P_PROXIED = 1, P2P_UNSEEN = 2 };

// What KernelCh has told of a channel: the GPU's time, and when it was told.
struct kernel_told {
  uint64_t timer, at_ns;
};

struct comm_ctl {
  uint32_t generation;
  uint32_t in_use;
  uint64_t comm_id;
  int32_t nranks, rank, nnodes;
  uint32_t kernel_on;         // KernelCh was requested when the communicator was made.
  uint64_t untrusted_from;    // KernelCh is not believed of operations from this number on; UINT64_MAX: of all.
  uint32_t has_proxy;         // A proxy operation was seen.
  uint32_t proxies_open;      // Proxy operations followed and not ended.
  uint32_t identified;        // comm_id is known (ABI 2 and 3: from the first operation).
  uint32_t abi;
  uint64_t next_number;

  uint64_t first_launch_ns;

  // Evidence about earlier operations; both only grow.
  uint64_t final_before;   // All proxy operations of operations below have been seen to start.
  uint64_t passed_before;  // The kernels of operations below have ended: a later one is at work on the GPU.

  uint32_t missed;         // An operation was busy when a watermark passed it: 1.

  uint64_t group;        // Group of the newest operation.
  uint64_t plan;         // Number of the newest plan; threads that launch at the same time may share one.
  uint64_t group_first;  // Its first operation's number.
  uint64_t hidden_group;     // Group of the newest Broadcast that no launch followed.
  uint64_t broadcast_group;  // Group of the newest Broadcast call, for the KernelCh drift rule.

  uint64_t user_thread, proxy_thread;  // Thread pointers behind the two ids in the slot.
  uint32_t user_thread_epoch, proxy_thread_epoch;

  uint64_t func_seq[CULPRIT_FUNC_COUNT];  // Next sequence number, where calls are numbered here (preload hooks).
  uint64_t *p2p_seq;  // [2 * peer + is_send]: next sequence number, and above it what way the transfers take (enum p2p_path).
  uint32_t p2p_peers;
  struct learned learned[LEARNED];
  struct kernel_told kernels_told[CULPRIT_MAX_CHANNELS];
};

// What flows add to one direction of an operation: what the record has as a direction, and what it has beside it.
struct flow_share {
  struct culprit_direction sums;
  uint32_t probes;
  uint32_t qp_num;  // Of the flow that finished last; 0 unknown.
};

struct op_ctl {
  _Alignas(64) uint32_t generation;
  bool used;
  bool counted;          // In the communicator's ops_in_flight.
  bool kernel_expected;  // KernelCh was on when it was enqueued.
  bool unproven;         // Nothing has shown yet whether it has proxies.
  bool proxies_unknown;  // Some proxy operation could not be followed.
  bool announced;        // Has raised final_before.
  bool passed;           // Has raised passed_before.
  uint32_t comm_index, comm_generation;
  uint32_t key;      // Signature, for comm_ctl.learned.
  uint32_t flags, state;
  uint16_t func, algo, proto, datatype_bytes;
  uint64_t number, seq;
  uint64_t group;        // Operations of one group may run at the same time.
  uint64_t group_first;  // Number of the first operation of the group.
  uint64_t count, bytes;
  int32_t peer, root;
  uint32_t channels;
  uint32_t proxy_started, proxy_stopped;
  uint32_t proxy_missed;  // Stops that came while the slot was taken; added with atomics.
  uint64_t called_ns, enqueued_ns, entered_ns, kernel_left_ns, last_proxy_ns, provisional_ns, gpu_ready_ns;
  uint64_t kernel_started, kernel_stopped, kernel_timed;  // Channels, a bit each; timed: the GPU's time of the stop is known.
  uint64_t gpu_ns;

  // Not cleared with the rest: an operation's end leaves the first clean, and kernel_started says what of the second holds.
  struct flow_share directions[2];  // [is_send].
  uint64_t gpu_start[CULPRIT_MAX_CHANNELS];
};

// How writers of a flow keep out of each other's way; see flow.c.
enum flow_mode { FLOW_OWNED = 0, FLOW_SHARING = 1, FLOW_SHARED = 2 };

// What a step touches lies in the first cache line of these two.
struct flow_ctl {
  _Alignas(64) uint64_t owner;  // Thread pointer.
  uint32_t mode;
  uint32_t busy;     // Written by the owner only.
  uint32_t current;  // Proxy operation shown in the slot, NONE when idle; the others queue behind it.
  uint8_t state;
  uint8_t active;
  uint16_t channel;
  uint64_t state_since, last_progress, last_epoch;
  uint64_t last_probe;  // When the count changed last in the operation shown, in CULPRIT_PROBE_NS; 0: it has not.
  uint32_t probes;      // Probes of this operation that find the count changed.
  uint32_t generation;
  uint32_t tail;  // Last of the queue.

  uint32_t comm_index, comm_generation;
  uint32_t next;  // In the communicator's bucket.
  int32_t peer;
  uint8_t is_send;
  uint8_t gone;   // Its communicator has ended: nothing is queued on it any more.
  uint32_t last;  // Then: the proxy operation that the slot showed.
  uint32_t qp_num;  // The RDMA queue pair that its data was last posted to; 0 unknown.
};

// What an operation has yet to be told by one of its proxy operations.
enum untold { UNTOLD_FIRST = 1, UNTOLD_ON_GPU = 2 };

struct proxy_ctl {
  _Alignas(64) uint32_t step_tag;  // handle_tag of its steps' handles, 0 while it is free.
  uint32_t counts[4];              // posted, ready, transmitted, done.
  uint32_t total;
  uint8_t is_send;
  uint8_t untold;  // enum untold.
  bool closed;     // Summed up; only its own stop is outstanding.
  bool used;
  bool queued;  // In the flow's list.
  uint16_t func;
  struct flow_ctl *at;
  struct culprit_flow *slot;
  uint64_t *op_progress_ns;  // The operation's last_progress_ns, or a place nobody reads.
  uint64_t last_step_ns;

  uint32_t generation;
  uint32_t flow;
  uint32_t next;         // Behind it on the flow.
  uint32_t stop_missed;  // Its stop came while the flow was busy: 1.
  handle op;             // HANDLE_OP, 0 when unknown.
  uint64_t number, seq;
  uint64_t started_ns, first_step_ns, bytes;
  uint64_t bytes_before;  // Where its sum of bytes begins (ABI 2 and 3).
};
static_assert(offsetof(struct flow_ctl, generation) <= 64 && offsetof(struct proxy_ctl, generation) <= 64, "hot fields first");

#define QP_SIGNALED 128u  // Signaled sends of a queue pair that can be outstanding.

struct qp_ctl {
  uint32_t generation;
  bool used;
  bool active;
  uint32_t signaled_head, signaled_tail;
  uint64_t active_mark, last_epoch;
  uint64_t signaled[QP_SIGNALED];  // sends_posted at each signaled request.
};

#define SENDING 64u  // Threads that can be told apart while they send.

// The flow that a thread is about to send for (see qp.h).
struct sending {
  uint64_t thread;
  uint32_t flow;  // 1 + flow, 0 none.
};

#define TRANSFERS_OPEN 16u  // Steps of a proxy operation that can be outstanding.

// When the outstanding transfers of a proxy operation began, by step.
struct transfer_starts {
  uint64_t at_ns[TRANSFERS_OPEN];
  uint32_t bytes[TRANSFERS_OPEN];
};

// An operation's place in the chain of its group, from the last called to the first.
struct op_link {
  uint64_t state;  // Generation << 1 | launched.
  handle next;
  uint64_t watched;  // 1: its kernel's events were asked for, as in op_ctl.kernel_expected.
};

struct group_slot {
  uint32_t generation;  // Odd while open.
  uint64_t since_ns;
  handle first_op;      // The last that was called; the others follow by their links.
};

struct shim {
  pthread_mutex_t session;  // Communicators are made and ended under it; no event takes it.
  bool tried;               // The first communicator has come; what it decided holds for the process.
  uint32_t kernel_off;      // KernelCh has been given up: no shared memory left for it, or NCCL would wait for its events for ever.
  uint32_t open;       // 1 while events are taken.
  uint32_t *alive;     // 1 in the process that opened the file, 0 in a forked child.
  pid_t pid;
  uint32_t cookie;
  uint32_t abi;
  bool membarrier;
  struct settings settings;
  struct clock clock;
  uint32_t thread_epoch;  // Grows now and then: cached thread ids are to be looked up again.
  struct trace_file file;
  uint64_t nowhere;  // Target for stores without a home.

  uint32_t qps_on;         // A verbs interposer is at work.
  uint32_t transfers_on;   // Each transfer is recorded.
  uint32_t peer_wait_seen; // ABI 2 and 3 told of a receiver that was not ready.
  struct sending sending[SENDING];

  uint32_t comms_live;
  uint32_t dropped_kinds;  // Bit per section kind whose loss has been reported.
  uint32_t mask_wanted;    // Events to ask for at the start.
  uint32_t mask_now;       // And now, after a control file or a shortage of shared memory.
  uint32_t mask_others;    // Events that another plugin wants (chain.c).
  int *mask;               // NCCL's process-wide event mask.

  unsigned char *tables;  // All of the following, and alive.
  size_t table_bytes;
  struct comm_ctl *comms;
  uint64_t *windows;   // [comm][OP_WINDOW]: operation handle, 0 free.
  uint32_t *buckets;   // [comm][FLOW_BUCKETS]: 1 + flow, 0 empty.
  struct op_ctl *ops;
  struct op_link *links;  // [op].
  struct flow_ctl *flows;
  struct proxy_ctl *proxies;
  struct qp_ctl *qps;
  struct transfer_starts *transfer_starts;  // [proxy].
  uint32_t proxy_count;
  uint32_t groups_high;  // Slots below this one have been used.
  uint32_t room_hand;    // Operation slot looked at last for room.
  struct group_slot groups[GROUP_SLOTS];
  struct pool op_pool, flow_pool, proxy_pool, qp_pool;
};

static_assert(offsetof(struct op_ctl, directions) % 8 == 0, "cleared by words");

extern struct shim shim __attribute__((visibility("hidden")));

// shim_active says whether events are taken here and now: tracing has begun and this is not a forked child.
static inline bool shim_active(void) {
  return __atomic_load_n(&shim.open, __ATOMIC_ACQUIRE) != 0 && GET(*shim.alive) != 0;
}

static inline uint64_t shim_now(void) { return clock_now(&shim.clock); }

// shim_refresh does what of the housekeeping is due now and then: a new clock anchor, and a look at the control file.
void shim_refresh(uint64_t now);

// shim_tick does the housekeeping that rides on operation-level events: heartbeat, callback count, shim_refresh.
static inline void shim_tick(uint64_t now, uint32_t callbacks) {
  PUT(shim.file.header->heartbeat_ns, now);
  BUMP(shim.file.header->callbacks, callbacks);
  if (__builtin_expect(clock_due(&shim.clock, now), 0)) shim_refresh(now);
}

static inline void shim_stale(void) {
  if (shim_active()) COUNT(shim.file.header->stale_events, 1);
}
static inline void shim_contended(void) { COUNT(shim.file.header->contended_events, 1); }

// thread_pointer tells threads apart without a system call.
static inline uint64_t thread_pointer(void) {
#if defined(__x86_64__)
  uint64_t p;
  __asm__("mov %%fs:0, %0" : "=r"(p));
  return p;
#else
  return (uint64_t)(uintptr_t)__builtin_thread_pointer();
#endif
}

// shim_map takes private memory of zeros from the system, NULL when there is none. Pages come into being when touched.
void *shim_map(size_t bytes);

// pool_take gives a free slot or NONE; *high is the header's mark of slots ever used.
uint32_t pool_take(struct pool *p, uint32_t *high);
void pool_give(struct pool *p, uint32_t index);

#endif
