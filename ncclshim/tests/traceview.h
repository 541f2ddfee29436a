// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Reads a trace file by its documented layout, as any reader would.

#ifndef CULPRIT_TESTS_TRACEVIEW_H
#define CULPRIT_TESTS_TRACEVIEW_H

#include "../culprit_trace.h"

#include <stdbool.h>

struct view {
  const unsigned char *base;
  size_t bytes;
  const struct culprit_header *header;
  char path[512];
};

// view_open maps the only trace file in the case's directory; a failed check when there is none or more.
struct view view_open(void);
struct view view_open_in(const char *directory);
struct view view_open_file(const char *path);
// view_files counts the trace files in the case's directory.
unsigned view_files(void);

const struct culprit_section *view_section(const struct view *v, uint32_t kind);

// The following copy one entry. Slots: false when it did not hold still. Rings: false when record n is not there.
bool view_comm(const struct view *v, uint32_t i, struct culprit_comm *out);
bool view_op(const struct view *v, uint32_t i, struct culprit_op *out);
bool view_flow(const struct view *v, uint32_t i, struct culprit_flow *out);
bool view_completion(const struct view *v, uint64_t n, struct culprit_completion *out);
bool view_lifecycle(const struct view *v, uint64_t n, struct culprit_lifecycle *out);

// view_find_op finds a live operation by its number, view_find_flow a live flow by its key.
bool view_find_op(const struct view *v, uint64_t comm_id, uint64_t number, struct culprit_op *out);
bool view_find_flow(const struct view *v, uint64_t comm_id, int channel, int is_send, int peer, struct culprit_flow *out);
unsigned view_live_ops(const struct view *v);
unsigned view_live_flows(const struct view *v);
uint64_t view_head(const struct view *v, size_t offset);  // A counter of the header, by offsetof.
bool view_has_lifecycle(const struct view *v, uint32_t kind, uint64_t arg0);

#define VIEW_HEAD(v, field) view_head(v, offsetof(struct culprit_header, field))

#endif
