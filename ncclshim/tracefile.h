// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The trace file as the writer sees it: made once, at its full size, mapped shared.

#ifndef CULPRIT_TRACEFILE_H
#define CULPRIT_TRACEFILE_H

#include "culprit_trace.h"
#include "profiler_abi.h"
#include "settings.h"
#include "tracedir.h"

#include <stddef.h>
#include <stdint.h>

// Distances between entries: whole cache lines for slots, so that writers of two slots do not slow each other down.
#define COMM_STRIDE 832u
#define OP_STRIDE 192u
#define FLOW_STRIDE 256u
#define QP_STRIDE 192u
#define COMPLETION_STRIDE sizeof(struct culprit_completion)
#define LIFECYCLE_STRIDE sizeof(struct culprit_lifecycle)
#define TRANSFER_STRIDE sizeof(struct culprit_transfer)

static_assert(COMM_STRIDE >= sizeof(struct culprit_comm) && COMM_STRIDE % 64 == 0, "comm stride");
static_assert(OP_STRIDE >= sizeof(struct culprit_op) && OP_STRIDE % 64 == 0, "op stride");
static_assert(QP_STRIDE >= sizeof(struct culprit_qp) && QP_STRIDE % 64 == 0, "qp stride");
static_assert(FLOW_STRIDE >= sizeof(struct culprit_flow) && FLOW_STRIDE % 64 == 0, "flow stride");

struct trace_file {
  int fd;  // Held open with a shared flock for as long as the process lives: who can lock it alone knows us dead.
  struct culprit_header *header;
  unsigned char *comms, *ops, *flows, *completions, *lifecycle, *qps, *transfers;
  uint32_t comm_count, op_count, flow_count, completion_count, lifecycle_count, qp_count, transfer_count;
  uint64_t bytes;
  char path[512];
};

// tracefile_create makes a new file in this user's directory, with identity filled in and every table empty. Returns 0
// or an errno; *doing then says in words what failed.
int tracefile_create(struct trace_file *f, const struct trace_directory *d, const struct settings *s, uint64_t now_ns,
                     uint64_t real_minus_mono_ns, const char **doing);

// tracefile_reap removes files of processes that are gone, were written by this user, and ended more than keep_seconds
// ago, from an open directory. Returns how many.
unsigned tracefile_reap(int directory, uint64_t keep_seconds, uint64_t now_ns);

// random_word is for names that nobody can guess, as far as the kernel has such numbers yet.
uint64_t random_word(uint64_t now_ns);

static inline struct culprit_comm *trace_comm(const struct trace_file *f, uint32_t i) {
  return (struct culprit_comm *)(void *)(f->comms + (size_t)i * COMM_STRIDE);
}
static inline struct culprit_op *trace_op(const struct trace_file *f, uint32_t i) {
  return (struct culprit_op *)(void *)(f->ops + (size_t)i * OP_STRIDE);
}
static inline struct culprit_flow *trace_flow(const struct trace_file *f, uint32_t i) {
  return (struct culprit_flow *)(void *)(f->flows + (size_t)i * FLOW_STRIDE);
}
static inline struct culprit_qp *trace_qp(const struct trace_file *f, uint32_t i) {
  return (struct culprit_qp *)(void *)(f->qps + (size_t)i * QP_STRIDE);
}
static inline struct culprit_completion *trace_completion(const struct trace_file *f, uint64_t n) {
  return (struct culprit_completion *)(void *)(f->completions + (n % f->completion_count) * COMPLETION_STRIDE);
}
static inline struct culprit_lifecycle *trace_lifecycle(const struct trace_file *f, uint64_t n) {
  return (struct culprit_lifecycle *)(void *)(f->lifecycle + (n % f->lifecycle_count) * LIFECYCLE_STRIDE);
}
static inline struct culprit_transfer *trace_transfer(const struct trace_file *f, uint64_t n) {
  return (struct culprit_transfer *)(void *)(f->transfers + (n % f->transfer_count) * TRANSFER_STRIDE);
}

#endif
