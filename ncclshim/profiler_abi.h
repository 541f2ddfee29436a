// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The profiler plugin ABI of NCCL, versions 2 to 7, as far as Culprit uses it. These are our own declarations of the
// published interface; the static asserts at the end hold them to its layout on 64-bit Linux.
//
// A plugin exports one *data* symbol per version, named ncclProfiler_v<N> (CULPRIT_NCCL_SYMBOL), a struct of six fields.
// NCCL looks for the newest version that it knows and goes down; the first symbol found wins.
//
//   version  first NCCL  native in
//   v2       2.24        2.24, 2.25
//   v3       2.26        2.26
//   v4       2.27        2.27
//   v5       2.28        2.28
//   v6       2.29        2.29, 2.30
//   v7       2.31        2.31
//
// An older struct in a newer NCCL is served through a converter inside NCCL, which loses events (nothing but v4 and
// later identifies the communicator there).
//
// Version 7 has the entry points of v6, one more event (CULPRIT_NCCL_KERNEL_PHASE), and descriptors that begin as v6's do:
// a user's tag and the kernel's variant are appended to the members. The shim reads none of these.

#ifndef CULPRIT_PROFILER_ABI_H
#define CULPRIT_PROFILER_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CULPRIT_NCCL_SYMBOL_V2 "ncclProfiler_v2"
#define CULPRIT_NCCL_SYMBOL_V3 "ncclProfiler_v3"
#define CULPRIT_NCCL_SYMBOL_V4 "ncclProfiler_v4"
#define CULPRIT_NCCL_SYMBOL_V5 "ncclProfiler_v5"
#define CULPRIT_NCCL_SYMBOL_V6 "ncclProfiler_v6"
#define CULPRIT_NCCL_SYMBOL_V7 "ncclProfiler_v7"

// ncclResult_t. Every entry point returns one; NCCL unloads the plugin when init fails and ignores the others.
enum culprit_nccl_result {
  CULPRIT_NCCL_SUCCESS = 0,
  CULPRIT_NCCL_UNHANDLED_CUDA_ERROR = 1,
  CULPRIT_NCCL_SYSTEM_ERROR = 2,
  CULPRIT_NCCL_INTERNAL_ERROR = 3,
};

// ncclDebugLogLevel.
enum culprit_nccl_log_level {
  CULPRIT_NCCL_LOG_NONE = 0,
  CULPRIT_NCCL_LOG_VERSION = 1,
  CULPRIT_NCCL_LOG_WARN = 2,
  CULPRIT_NCCL_LOG_INFO = 3,
};

#define CULPRIT_NCCL_SUBSYS_INIT 1ul  // `flags` of the logger: initialisation messages.

// ncclDebugLogger_t. Level and result are C enums without negative values: passed as 32-bit integers.
typedef void (*culprit_nccl_logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

// Event types, also the bits of the activation mask. A bit makes NCCL emit the parents of its event too.
enum culprit_nccl_event {
  CULPRIT_NCCL_GROUP = 1 << 0,
  CULPRIT_NCCL_COLL = 1 << 1,
  CULPRIT_NCCL_P2P = 1 << 2,
  CULPRIT_NCCL_PROXY_OP = 1 << 3,
  CULPRIT_NCCL_PROXY_STEP = 1 << 4,
  CULPRIT_NCCL_PROXY_CTRL = 1 << 5,
  CULPRIT_NCCL_KERNEL_CH = 1 << 6,       // v3 on; delivered natively from v4 on with a GPU timer.
  CULPRIT_NCCL_NET_PLUGIN = 1 << 7,      // v3 on; only in NCCL built with NET_PROFILER=1.
  CULPRIT_NCCL_GROUP_API = 1 << 8,       // v5 on, as are the next three.
  CULPRIT_NCCL_COLL_API = 1 << 9,
  CULPRIT_NCCL_P2P_API = 1 << 10,
  CULPRIT_NCCL_KERNEL_LAUNCH = 1 << 11,
  CULPRIT_NCCL_CE_COLL = 1 << 12,        // v6 on, as are the next two.
  CULPRIT_NCCL_CE_SYNC = 1 << 13,
  CULPRIT_NCCL_CE_BATCH = 1 << 14,
  CULPRIT_NCCL_KERNEL_PHASE = 1 << 15,   // v7.
};

// States of recordEventState.
enum culprit_nccl_state {
  // ProxyOp states of native v1 to v3 (NCCL up to 2.26), with {transSize, steps}.
  CULPRIT_NCCL_PROXY_OP_SEND_POSTED = 0,
  CULPRIT_NCCL_PROXY_OP_SEND_REM_FIFO_WAIT = 1,
  CULPRIT_NCCL_PROXY_OP_SEND_TRANSMITTED = 2,
  CULPRIT_NCCL_PROXY_OP_SEND_DONE = 3,
  CULPRIT_NCCL_PROXY_OP_RECV_POSTED = 4,
  CULPRIT_NCCL_PROXY_OP_RECV_RECEIVED = 5,
  CULPRIT_NCCL_PROXY_OP_RECV_TRANSMITTED = 6,
  CULPRIT_NCCL_PROXY_OP_RECV_DONE = 7,
  // ProxyStep.
  CULPRIT_NCCL_SEND_GPU_WAIT = 8,     // Buffer offered to the GPU, its data awaited.
  CULPRIT_NCCL_SEND_WAIT = 9,         // Accepted by the network, not acknowledged; transSize holds.
  CULPRIT_NCCL_RECV_WAIT = 10,        // Receive posted, data awaited.
  CULPRIT_NCCL_RECV_FLUSH_WAIT = 11,  // Data arrived; transSize holds.
  CULPRIT_NCCL_RECV_GPU_WAIT = 12,    // Given to the GPU, not consumed.
  // ProxyCtrl.
  CULPRIT_NCCL_PROXY_CTRL_IDLE = 13,
  CULPRIT_NCCL_PROXY_CTRL_ACTIVE = 14,
  CULPRIT_NCCL_PROXY_CTRL_SLEEP = 15,
  CULPRIT_NCCL_PROXY_CTRL_WAKEUP = 16,
  CULPRIT_NCCL_PROXY_CTRL_APPEND = 17,
  CULPRIT_NCCL_PROXY_CTRL_APPEND_END = 18,
  // v4 on.
  CULPRIT_NCCL_PROXY_OP_IN_PROGRESS = 19,
  CULPRIT_NCCL_SEND_PEER_WAIT = 20,   // Data ready, the receiver has posted nothing; again at every poll.
  CULPRIT_NCCL_NET_PLUGIN_UPDATE = 21,
  CULPRIT_NCCL_KERNEL_CH_STOP = 22,   // pTimer: the GPU's globaltimer at the end, ns.
  // v5 on.
  CULPRIT_NCCL_GROUP_START_API_STOP = 23,
  CULPRIT_NCCL_GROUP_END_API_START = 24,
};

// Members that are the same in several versions. Offsets in the asserts below are from the start of the descriptor.

// All versions. pid first: an operation proxied for another process (PXN) carries that process' pid, and its `context`
// and `parentObj` are pointers of that process.
struct culprit_nccl_proxy_op {
  pid_t pid;
  uint8_t channelId;
  int peer;       // Rank in the communicator.
  int nSteps;
  int chunkSize;  // Bytes; an upper bound, not the size of a transfer.
  int isSend;     // 0 for CollNet in both directions.
};

struct culprit_nccl_proxy_step {
  int step;  // From 0.
};

struct culprit_nccl_kernel_ch_v3 {
  uint8_t channelId;
};

// v4 on.
struct culprit_nccl_kernel_ch {
  uint8_t channelId;
  uint64_t pTimer;  // The GPU's globaltimer at the start, ns.
};

struct culprit_nccl_net_plugin {
  int64_t id;  // Type << 16 | version of data.
  void *data;
};

// v2 and v3.
struct culprit_nccl_p2p_v2 {
  const char *name;  // Of the communicator.
  uint64_t commHash;
  const char *func;
  void *buff;
  const char *datatype;
  size_t count;
  int peer;
};

struct culprit_nccl_descr_v2 {
  uint8_t type;  // enum culprit_nccl_event.
  void *parentObj;
  int rank;
  union {
    struct {
      const char *name;
      uint64_t commHash;
      uint64_t seqNumber;
      const char *func;
      const void *sendBuff;
      void *recvBuff;
      size_t count;
      int root;
      const char *datatype;
      size_t trafficBytes;
      uint8_t nMaxChannels;
      uint8_t nWarps;
      const char *algo;
      const char *proto;
    } coll;
    struct culprit_nccl_p2p_v2 p2p;
    struct culprit_nccl_proxy_op proxyOp;
    struct culprit_nccl_proxy_step proxyStep;
  };
};

struct culprit_nccl_descr_v3 {
  uint8_t type;
  void *parentObj;
  int rank;
  union {
    struct {
      const char *name;
      uint64_t commHash;
      uint64_t seqNumber;
      const char *func;
      const void *sendBuff;
      void *recvBuff;
      size_t count;
      int root;
      const char *datatype;
      uint8_t nMaxChannels;
      uint8_t nWarps;
      const char *algo;
      const char *proto;
    } coll;
    struct culprit_nccl_p2p_v2 p2p;
    struct culprit_nccl_proxy_op proxyOp;
    struct culprit_nccl_proxy_step proxyStep;
    struct culprit_nccl_kernel_ch_v3 kernelCh;
    struct culprit_nccl_net_plugin netPlugin;
  };
};

struct culprit_nccl_descr_v4 {
  uint8_t type;
  void *parentObj;
  int rank;
  union {
    struct {
      uint64_t seqNumber;  // Per communicator and function, from 0.
      const char *func;    // "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", …
      const void *sendBuff;
      void *recvBuff;
      size_t count;          // AllGather and Broadcast: bytes.
      int root;
      const char *datatype;  // "ncclFloat32", …
      uint8_t nChannels;     // 0 for CollNet and multi-node NVLS.
      uint8_t nWarps;
      const char *algo;      // "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT".
      const char *proto;     // "LL", "LL128", "SIMPLE".
    } coll;
    struct {
      const char *func;  // "Send", "Recv".
      void *buff;
      const char *datatype;
      size_t count;
      int peer;
      uint8_t nChannels;  // Not initialised by the converter of NCCL 2.28 and later.
    } p2p;
    struct culprit_nccl_proxy_op proxyOp;
    struct culprit_nccl_proxy_step proxyStep;
    struct culprit_nccl_kernel_ch kernelCh;
    struct culprit_nccl_net_plugin netPlugin;
  };
};

// v5 on. `rank` is not set for KernelCh, Group and the API events. NCCL leaves the handle variable of an API event as it
// was when the plugin does not write it: always write it.
struct culprit_nccl_group_api {
  bool graphCaptured;
  int groupDepth;
};

struct culprit_nccl_coll_api {
  const char *func;
  size_t count;  // As the user passed it.
  const char *datatype;
  int root;
  void *stream;
  bool graphCaptured;
};

struct culprit_nccl_p2p_api {
  const char *func;
  size_t count;
  const char *datatype;
  void *stream;
  bool graphCaptured;
};

struct culprit_nccl_kernel_launch {
  void *stream;
};

// Coll and p2p of v5 and v6. parentObj is the CollApi/P2pApi handle, parentGroup the Group handle.
struct culprit_nccl_coll_v5 {
  uint64_t seqNumber;
  const char *func;
  const void *sendBuff;
  void *recvBuff;
  size_t count;
  int root;
  const char *datatype;
  uint8_t nChannels;
  uint8_t nWarps;
  const char *algo;
  const char *proto;
  void *parentGroup;
};

struct culprit_nccl_p2p_v5 {
  const char *func;
  void *buff;
  const char *datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
  void *parentGroup;
};

struct culprit_nccl_descr_v5 {
  uint64_t type;
  void *parentObj;
  int rank;
  union {
    struct culprit_nccl_group_api groupApi;
    struct culprit_nccl_coll_api collApi;
    struct culprit_nccl_p2p_api p2pApi;
    struct culprit_nccl_kernel_launch kernelLaunch;
    struct culprit_nccl_coll_v5 coll;
    struct culprit_nccl_p2p_v5 p2p;
    struct culprit_nccl_proxy_op proxyOp;
    struct culprit_nccl_proxy_step proxyStep;
    struct culprit_nccl_kernel_ch kernelCh;
    struct culprit_nccl_net_plugin netPlugin;
  };
};

struct culprit_nccl_descr_v6 {
  uint64_t type;
  void *parentObj;
  int rank;
  union {
    struct culprit_nccl_group_api groupApi;
    struct culprit_nccl_coll_api collApi;
    struct culprit_nccl_p2p_api p2pApi;
    struct culprit_nccl_kernel_launch kernelLaunch;
    struct culprit_nccl_coll_v5 coll;
    struct culprit_nccl_p2p_v5 p2p;
    struct culprit_nccl_proxy_op proxyOp;
    struct culprit_nccl_proxy_step proxyStep;
    struct culprit_nccl_kernel_ch kernelCh;
    struct culprit_nccl_net_plugin netPlugin;
    struct {  // Start and stop bracket the enqueueing only.
      uint64_t seqNumber;
      const char *func;
      const void *sendBuff;
      void *recvBuff;
      size_t count;
      int root;
      const char *datatype;
      const char *syncStrategy;
      bool intraBatchSync;
      uint32_t batchSize;
      uint32_t numBatches;
      uint32_t ceSeqNum;
      void *stream;
    } ceColl;
    struct {
      bool isComplete;
      int nRanks;
    } ceCollSync;
    struct {
      int numOps;
      size_t totalBytes;
      bool useIntraSync;
    } ceCollBatch;
  };
};

// v7 appends to the members of v6. The offsets are those of the debugging information of NCCL 2.31.2 and 2.32.3.
struct culprit_nccl_descr_v7 {
  uint64_t type;
  void *parentObj;
  int rank;
  union {
    struct culprit_nccl_proxy_op proxyOp;
    struct {
      struct culprit_nccl_coll_api as_v6;
      uint64_t userTag;
    } collApi;
    struct {
      struct culprit_nccl_p2p_api as_v6;
      uint64_t userTag;
    } p2pApi;
    struct {
      struct culprit_nccl_coll_v5 as_v6;
      const char *kernelVariant;
      bool isSymColl;
      uint64_t userTag;
    } coll;
    struct {
      struct culprit_nccl_p2p_v5 as_v6;
      uint64_t userTag;
    } p2p;
    struct {
      uint8_t channelId;
      uint8_t phaseId;
      const char *phaseName;
      uint64_t pTimer;  // The GPU's globaltimer, ns.
    } kernelPhase;
  };
};

// Arguments of recordEventState, v1 to v3.
union culprit_nccl_state_args_v2 {
  struct {
    size_t transSize;
    int steps;
  } proxyOp;
  struct {
    int appendedProxyOps;
  } proxyCtrl;
};

// v4 on.
union culprit_nccl_state_args {
  struct {
    size_t transSize;  // Bytes of the transfer.
  } proxyStep;
  struct {
    int appendedProxyOps;
  } proxyCtrl;
  struct {
    void *data;
  } netPlugin;
  struct {
    uint64_t pTimer;
  } kernelCh;
};

// The exported structs. `context` is the plugin's word for the communicator, written by init and handed back. The mask
// behind init's pointer is NCCL's process-wide one: it may be changed later and holds for operations issued from then.
struct culprit_nccl_profiler_v2 {
  const char *name;
  int (*init)(void **context, int *mask);
  int (*startEvent)(void *context, void **handle, struct culprit_nccl_descr_v2 *descr);
  int (*stopEvent)(void *handle);
  int (*recordEventState)(void *handle, int state, union culprit_nccl_state_args_v2 *args);
  int (*finalize)(void *context);
};

struct culprit_nccl_profiler_v3 {
  const char *name;
  int (*init)(void **context, int *mask);
  int (*startEvent)(void *context, void **handle, struct culprit_nccl_descr_v3 *descr);
  int (*stopEvent)(void *handle);
  int (*recordEventState)(void *handle, int state, union culprit_nccl_state_args_v2 *args);
  int (*finalize)(void *context);
};

struct culprit_nccl_profiler_v4 {
  const char *name;
  int (*init)(void **context, int *mask, const char *commName, uint64_t commHash, int nNodes, int nranks, int rank,
              culprit_nccl_logger logger);
  int (*startEvent)(void *context, void **handle, struct culprit_nccl_descr_v4 *descr);
  int (*stopEvent)(void *handle);
  int (*recordEventState)(void *handle, int state, union culprit_nccl_state_args *args);
  int (*finalize)(void *context);
};

struct culprit_nccl_profiler_v5 {
  const char *name;
  int (*init)(void **context, uint64_t commId, int *mask, const char *commName, int nNodes, int nranks, int rank,
              culprit_nccl_logger logger);
  int (*startEvent)(void *context, void **handle, struct culprit_nccl_descr_v5 *descr);
  int (*stopEvent)(void *handle);
  int (*recordEventState)(void *handle, int state, union culprit_nccl_state_args *args);
  int (*finalize)(void *context);
};

struct culprit_nccl_profiler_v6 {
  const char *name;
  int (*init)(void **context, uint64_t commId, int *mask, const char *commName, int nNodes, int nranks, int rank,
              culprit_nccl_logger logger);
  int (*startEvent)(void *context, void **handle, struct culprit_nccl_descr_v6 *descr);
  int (*stopEvent)(void *handle);
  int (*recordEventState)(void *handle, int state, union culprit_nccl_state_args *args);
  int (*finalize)(void *context);
};

// startEvent gets a descriptor that begins as v6's. Some builds look for one more, optional function behind the six: an
// exported struct has NULLs there.
struct culprit_nccl_profiler_v7 {
  struct culprit_nccl_profiler_v6 as_v6;
  void *none[10];
};

// The layout, field by field.
#define CULPRIT_AT(descr, field, offset) static_assert(offsetof(struct descr, field) == (offset), #descr "." #field)

#define CULPRIT_AT_COMMON(descr)                            \
  CULPRIT_AT(descr, type, 0);                               \
  CULPRIT_AT(descr, parentObj, 8);                          \
  CULPRIT_AT(descr, rank, 16);                              \
  CULPRIT_AT(descr, coll, 24);                              \
  CULPRIT_AT(descr, p2p, 24);                               \
  CULPRIT_AT(descr, proxyOp.pid, 24);                       \
  CULPRIT_AT(descr, proxyOp.channelId, 28);                 \
  CULPRIT_AT(descr, proxyOp.peer, 32);                      \
  CULPRIT_AT(descr, proxyOp.nSteps, 36);                    \
  CULPRIT_AT(descr, proxyOp.chunkSize, 40);                 \
  CULPRIT_AT(descr, proxyOp.isSend, 44);                    \
  CULPRIT_AT(descr, proxyStep.step, 24)

#define CULPRIT_AT_COLL_V2(descr)                           \
  CULPRIT_AT(descr, coll.name, 24);                         \
  CULPRIT_AT(descr, coll.commHash, 32);                     \
  CULPRIT_AT(descr, coll.seqNumber, 40);                    \
  CULPRIT_AT(descr, coll.func, 48);                         \
  CULPRIT_AT(descr, coll.sendBuff, 56);                     \
  CULPRIT_AT(descr, coll.recvBuff, 64);                     \
  CULPRIT_AT(descr, coll.count, 72);                        \
  CULPRIT_AT(descr, coll.root, 80);                         \
  CULPRIT_AT(descr, coll.datatype, 88);                     \
  CULPRIT_AT(descr, p2p.name, 24);                          \
  CULPRIT_AT(descr, p2p.commHash, 32);                      \
  CULPRIT_AT(descr, p2p.func, 40);                          \
  CULPRIT_AT(descr, p2p.buff, 48);                          \
  CULPRIT_AT(descr, p2p.datatype, 56);                      \
  CULPRIT_AT(descr, p2p.count, 64);                         \
  CULPRIT_AT(descr, p2p.peer, 72)

#define CULPRIT_AT_COLL_V4(descr)                           \
  CULPRIT_AT(descr, coll.seqNumber, 24);                    \
  CULPRIT_AT(descr, coll.func, 32);                         \
  CULPRIT_AT(descr, coll.sendBuff, 40);                     \
  CULPRIT_AT(descr, coll.recvBuff, 48);                     \
  CULPRIT_AT(descr, coll.count, 56);                        \
  CULPRIT_AT(descr, coll.root, 64);                         \
  CULPRIT_AT(descr, coll.datatype, 72);                     \
  CULPRIT_AT(descr, coll.nChannels, 80);                    \
  CULPRIT_AT(descr, coll.nWarps, 81);                       \
  CULPRIT_AT(descr, coll.algo, 88);                         \
  CULPRIT_AT(descr, coll.proto, 96);                        \
  CULPRIT_AT(descr, p2p.func, 24);                          \
  CULPRIT_AT(descr, p2p.buff, 32);                          \
  CULPRIT_AT(descr, p2p.datatype, 40);                      \
  CULPRIT_AT(descr, p2p.count, 48);                         \
  CULPRIT_AT(descr, p2p.peer, 56);                          \
  CULPRIT_AT(descr, p2p.nChannels, 60);                     \
  CULPRIT_AT(descr, kernelCh.channelId, 24);                \
  CULPRIT_AT(descr, kernelCh.pTimer, 32);                   \
  CULPRIT_AT(descr, netPlugin.id, 24);                      \
  CULPRIT_AT(descr, netPlugin.data, 32)

#define CULPRIT_AT_API(descr)                               \
  CULPRIT_AT(descr, coll.parentGroup, 104);                 \
  CULPRIT_AT(descr, p2p.parentGroup, 64);                   \
  CULPRIT_AT(descr, groupApi.graphCaptured, 24);            \
  CULPRIT_AT(descr, groupApi.groupDepth, 28);               \
  CULPRIT_AT(descr, collApi.func, 24);                      \
  CULPRIT_AT(descr, collApi.count, 32);                     \
  CULPRIT_AT(descr, collApi.datatype, 40);                  \
  CULPRIT_AT(descr, collApi.root, 48);                      \
  CULPRIT_AT(descr, collApi.stream, 56);                    \
  CULPRIT_AT(descr, collApi.graphCaptured, 64);             \
  CULPRIT_AT(descr, p2pApi.func, 24);                       \
  CULPRIT_AT(descr, p2pApi.count, 32);                      \
  CULPRIT_AT(descr, p2pApi.datatype, 40);                   \
  CULPRIT_AT(descr, p2pApi.stream, 48);                     \
  CULPRIT_AT(descr, p2pApi.graphCaptured, 56);              \
  CULPRIT_AT(descr, kernelLaunch.stream, 24)

CULPRIT_AT_COMMON(culprit_nccl_descr_v2);
CULPRIT_AT_COLL_V2(culprit_nccl_descr_v2);
CULPRIT_AT(culprit_nccl_descr_v2, coll.trafficBytes, 96);
CULPRIT_AT(culprit_nccl_descr_v2, coll.nMaxChannels, 104);
CULPRIT_AT(culprit_nccl_descr_v2, coll.nWarps, 105);
CULPRIT_AT(culprit_nccl_descr_v2, coll.algo, 112);
CULPRIT_AT(culprit_nccl_descr_v2, coll.proto, 120);
static_assert(sizeof(struct culprit_nccl_descr_v2) == 128, "descr v2");

CULPRIT_AT_COMMON(culprit_nccl_descr_v3);
CULPRIT_AT_COLL_V2(culprit_nccl_descr_v3);
CULPRIT_AT(culprit_nccl_descr_v3, coll.nMaxChannels, 96);
CULPRIT_AT(culprit_nccl_descr_v3, coll.nWarps, 97);
CULPRIT_AT(culprit_nccl_descr_v3, coll.algo, 104);
CULPRIT_AT(culprit_nccl_descr_v3, coll.proto, 112);
CULPRIT_AT(culprit_nccl_descr_v3, kernelCh.channelId, 24);
CULPRIT_AT(culprit_nccl_descr_v3, netPlugin.id, 24);
CULPRIT_AT(culprit_nccl_descr_v3, netPlugin.data, 32);
static_assert(sizeof(struct culprit_nccl_descr_v3) == 120, "descr v3");

CULPRIT_AT_COMMON(culprit_nccl_descr_v4);
CULPRIT_AT_COLL_V4(culprit_nccl_descr_v4);
static_assert(sizeof(struct culprit_nccl_descr_v4) == 104, "descr v4");

CULPRIT_AT_COMMON(culprit_nccl_descr_v5);
CULPRIT_AT_COLL_V4(culprit_nccl_descr_v5);
CULPRIT_AT_API(culprit_nccl_descr_v5);
static_assert(sizeof(struct culprit_nccl_descr_v5) == 112, "descr v5");

CULPRIT_AT_COMMON(culprit_nccl_descr_v6);
CULPRIT_AT_COLL_V4(culprit_nccl_descr_v6);
CULPRIT_AT_API(culprit_nccl_descr_v6);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.seqNumber, 24);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.func, 32);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.sendBuff, 40);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.recvBuff, 48);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.count, 56);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.root, 64);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.datatype, 72);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.syncStrategy, 80);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.intraBatchSync, 88);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.batchSize, 92);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.numBatches, 96);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.ceSeqNum, 100);
CULPRIT_AT(culprit_nccl_descr_v6, ceColl.stream, 104);
CULPRIT_AT(culprit_nccl_descr_v6, ceCollSync.isComplete, 24);
CULPRIT_AT(culprit_nccl_descr_v6, ceCollSync.nRanks, 28);
CULPRIT_AT(culprit_nccl_descr_v6, ceCollBatch.numOps, 24);
CULPRIT_AT(culprit_nccl_descr_v6, ceCollBatch.totalBytes, 32);
CULPRIT_AT(culprit_nccl_descr_v6, ceCollBatch.useIntraSync, 40);
static_assert(sizeof(struct culprit_nccl_descr_v6) == 112, "descr v6");

CULPRIT_AT(culprit_nccl_descr_v7, collApi.userTag, 72);
CULPRIT_AT(culprit_nccl_descr_v7, p2pApi.userTag, 64);
CULPRIT_AT(culprit_nccl_descr_v7, coll.kernelVariant, 112);
CULPRIT_AT(culprit_nccl_descr_v7, coll.isSymColl, 120);
CULPRIT_AT(culprit_nccl_descr_v7, coll.userTag, 128);
CULPRIT_AT(culprit_nccl_descr_v7, p2p.userTag, 72);
CULPRIT_AT(culprit_nccl_descr_v7, kernelPhase.channelId, 24);
CULPRIT_AT(culprit_nccl_descr_v7, kernelPhase.phaseId, 25);
CULPRIT_AT(culprit_nccl_descr_v7, kernelPhase.phaseName, 32);
CULPRIT_AT(culprit_nccl_descr_v7, kernelPhase.pTimer, 40);
static_assert(sizeof(struct culprit_nccl_descr_v7) == 136, "descr v7");

static_assert(sizeof(union culprit_nccl_state_args_v2) == 16, "state args v2");
static_assert(sizeof(union culprit_nccl_state_args) == 8, "state args v4");

static_assert(offsetof(struct culprit_nccl_profiler_v6, name) == 0, "profiler.name");
static_assert(offsetof(struct culprit_nccl_profiler_v6, init) == 8, "profiler.init");
static_assert(offsetof(struct culprit_nccl_profiler_v6, startEvent) == 16, "profiler.startEvent");
static_assert(offsetof(struct culprit_nccl_profiler_v6, stopEvent) == 24, "profiler.stopEvent");
static_assert(offsetof(struct culprit_nccl_profiler_v6, recordEventState) == 32, "profiler.recordEventState");
static_assert(offsetof(struct culprit_nccl_profiler_v6, finalize) == 40, "profiler.finalize");

#undef CULPRIT_AT
#undef CULPRIT_AT_COMMON
#undef CULPRIT_AT_COLL_V2
#undef CULPRIT_AT_COLL_V4
#undef CULPRIT_AT_API

#endif
