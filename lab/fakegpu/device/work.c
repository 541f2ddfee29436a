// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

enum { STORAGE_ARGS = 0, STORAGE_FIFO = 1, PACK = 16 /* bytes that do not wrap around in a fifo */ };

static size_t struct_size(enum work_type type) {
  static const enum layout_struct structs[] = {
      [WORK_P2P] = LAYOUT_STRUCT_p2p, [WORK_COLL] = LAYOUT_STRUCT_coll, [WORK_COLL_REG] = LAYOUT_STRUCT_collreg, [WORK_BCAST] = LAYOUT_STRUCT_bcast};
  return layout_size(structs[type]);
}

const char *work_at(const struct batch *batch, size_t i) {
  const char *work = batch->works + i * batch->size;
  return batch->type == WORK_COLL_REG ? layout_at(work, LAYOUT_collreg_coll) : work;
}

static void copy_work(char *to, const char *args, size_t offset, size_t size) {
  if (layout_int(args, LAYOUT_args_workStorageType) == STORAGE_ARGS) {
    memcpy(to, args + offset, size);
    return;
  }
  const char *buffer = layout_pointer(args, LAYOUT_args_workBuf);
  for (size_t pack = 0; pack < size; pack += PACK) memcpy(to + pack, buffer + ((offset + pack) & layout_get(args, LAYOUT_args_workMask)), PACK);
}

// Until 2.26 the device tells the host how far it has read the fifo.
static void acknowledge(const struct block *b, const char *args, uint32_t end) {
  if (layout_int(args, LAYOUT_args_workStorageType) != STORAGE_FIFO || !layout_has(LAYOUT_comm_workConsumed)) return;
  uint32_t *consumed = layout_pointer(b->comm, LAYOUT_comm_workConsumed);
  __atomic_store_n(&consumed[b->channel_id], end, __ATOMIC_RELEASE);
}

static bool append(struct batch *batch, const char *args, uint32_t base, uint64_t set) {
  size_t more = (size_t)__builtin_popcountll(set);
  char *works = realloc(batch->works, (batch->count + more) * batch->size);
  if (!works) return false;
  batch->works = works;
  for (; set; set &= set - 1) {
    size_t offset = base + (size_t)__builtin_ctzll(set) * batch->size;
    copy_work(works + batch->count++ * batch->size, args, offset, batch->size);
  }
  return true;
}

bool work_load(const struct block *b, const char *args, size_t args_size, int *next, struct batch *batch, char *why, size_t size) {
  *batch = (struct batch){0};
  for (bool more = true; more;) {
    size_t at = layout_size(LAYOUT_STRUCT_args) + (size_t)*next * layout_size(LAYOUT_STRUCT_batch);
    if (at + layout_size(LAYOUT_STRUCT_batch) > args_size) return snprintf(why, size, "batch %d lies behind the kernel's parameters", *next), false;
    const char *entry = args + at;
    batch->type = (enum work_type)layout_int(entry, LAYOUT_batch_workType);
    batch->function = layout_int(entry, LAYOUT_batch_funcId);
    batch->size = struct_size(batch->type);
    if (!batch->size) return snprintf(why, size, "work of type %d is not in the layout", (int)batch->type), false;
    uint32_t base = (uint32_t)layout_get(entry, LAYOUT_batch_offsetBase);
    uint64_t set = layout_get(entry, LAYOUT_batch_offsetBitset);
    if (!set) return snprintf(why, size, "batch %d is empty", *next), false;
    if (!append(batch, args, base, set)) return snprintf(why, size, "out of memory"), false;
    acknowledge(b, args, base + (uint32_t)(64 - __builtin_clzll(set)) * (uint32_t)batch->size);
    int jump = layout_int(entry, LAYOUT_batch_nextJump);
    more = layout_int(entry, LAYOUT_batch_nextExtends);
    *next = jump ? *next + jump : -1;
  }
  return true;
}

void work_free(struct batch *batch) {
  free(batch->works);
  batch->works = NULL;
}

// Chunk sizes come in grains of bytes.
static size_t grain_bytes(enum protocol proto) { return proto == PROTO_LL ? 16 : proto == PROTO_LL128 ? 1920 : 512; }

struct share work_share(const struct block *b, const char *work, enum protocol proto, size_t type_bytes) {
  size_t lo = layout_get(work, LAYOUT_coll_channelLo), hi = layout_get(work, LAYOUT_coll_channelHi), id = (size_t)b->channel_id;
  size_t of_lo = layout_get(work, LAYOUT_coll_countLo), of_mid = layout_get(work, LAYOUT_coll_countMid), of_hi = layout_get(work, LAYOUT_coll_countHi);
  size_t middles = hi > lo + 1 ? hi - lo - 1 : 0, grains;
  struct share s = {.count = of_lo + of_mid * middles + of_hi};
  if (id == lo) {
    s.mine = of_lo;
    grains = layout_get(work, LAYOUT_coll_chunkGrainsLo);
  } else if (id == hi) {
    s.offset = of_lo + middles * of_mid;
    s.mine = of_hi;
    grains = layout_get(work, LAYOUT_coll_chunkGrainsHi);
  } else {
    s.offset = of_lo + (id - lo - 1) * of_mid;
    s.mine = of_mid;
    grains = layout_get(work, LAYOUT_coll_chunkGrainsMid);
  }
  s.chunk = grains * (grain_bytes(proto) / type_bytes);
  return s;
}
