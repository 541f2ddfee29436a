// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Structs with the names that are looked for, and with everything that makes places hard to tell.

#include <stdint.h>

typedef uint64_t counter;

struct ncclDevComm {  // the other struct of this name
  int64_t unrelated;
};
struct ncclConnFifo {
  int mode, offset;
  long size;
};
struct ncclConnInfo {
  char *buffs[3];
  counter *tail;
  union {
    counter step;
    double as_double;
  };
};
struct ncclDevChannelPeer {
  struct ncclConnInfo send[2];
  struct ncclConnInfo recv[2];
};
struct ncclRing {
  int prev, next;
};
struct ncclTree {
  int depth, up, down[3];
};
struct ncclDevChannel {
  struct ncclDevChannelPeer **peers;
  struct ncclRing ring;
  struct ncclTree tree;
};
struct ncclKernelComm {
  int rank, nRanks;
  struct ncclDevChannel *channels;
};
struct ncclKernelCommAndChannels {
  struct ncclKernelComm comm;
  struct ncclDevChannel channels[4];
};
struct ncclDevKernelArgs {
  struct ncclKernelComm *comm;
  uint64_t channelMask;
};
struct ncclDevWorkBatch {
  union {
    struct {
      uint32_t nextJump : 14, nextExtends : 1, workType : 2, funcId : 15;
    };
    uint32_t flags;
  };
  uint32_t offsetBase;
  uint64_t offsetBitset;
};
struct ncclDevWorkColl {
  uint32_t channelLo : 8, channelHi : 8;
  uint32_t nWarps : 8;
  void *recvbuff, *sendbuff;
  union {
    struct {
      uint64_t countLo, countMid;
      uint64_t grains : 21, : 3, more : 40;
    } cbd;
    struct {
      uint64_t count;
    };
  };
};
struct ncclDevWorkCollReg {
  struct ncclDevWorkColl coll;
  void *dnInputs[2];
};
typedef struct {
  uint8_t low : 3, high : 5;
} nibbles;
struct ncclDevWorkP2p {
  void *sendAddr;
  nibbles unnamed;
  _Bool flag : 1;
};

struct ncclDevComm a;
struct ncclKernelCommAndChannels b;
struct ncclDevKernelArgs c;
struct ncclDevWorkBatch d;
struct ncclDevWorkCollReg e;
struct ncclDevWorkP2p f;
struct ncclConnFifo g;
