// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "hooks.h"

#include "apicomm.h"
#include "comm.h"
#include "group.h"
#include "lifecycle.h"
#include "op.h"
#include "qp.h"
#include "session.h"
#include "shim.h"

#include <unistd.h>

static void call_begin(const char *what, uint64_t id, int nranks, const void *comm) {
  if (!session_open_file()) return;
  const struct apicomm_known known = apicomm_known(comm);
  if (nranks < 0) nranks = known.nranks > 0 ? known.nranks + 1 + nranks : 0;
  const uint64_t size = nranks > 0 ? (uint64_t)nranks : 0;
  lifecycle_note(CULPRIT_LIFE_CALL_BEGIN, shim_now(), comm_find(known.slot), id != 0 ? id : known.id,
                 size << 32 | (uint32_t)gettid(), what);
}

static void call_end(const char *what, uint64_t comm_id, int result) {
  if (!shim_active()) return;
  const uint64_t arg0 = (uint64_t)gettid() << 32 | (uint32_t)result;
  lifecycle_note(CULPRIT_LIFE_CALL_END, shim_now(), NONE, comm_id, arg0, what);
}

static uint64_t group_call(uint64_t group, const struct culprit_api_call *call) {
  if (!shim_active()) return 0;
  const uint32_t comm = comm_find(apicomm_find(call->comm));
  if (comm == NONE) return group;
  const uint64_t now = shim_now();
  if (group == 0) group = group_api_open(now);
  struct group_slot *slot = group_api_find(group);
  if (slot == NULL) {
    COUNT(shim.file.header->dropped_ops, 1);
    return group;
  }
  const struct op_call op = {.func = call->func,
                             .datatype = call->datatype,
                             .count = call->count,
                             .root = call->root,
                             .peer = call->peer,
                             .p2p = call->p2p,
                             .numbered = true};
  group_api_add(slot, op_called(comm, group, GET(slot->first_op), &op, now));
  shim_tick(now, 1);
  return group;
}

static void group_ending(uint64_t group) {
  if (shim_active()) group_api_ending(group, shim_now());
}

static void group_end(uint64_t group, bool accepted) {
  const struct group_slot *slot = group_api_find(group);
  if (!shim_active() || slot == NULL) return;
  const uint64_t now = shim_now();
  handle op = GET(slot->first_op);
  for (uint32_t i = 0; op != 0 && i < shim.file.op_count; i++) op = op_returned(op, !accepted, now);
  group_api_close(group);
}

__attribute__((visibility("default"))) const struct culprit_hooks culprit_hooks = {
    .version = CULPRIT_HOOKS_VERSION,
    .bytes = sizeof(struct culprit_hooks),
    .call_begin = call_begin,
    .call_end = call_end,
    .qp_created = qp_created,
    .qp_changed = qp_changed,
    .qp_destroyed = qp_destroyed,
    .qp_send_posted = qp_send_posted,
    .qp_receive_posted = qp_receive_posted,
    .qp_completed = qp_completed,
    .comm_made = apicomm_made,
    .comm_child = apicomm_child,
    .comm_leaving = apicomm_leaving,
    .comm_gone = apicomm_gone,
    .group_call = group_call,
    .group_ending = group_ending,
    .group_end = group_end,
};
