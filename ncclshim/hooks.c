// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "hooks.h"

#include "lifecycle.h"
#include "qp.h"
#include "session.h"
#include "shim.h"

#include <unistd.h>

static void call_begin(const char *what, uint64_t comm_id) {
  if (!session_open_file()) return;
  lifecycle_note(CULPRIT_LIFE_CALL_BEGIN, shim_now(), NONE, comm_id, (uint64_t)gettid(), what);
}

static void call_end(const char *what, uint64_t comm_id, int result) {
  if (!shim_active()) return;
  const uint64_t arg0 = (uint64_t)gettid() << 32 | (uint32_t)result;
  lifecycle_note(CULPRIT_LIFE_CALL_END, shim_now(), NONE, comm_id, arg0, what);
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
};
