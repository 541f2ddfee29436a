// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Where the members of NCCL's device-side structs lie in the loaded library, from the layout file that nccl-layout makes of its
// debug information. One source serves all versions: a member that a version does not have is missing from its file.

#ifndef FAKEGPU_DEVICE_LAYOUT_H
#define FAKEGPU_DEVICE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Members that every version has.
#define LAYOUT_REQUIRED(X)                                                                                                \
  X(args, comm) X(args, channelMask) X(args, workStorageType) X(args, workMask) X(args, workBuf)                          \
  X(batch, nextJump) X(batch, nextExtends) X(batch, workType) X(batch, funcId) X(batch, offsetBase)                       \
  X(batch, offsetBitset)                                                                                                  \
  X(comm, rank) X(comm, nRanks) X(comm, buffSizes) X(comm, p2pChunkSize) X(comm, abortFlag) X(commch, channels)           \
  X(channel, peers) X(channel, ring) X(channel, tree)                                                                     \
  X(tree, up) X(tree, down) X(ring, prev) X(ring, next) X(ring, userRanks) X(ring, index)                                 \
  X(peer, send) X(peer, recv)                                                                                             \
  X(conn, buffs) X(conn, tail) X(conn, head) X(conn, stepSize) X(conn, connFifo) X(conn, step)                            \
  X(fifo, mode) X(fifo, offset) X(fifo, size)                                                                             \
  X(coll, channelLo) X(coll, channelHi) X(coll, root) X(coll, recvbuff) X(coll, sendbuff) X(coll, countLo)                \
  X(coll, countMid) X(coll, countHi) X(coll, chunkGrainsLo) X(coll, chunkGrainsMid) X(coll, chunkGrainsHi)                \
  X(coll, redOpArg) X(coll, redOpArgIsPtr) X(coll, regUsed) X(coll, netRegUsed) X(collreg, coll)                          \
  X(p2p, sendAddr) X(p2p, recvAddr) X(p2p, sendBytes) X(p2p, recvBytes) X(p2p, sendRank) X(p2p, recvRank)                 \
  X(p2p, nP2pChannels) X(p2p, channelBase) X(p2p, nSendChannels) X(p2p, nRecvChannels)                                    \
  X(p2p, sendChunkSize_u32fp8) X(p2p, recvChunkSize_u32fp8) X(p2p, sendProtoLL) X(p2p, recvProtoLL)                       \
  X(p2p, sendNetReg) X(p2p, recvNetReg) X(p2p, sendIpcReg) X(p2p, recvIpcReg)

// Members of some versions: work that is taken from a fifo is acknowledged until 2.26; the profiler's counters come with 2.26,
// their phases with 2.31, the progress counters with 2.32; broadcasts in a batch of their own come with 2.29.
#define LAYOUT_OPTIONAL(X)                                                                                                \
  X(comm, workConsumed) X(comm, workStarted) X(comm, workCompleted) X(comm, workPhases) X(comm, progressCounters)         \
  X(channel, workCounter) X(coll, profilerEnabled) X(p2p, profilerEnabled)                                                \
  X(bcast, ringDepth) X(bcast, chunkSize) X(bcast, sendbuff) X(bcast, recvbuff) X(bcast, bytes)

#define LAYOUT_STRUCTS(X) X(args) X(batch) X(comm) X(commch) X(channel) X(tree) X(ring) X(peer) X(conn) X(fifo) X(coll) X(collreg) X(p2p) X(bcast)

#define LAYOUT_MEMBER_ID(s, m) LAYOUT_##s##_##m,
enum layout_member { LAYOUT_REQUIRED(LAYOUT_MEMBER_ID) LAYOUT_OPTIONAL(LAYOUT_MEMBER_ID) LAYOUT_MEMBER_COUNT };
#undef LAYOUT_MEMBER_ID
#define LAYOUT_STRUCT_ID(s) LAYOUT_STRUCT_##s,
enum layout_struct { LAYOUT_STRUCTS(LAYOUT_STRUCT_ID) LAYOUT_STRUCT_COUNT };
#undef LAYOUT_STRUCT_ID

// False: why names the file or the first required member that it lacks.
bool layout_open(const char *path, char *why, size_t size);

bool layout_has(enum layout_member member);
size_t layout_size(enum layout_struct which);  // bytes; 0: this version has no such struct

// The member of the struct at p: its address, its value, its value as a pointer and as an int.
char *layout_at(const void *p, enum layout_member member);
uint64_t layout_get(const void *p, enum layout_member member);
void *layout_pointer(const void *p, enum layout_member member);
int layout_int(const void *p, enum layout_member member);
void layout_set64(void *p, enum layout_member member, uint64_t value);

// Element i of a member that is an array of ints.
int layout_int_at(const void *p, enum layout_member member, int i);

#endif
