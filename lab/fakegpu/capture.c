// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "capture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cudart.h"
#include "event.h"
#include "graph.h"

enum { STATUS_NONE, STATUS_ACTIVE, STATUS_INVALID };
enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };

// A stream's part of a capture.
struct member {
  struct member *next;
  struct stream *stream;
  struct graph_node **nodes;
  size_t count;
};

struct capture {
  struct capture *next;  // of those that go on
  uint64_t id;
  int mode;
  bool invalid;
  pthread_t thread;
  struct stream *origin;
  struct graph *graph;
  struct member *members;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static uint64_t ids;
static __thread int thread_mode = MODE_GLOBAL;

static void set_nodes(struct graph_node ***nodes, size_t *count, struct graph_node *const *from, size_t n) {
  struct graph_node **copy = malloc((n + 1) * sizeof(struct graph_node *));
  if (!copy) abort();
  if (n) memcpy(copy, from, n * sizeof(struct graph_node *));
  free(*nodes);
  *nodes = copy;
  *count = n;
}

void captured_place_clear(struct captured_place *place) {
  free(place->nodes);
  *place = (struct captured_place){0};
}

static struct member *member_of(struct capture *c, struct stream *s) {
  for (struct member *m = c->members; m; m = m->next) {
    if (m->stream == s) return m;
  }
  return NULL;
}

static struct member *join(struct capture *c, struct stream *s) {
  struct member *m = calloc(1, sizeof *m);
  if (!m) abort();
  m->stream = s;
  set_nodes(&m->nodes, &m->count, NULL, 0);
  m->next = c->members;
  c->members = m;
  stream_set_capture(s, c);
  return m;
}

// The stream's part, with the lock held; NULL, without it, when the capture ended meanwhile or is invalid.
static struct member *begin(struct stream *s) {
  pthread_mutex_lock(&lock);
  struct capture *c = stream_capture(s);
  if (c && !c->invalid) return member_of(c, s);
  pthread_mutex_unlock(&lock);
  return NULL;
}

static int end(struct member *m, struct graph_node *node) {
  if (node) set_nodes(&m->nodes, &m->count, &node, 1);
  pthread_mutex_unlock(&lock);
  return node ? CUDA_OK : CUDA_CAPTURE_INVALIDATED;
}

int capture_add(struct stream *s, struct op op) {
  struct member *m = begin(s);
  return m ? end(m, graph_add_work(stream_capture(s)->graph, m->nodes, m->count, op)) : CUDA_CAPTURE_INVALIDATED;
}

int capture_add_record(struct stream *s, struct event *e) {
  struct member *m = begin(s);
  return m ? end(m, graph_add_record(stream_capture(s)->graph, m->nodes, m->count, e)) : CUDA_CAPTURE_INVALIDATED;
}

int capture_add_wait(struct stream *s, struct event *e) {
  struct member *m = begin(s);
  return m ? end(m, graph_add_wait(stream_capture(s)->graph, m->nodes, m->count, e)) : CUDA_CAPTURE_INVALIDATED;
}

int capture_record(struct stream *s, struct captured_place *place) {
  struct member *m = begin(s);
  if (!m) return CUDA_CAPTURE_INVALIDATED;
  set_nodes(&place->nodes, &place->count, m->nodes, m->count);
  place->capture_id = stream_capture(s)->id;
  pthread_mutex_unlock(&lock);
  return CUDA_OK;
}

static int join_locked(struct stream *s, const struct captured_place *place) {
  struct capture *c = captures, *own = stream_capture(s);
  while (c && c->id != place->capture_id) c = c->next;
  if (!c) return CUDA_CAPTURED_EVENT;
  if (c->invalid) return CUDA_CAPTURE_INVALIDATED;
  if (own && own != c) return CUDA_CAPTURE_MERGE;
  struct member *m = own ? member_of(c, s) : join(c, s);
  size_t n = m->count;
  struct graph_node **all = malloc((n + place->count + 1) * sizeof(struct graph_node *));
  if (!all) abort();
  if (n) memcpy(all, m->nodes, n * sizeof(struct graph_node *));
  for (size_t i = 0; i < place->count; i++) {
    if (!graph_is_before(place->nodes[i], all, n)) all[n++] = place->nodes[i];
  }
  set_nodes(&m->nodes, &m->count, all, n);
  free(all);
  return CUDA_OK;
}

int capture_join(struct stream *s, const struct captured_place *place) {
  pthread_mutex_lock(&lock);
  int error = join_locked(s, place);
  pthread_mutex_unlock(&lock);
  return error;
}

static void leave_locked(struct capture *c, struct stream *s) {
  struct member **at = &c->members;
  while (*at && (*at)->stream != s) at = &(*at)->next;
  struct member *m = *at;
  if (!m) return;
  *at = m->next;
  stream_set_capture(s, NULL);
  free(m->nodes);
  free(m);
}

void capture_leave(struct stream *s) {
  pthread_mutex_lock(&lock);
  struct capture *c = stream_capture(s);
  if (c) leave_locked(c, s);
  if (c && c->origin == s) c->origin = NULL, c->invalid = true;
  pthread_mutex_unlock(&lock);
}

static int invalidate(struct stream *s, int error) {
  pthread_mutex_lock(&lock);
  struct capture *c = stream_capture(s);
  if (c) c->invalid = true;
  pthread_mutex_unlock(&lock);
  return error;
}

int capture_forbid(struct stream *s) { return invalidate(s, CUDA_CAPTURE_UNSUPPORTED); }
int capture_isolation(struct stream *s) { return invalidate(s, CUDA_CAPTURE_ISOLATION); }

int cudaStreamBeginCapture(struct stream *handle, int mode) {
  if ((uintptr_t)handle <= 1) return CUDA_CAPTURE_UNSUPPORTED;  // the legacy default stream cannot be captured
  struct stream *s = stream_of(handle);
  pthread_mutex_lock(&lock);
  int error = stream_capture(s) ? CUDA_ILLEGAL_STATE : CUDA_OK;
  if (!error) {
    struct capture *c = calloc(1, sizeof *c);
    if (!c) abort();
    *c = (struct capture){captures, ++ids, mode, false, pthread_self(), s, graph_new(), NULL};
    captures = c;
    join(c, s);
  }
  pthread_mutex_unlock(&lock);
  return error;
}

// Work that other streams captured must lead back to the stream that began.
static bool joined(const struct capture *c, const struct member *origin) {
  for (const struct member *m = c->members; m; m = m->next) {
    for (size_t i = 0; m != origin && i < m->count; i++) {
      if (!graph_is_manual(m->nodes[i]) && !graph_is_before(m->nodes[i], origin->nodes, origin->count)) return false;
    }
  }
  return true;
}

// The graph is given out on an error, too: the caller frees it without the lock.
static int end_locked(struct stream *s, struct graph **graph) {
  struct capture *c = stream_capture(s);
  if (!c) return CUDA_ILLEGAL_STATE;
  if (c->origin != s) return CUDA_CAPTURE_UNMATCHED;
  if (c->mode != MODE_RELAXED && !pthread_equal(c->thread, pthread_self())) return CUDA_CAPTURE_WRONG_THREAD;
  int error = c->invalid ? CUDA_CAPTURE_INVALIDATED : joined(c, member_of(c, s)) ? CUDA_OK : CUDA_CAPTURE_UNJOINED;
  while (c->members) leave_locked(c, c->members->stream);
  struct capture **at = &captures;
  while (*at != c) at = &(*at)->next;
  *at = c->next;
  *graph = c->graph;
  free(c);
  return error;
}

int cudaStreamEndCapture(struct stream *handle, struct graph **graph) {
  *graph = NULL;
  pthread_mutex_lock(&lock);
  int error = end_locked(stream_of(handle), graph);
  pthread_mutex_unlock(&lock);
  if (error && *graph) graph_release(*graph), *graph = NULL;
  return error;
}

static int info(struct stream *handle, int *status, unsigned long long *id, struct graph **graph, struct graph_node *const **nodes, size_t *count) {
  struct stream *s = stream_of(handle);
  pthread_mutex_lock(&lock);
  struct capture *c = stream_capture(s);
  *status = !c ? STATUS_NONE : c->invalid ? STATUS_INVALID : STATUS_ACTIVE;
  if (*status == STATUS_ACTIVE) {
    struct member *m = member_of(c, s);
    if (id) *id = c->id;
    if (graph) *graph = c->graph;
    if (nodes) *nodes = m->nodes;
    if (count) *count = m->count;
  }
  pthread_mutex_unlock(&lock);
  return CUDA_OK;
}

int cudaStreamIsCapturing(struct stream *s, int *status) { return info(s, status, NULL, NULL, NULL, NULL); }
int cudaStreamGetCaptureInfo(struct stream *s, int *status, unsigned long long *id) { return info(s, status, id, NULL, NULL, NULL); }
int cudaStreamGetCaptureInfo_v2(struct stream *s, int *status, unsigned long long *id, struct graph **graph, struct graph_node *const **nodes, size_t *count) {
  return info(s, status, id, graph, nodes, count);
}
// No edge has data here.
int cudaStreamGetCaptureInfo_v3(struct stream *s, int *status, unsigned long long *id, struct graph **graph, struct graph_node *const **nodes, const void **edges,
                                size_t *count) {
  if (edges) *edges = NULL;
  return info(s, status, id, graph, nodes, count);
}

int cudaStreamUpdateCaptureDependencies(struct stream *handle, struct graph_node *const *nodes, size_t count, unsigned flags) {
  enum { SET = 1 };
  struct stream *s = stream_of(handle);
  struct member *m = stream_capture(s) ? begin(s) : NULL;
  if (!m) return CUDA_ILLEGAL_STATE;
  if (flags & SET) {
    set_nodes(&m->nodes, &m->count, nodes, count);
  } else {
    struct captured_place more = {stream_capture(s)->id, (struct graph_node **)(uintptr_t)nodes, count};
    join_locked(s, &more);
  }
  pthread_mutex_unlock(&lock);
  return CUDA_OK;
}

int cudaStreamUpdateCaptureDependencies_v2(struct stream *s, struct graph_node *const *nodes, const void *edges, size_t count, unsigned flags) {
  return (void)edges, cudaStreamUpdateCaptureDependencies(s, nodes, count, flags);
}

// Which calls a capture forbids to other threads is not played: the mode is only kept.
int cudaThreadExchangeStreamCaptureMode(int *mode) {
  int was = thread_mode;
  thread_mode = *mode;
  *mode = was;
  return CUDA_OK;
}
