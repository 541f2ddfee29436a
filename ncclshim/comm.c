// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "comm.h"

#include "flow.h"
#include "gpu.h"
#include "identity.h"
#include "lifecycle.h"
#include "op.h"

#include <string.h>
#include <unistd.h>

// p2p_numbers makes room for the send/recv numbers of a communicator. An earlier, smaller table of the slot is left
// behind: a late callback may still hold it, and sizes grow by doubling, so what is lost stays below what is in use.
static void p2p_numbers(struct comm_ctl *c, int32_t nranks) {
  const uint32_t peers = nranks > 0 ? (uint32_t)nranks : 1024;
  uint32_t room = 256;  // A page.
  while (room < peers && room < (1u << 24)) room *= 2;
  if (c->p2p_seq == NULL || c->p2p_peers < room) {
    uint64_t *fresh = shim_map((size_t)room * 2 * sizeof *fresh);
    if (fresh == NULL) {
      c->p2p_peers = 0;
      return;
    }
    c->p2p_seq = fresh;
    c->p2p_peers = room;
  } else {
    memset(c->p2p_seq, 0, (size_t)c->p2p_peers * 2 * sizeof *c->p2p_seq);
  }
}

static uint32_t take_slot(void) {
  // A slot that was never used first: finalized communicators stay readable as long as there is room.
  uint32_t oldest = NONE;
  uint64_t oldest_ns = UINT64_MAX;
  for (uint32_t i = 0; i < shim.file.comm_count; i++) {
    if (GET(shim.comms[i].in_use) != 0) continue;
    if (shim.comms[i].generation == 0) return i;
    const uint64_t ended = GET(trace_comm(&shim.file, i)->destroyed_ns);
    if (ended < oldest_ns) {
      oldest_ns = ended;
      oldest = i;
    }
  }
  return oldest;
}

// put_gpu tells ranks apart that share the process.
static void put_gpu(struct culprit_comm *s, int32_t device) {
  char uuid[sizeof s->gpu_uuid] = "", pci_bus_id[sizeof s->gpu_pci_bus_id] = "";
  gpu_describe(device, uuid, sizeof uuid, pci_bus_id, sizeof pci_bus_id);
  PUT(s->device, device);
  PUT(s->gpu_index, identity_gpu_index(device));
  put_text(s->gpu_uuid, uuid, sizeof s->gpu_uuid);
  put_text(s->gpu_pci_bus_id, pci_bus_id, sizeof s->gpu_pci_bus_id);
}

handle comm_open(const struct comm_info *info, uint64_t now) {
  const uint32_t i = take_slot();
  if (i == NONE) {
    COUNT(shim.file.header->dropped_comms, 1);
    lifecycle_dropped(CULPRIT_SECTION_COMMS, now);
    return 0;
  }
  struct comm_ctl *c = &shim.comms[i];
  const uint32_t generation = c->generation + 1;
  uint64_t *p2p_seq = c->p2p_seq;
  const uint32_t p2p_peers = c->p2p_peers;
  memset(c, 0, sizeof *c);
  c->p2p_seq = p2p_seq;
  c->p2p_peers = p2p_peers;
  p2p_numbers(c, info->nranks);
  PUT(c->generation, generation);
  c->abi = info->abi;
  c->comm_id = info->comm_id;
  c->nranks = info->nranks;
  c->rank = info->rank;
  c->nnodes = info->nnodes;
  c->kernel_on = info->kernel_on;
  c->untrusted_from = UINT64_MAX;
  PUT(c->identified, info->comm_id != 0);

  struct culprit_comm *s = trace_comm(&shim.file, i);
  if (!seqlock_take(&s->version)) {  // Only a damaged file gets here: nobody else writes a free slot.
    COUNT(shim.file.header->dropped_comms, 1);
    return 0;
  }
  put_zero((unsigned char *)s + 8, sizeof *s - 8);
  PUT(s->generation, generation);
  PUT(s->in_use, 1);
  PUT(s->flags, (info->kernel_on ? CULPRIT_COMM_HAS_KERNELCH : 0) | (info->abi >= 5 || info->abi == 0 ? CULPRIT_COMM_HAS_API : 0));
  PUT(s->comm_id, info->comm_id);
  PUT(s->nranks, info->nranks);
  PUT(s->rank, info->rank);
  PUT(s->nnodes, info->nnodes);
  put_text(s->name, info->name, sizeof s->name);
  put_gpu(s, info->device);
  PUT(s->created_ns, now);
  seqlock_release(&s->version);

  if (GET(shim.file.header->comms_high) < i + 1) PUT(shim.file.header->comms_high, i + 1);
  __atomic_store_n(&c->in_use, 1, __ATOMIC_RELEASE);
  lifecycle_note(CULPRIT_LIFE_COMM_CREATED, now, i, info->comm_id, (uint64_t)(uint32_t)info->nranks, info->name);
  return handle_make(HANDLE_COMM, shim.cookie, generation, i, 0);
}

void comm_close(handle h, uint64_t now) {
  const uint32_t i = comm_find(h);
  if (i == NONE) return;
  struct comm_ctl *c = &shim.comms[i];
  __atomic_store_n(&c->in_use, 0, __ATOMIC_SEQ_CST);  // From here on its context is stale.
  flow_release_all(i, now);
  op_abandon_all(i, now);

  struct culprit_comm *s = trace_comm(&shim.file, i);
  if (seqlock_take(&s->version)) {
    PUT(s->in_use, 0);
    __atomic_fetch_or(&s->flags, CULPRIT_COMM_FINALIZED, __ATOMIC_RELAXED);
    PUT(s->destroyed_ns, now);
    seqlock_release(&s->version);
  }
  lifecycle_note(CULPRIT_LIFE_COMM_DESTROYED, now, i, c->comm_id, 0, NULL);
}

void comm_identify(uint32_t comm, uint64_t comm_id, const char *name, int32_t rank) {
  struct comm_ctl *c = &shim.comms[comm];
  if (comm_id == 0 || __atomic_exchange_n(&c->identified, 1, __ATOMIC_RELAXED) != 0) return;
  c->comm_id = comm_id;
  c->rank = rank;
  struct culprit_comm *s = trace_comm(&shim.file, comm);
  if (!seqlock_take(&s->version)) {
    PUT(c->identified, 0);
    return;
  }
  PUT(s->comm_id, comm_id);
  PUT(s->rank, rank);
  put_text(s->name, name, sizeof s->name);
  seqlock_release(&s->version);
}

bool comm_distrust_kernel(uint32_t comm, uint64_t from, uint64_t now, const char *why) {
  struct comm_ctl *c = &shim.comms[comm];
  uint64_t trusted = UINT64_MAX;
  if (c->kernel_on == 0 ||
      !__atomic_compare_exchange_n(&c->untrusted_from, &trusted, from, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    return false;
  }
  __atomic_fetch_or(&trace_comm(&shim.file, comm)->flags, CULPRIT_COMM_KERNEL_UNTRUSTED, __ATOMIC_RELAXED);
  lifecycle_note(CULPRIT_LIFE_DISTRUST, now, comm, c->comm_id, CULPRIT_COMM_KERNEL_UNTRUSTED, why);
  return true;
}

// note_thread looks the id up when the thread is another than last time, and now and then in case a new thread lives
// where an ended one did.
static void note_thread(uint64_t *known, uint32_t *epoch, uint32_t *slot) {
  const uint64_t self = thread_pointer();
  const uint32_t current = GET(shim.thread_epoch);
  if (GET(*known) == self && GET(*epoch) == current) return;
  PUT(*known, self);
  PUT(*epoch, current);
  PUT(*slot, (uint32_t)gettid());
}

void comm_user_thread(uint32_t comm) {
  struct comm_ctl *c = &shim.comms[comm];
  note_thread(&c->user_thread, &c->user_thread_epoch, &trace_comm(&shim.file, comm)->user_tid);
}

void comm_proxied(uint32_t comm) {
  struct comm_ctl *c = &shim.comms[comm];
  if (GET(c->has_proxy) == 0) {
    PUT(c->has_proxy, 1);
    __atomic_fetch_or(&trace_comm(&shim.file, comm)->flags, CULPRIT_COMM_HAS_PROXY, __ATOMIC_RELAXED);
  }
  note_thread(&c->proxy_thread, &c->proxy_thread_epoch, &trace_comm(&shim.file, comm)->proxy_tid);
}

#define P2P_PATH_SHIFT 62u
#define P2P_SEQ_MASK ((UINT64_C(1) << P2P_PATH_SHIFT) - 1)

// p2p_word gives the word of (communicator, peer, direction), NULL when there is none.
static uint64_t *p2p_word(uint32_t comm, int32_t peer, bool is_send) {
  struct comm_ctl *c = &shim.comms[comm];
  if (peer < 0 || (uint32_t)peer >= c->p2p_peers) return NULL;
  return &c->p2p_seq[(size_t)peer * 2 + (is_send ? 1 : 0)];
}

uint64_t comm_p2p_seq(uint32_t comm, int32_t peer, bool is_send) {
  uint64_t *word = p2p_word(comm, peer, is_send);
  return word == NULL ? 0 : __atomic_fetch_add(word, 1, __ATOMIC_RELAXED) & P2P_SEQ_MASK;
}

enum p2p_path comm_p2p_path(uint32_t comm, int32_t peer, bool is_send) {
  const uint64_t *word = p2p_word(comm, peer, is_send);
  const uint64_t path = word == NULL ? 0 : GET(*word) >> P2P_PATH_SHIFT;
  return (path & P2P_PROXIED) != 0 ? P2P_PROXIED : (enum p2p_path)path;
}

void comm_p2p_learn(uint32_t comm, int32_t peer, bool is_send, enum p2p_path path) {
  uint64_t *word = p2p_word(comm, peer, is_send);
  if (word == NULL || (GET(*word) >> P2P_PATH_SHIFT & path) != 0) return;
  __atomic_fetch_or(word, (uint64_t)path << P2P_PATH_SHIFT, __ATOMIC_RELAXED);
}

void comm_learn(uint32_t comm, uint32_t key, uint32_t proxy_ops) {
  struct learned *l = &shim.comms[comm].learned[key % LEARNED];
  __atomic_store_n(&l->both, (uint64_t)key << 32 | proxy_ops, __ATOMIC_RELAXED);
}
