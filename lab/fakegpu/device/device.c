// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A kernel: its blocks take turns in the stream's thread, so that a kernel that waits costs one thread that mostly sleeps.

#include "device.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../control.h"
#include "../cudart.h"
#include "../log.h"
#include "../symbols.h"
#include "lane.h"
#include "layout.h"
#include "onerank.h"
#include "progress.h"

enum { CHANNELS = 64, YIELDS = 16, WAITED_OVER_SLEEP = 8, SHORT_SLEEP_NS = 20000, LONG_SLEEP_NS = 1000000, PAUSE_LEAST_NS = 200000, FROZEN_SLEEP_NS = 5000000 };

struct running {
  struct block block;
  const char *args;
  size_t args_size;
  int next;            // batch, -1: none
  struct batch batch;  // the current one; no works: none
  size_t work;         // collectives: which of it is being done
  struct progress progress;
  struct lane *lanes;
  int lane_count, lanes_open;
};

struct kernel {
  int gpu;
  const volatile uint32_t *abort;
  struct running *blocks;
  int count, open;
  uint64_t moving_ns;  // CPU time of data movement since the last pause for slowness
};

bool device_open(const char *layout_path, char *why, size_t size) { return layout_open(layout_path, why, size) && functions_open(why, size); }

static bool registered(const struct batch *batch, size_t i) {
  const char *work = work_at(batch, i);
  if (batch->type == WORK_P2P) {
    return layout_get(work, LAYOUT_p2p_sendNetReg) || layout_get(work, LAYOUT_p2p_recvNetReg) || layout_get(work, LAYOUT_p2p_sendIpcReg) ||
           layout_get(work, LAYOUT_p2p_recvIpcReg);
  }
  return layout_get(work, LAYOUT_coll_regUsed) || layout_get(work, LAYOUT_coll_netRegUsed);
}

static bool refuse(const struct running *r, const struct function *f, const char *what) {
  char text[64];
  log_error("NCCL %d, rank %d, channel %d: %s (%s) is not played", nccl_version(), r->block.rank, r->block.channel_id, what, function_text(f, text, sizeof text));
  return false;
}

// The argument of a reduction may lie in device memory.
static void fetch_argument(const struct function *f, char *work) {
  if (!layout_get(work, LAYOUT_coll_redOpArgIsPtr)) return;
  uint64_t value = 0;
  memcpy(&value, layout_pointer(work, LAYOUT_coll_redOpArg), f->op == OP_SUM_POST_DIV ? sizeof value : type_size(f->type));
  layout_set64(work, LAYOUT_coll_redOpArg, value);
}

static bool open_collective(struct running *r, const struct function *f) {
  char *work = (char *)(uintptr_t)work_at(&r->batch, r->work);
  if (registered(&r->batch, r->work)) return refuse(r, f, "an operation on registered buffers");
  fetch_argument(f, work);
  switch (f->algo) {
    case ALGO_RING:
      r->lane_count = ring_lanes(r->lanes, &r->block, f, work);
      break;
    case ALGO_TREE:
      r->lane_count = tree_lanes(r->lanes, &r->block, f, work);
      break;
    case ALGO_PAT:
      r->lane_count = pat_lanes(r->lanes, &r->block, f, work);
      break;
    default:
      return refuse(r, f, "an algorithm");
  }
  return r->lane_count > 0 || refuse(r, f, "an algorithm");
}

static bool open_p2p(struct running *r, const struct function *f) {
  for (size_t i = 0; i < r->batch.count; i++) {
    if (registered(&r->batch, i)) return refuse(r, f, "a transfer of registered buffers");
    r->lane_count += p2p_lanes(r->lanes + r->lane_count, &r->block, work_at(&r->batch, i));
  }
  return true;
}

// Opens the lanes of what the block does next in its batch.
static bool open_lanes(struct running *r) {
  const struct function *f = function_of(r->batch.function);
  size_t most = r->batch.type == WORK_P2P ? r->batch.count * LANES_MAX : LANES_MAX;
  r->lanes = calloc(most, sizeof *r->lanes);
  r->lane_count = 0;
  if (!r->lanes) return refuse(r, f, "an operation without memory");
  bool played;
  if (r->batch.type == WORK_P2P) played = open_p2p(r, f);
  else if (r->batch.type == WORK_BCAST) played = (r->lane_count = bcast_lanes(r->lanes, &r->block, f, &r->batch)) > 0;
  else played = open_collective(r, f);
  r->lanes_open = r->lane_count;
  return played;
}

static void close_lanes(struct running *r) {
  for (int i = 0; i < r->lane_count; i++) lane_close(&r->lanes[i]);
  free(r->lanes);
  r->lanes = NULL;
  r->lane_count = r->lanes_open = 0;
}

static bool open_batch(struct running *r) {
  char why[160], text[64];
  if (!work_load(&r->block, r->args, r->args_size, &r->next, &r->batch, why, sizeof why)) {
    log_error("NCCL %d: %s", nccl_version(), why);
    return false;
  }
  const struct function *f = function_of(r->batch.function);
  if (!f) {
    log_error("NCCL %d: function %d is not in ncclDevFuncRowToId", nccl_version(), r->batch.function);
    return false;
  }
  log_debug("rank %d channel %d: %s, %zu works", r->block.rank, r->block.channel_id, function_text(f, text, sizeof text), r->batch.count);
  progress_begin(&r->progress, &r->block, &r->batch);
  r->work = 0;
  return open_lanes(r);
}

static void close_batch(struct running *r) {
  progress_end(&r->progress, &r->block, &r->batch);
  work_free(&r->batch);
}

// The lanes have ended: on to the next collective of the batch, or to the next batch. False: it cannot be played.
static bool go_on(struct running *r) {
  close_lanes(r);
  bool one_by_one = r->batch.type == WORK_COLL || r->batch.type == WORK_COLL_REG;
  if (one_by_one && ++r->work < r->batch.count) return open_lanes(r);
  close_batch(r);
  return r->next < 0 || open_batch(r);
}

static bool block_ended(const struct running *r) { return !r->batch.works; }

static enum turn block_turn(struct running *r) {
  enum turn turn = TURN_WAIT;
  for (int i = 0; i < r->lane_count; i++) {
    if (!r->lanes[i].turn) continue;
    enum turn lane = lane_turn(&r->lanes[i]);
    if (lane == TURN_DONE) r->lanes_open--;
    if (lane != TURN_WAIT) turn = TURN_MOVED;
  }
  if (turn == TURN_MOVED) progress_move(&r->progress);
  return r->lanes_open == 0 ? TURN_DONE : turn;
}

static void sleep_ns(long ns) { nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL); }

// What a kernel has waited for since a block moved last.
struct wait {
  unsigned turns;
  long slept_ns;
};

// The longer it has waited, the longer it sleeps: what comes is seen an eighth too late at most, and a job that hangs costs little.
static void wait_a_little(struct wait *w) {
  if (w->turns++ < YIELDS) {
    sched_yield();
    return;
  }
  long ns = w->slept_ns / WAITED_OVER_SLEEP;
  if (ns < SHORT_SLEEP_NS) ns = SHORT_SLEEP_NS;
  if (ns > LONG_SLEEP_NS) ns = LONG_SLEEP_NS;
  sleep_ns(ns);
  w->slept_ns += ns;
}

static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// A slow GPU moves data for 1/speed as long: what it takes here is made up for in pauses.
static void slow_down(struct kernel *k, uint64_t begun) {
  double speed = control_speed(k->gpu);
  if (speed >= 1) return;
  k->moving_ns += (uint64_t)((double)(cpu_ns() - begun) * (1 / speed - 1));
  if (k->moving_ns < PAUSE_LEAST_NS) return;
  sleep_ns((long)k->moving_ns);
  k->moving_ns = 0;
}

// One turn of every block. False: the kernel cannot be played.
static bool kernel_turn(struct kernel *k, bool *moved) {
  for (int i = 0; i < k->count; i++) {
    struct running *r = &k->blocks[i];
    if (block_ended(r)) continue;
    enum turn turn = block_turn(r);
    if (turn != TURN_WAIT) *moved = true;
    if (turn != TURN_DONE) continue;
    if (!go_on(r)) return false;
    if (block_ended(r)) k->open--;
  }
  return true;
}

static int run_blocks(struct kernel *k) {
  struct wait wait = {0};
  while (k->open > 0 && !*k->abort) {
    if (control_lost(k->gpu)) return CUDA_DEVICES_UNAVAILABLE;
    if (control_frozen(k->gpu)) {
      sleep_ns(FROZEN_SLEEP_NS);
      continue;
    }
    bool moved = false, slow = control_speed(k->gpu) < 1;
    uint64_t begun = slow ? cpu_ns() : 0;
    if (!kernel_turn(k, &moved)) return CUDA_NOT_SUPPORTED;
    if (slow) slow_down(k, begun);
    if (moved) wait = (struct wait){0};
    else wait_a_little(&wait);
  }
  return CUDA_OK;
}

static bool open_blocks(struct kernel *k, const char *args, size_t size) {
  const char *comm = layout_pointer(args, LAYOUT_args_comm);
  k->abort = layout_pointer(comm, LAYOUT_comm_abortFlag);
  uint64_t mask = layout_get(args, LAYOUT_args_channelMask);
  for (int channel = 0; channel < CHANNELS; channel++) {
    if (!(mask >> channel & 1)) continue;
    struct running *r = &k->blocks[k->count];
    *r = (struct running){.args = args, .args_size = size, .next = k->count};
    k->count++;
    k->open++;
    r->block = (struct block){.comm = comm, .channel_id = channel, .rank = layout_int(comm, LAYOUT_comm_rank), .ranks = layout_int(comm, LAYOUT_comm_nRanks)};
    r->block.channel = layout_at(comm, LAYOUT_commch_channels) + (size_t)channel * layout_size(LAYOUT_STRUCT_channel);
    r->progress = progress_open(&r->block);
    if (!open_batch(r)) return false;
  }
  return true;
}

static void close_blocks(struct kernel *k) {
  for (int i = 0; i < k->count; i++) {
    struct running *r = &k->blocks[i];
    close_lanes(r);
    work_free(&r->batch);
    progress_close(&r->progress, &r->block);
  }
  free(k->blocks);
}

int device_kernel(int gpu, const void *function, const void *args, size_t size) {
  const char *name = symbol_name(function);
  if (onerank_is(name)) return onerank_run(name, args, size);
  if (!strstr(name, "ncclDevKernel")) {
    log_error("NCCL %d: kernel %s is not played", nccl_version(), name);
    return CUDA_NOT_SUPPORTED;
  }
  struct kernel k = {.gpu = gpu, .blocks = calloc(CHANNELS, sizeof *k.blocks)};
  if (!k.blocks) return CUDA_OUT_OF_MEMORY;
  int error = open_blocks(&k, args, size) ? run_blocks(&k) : CUDA_NOT_SUPPORTED;
  close_blocks(&k);
  return error;
}

size_t device_pack(const void *function, void *const *parameters, void *args, size_t size) {
  const char *name = symbol_name(function);
  if (onerank_is(name)) return onerank_pack(parameters, args, size);
  log_error("NCCL %d: kernel %s is not played", nccl_version(), name);
  return 0;
}
