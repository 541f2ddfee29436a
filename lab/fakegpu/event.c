// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "event.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "capture.h"
#include "cudart.h"
#include "stream.h"

enum { EXTERNAL = 1 };  // flag of a record or wait that becomes a node of a graph

struct point {
  int refs;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool reached;
  uint64_t at_ns;  // monotonic
};

struct event {
  int refs;
  pthread_mutex_t lock;
  struct point *point;
  struct captured_place captured;  // of the last record, when a graph is being captured
};

struct point *point_new(void) {
  struct point *p = calloc(1, sizeof *p);
  if (!p) abort();
  p->refs = 1;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->changed, NULL);
  return p;
}

struct point *point_reference(struct point *p) {
  if (p) __atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
  return p;
}

void point_release(struct point *p) {
  if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->changed);
  free(p);
}

void point_reach(struct point *p) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  pthread_mutex_lock(&p->lock);
  p->reached = true;
  p->at_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
}

void point_wait(struct point *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  while (!p->reached) pthread_cond_wait(&p->changed, &p->lock);
  pthread_mutex_unlock(&p->lock);
}

// When the point was reached, 0 if it was not yet.
static uint64_t reached_at(struct point *p) {
  pthread_mutex_lock(&p->lock);
  uint64_t at = p->reached ? p->at_ns : 0;
  pthread_mutex_unlock(&p->lock);
  return at;
}

struct event *event_reference(struct event *e) {
  __atomic_fetch_add(&e->refs, 1, __ATOMIC_RELAXED);
  return e;
}

void event_release(struct event *e) {
  if (__atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  point_release(e->point);
  captured_place_clear(&e->captured);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

struct point *event_point(struct event *e) {
  pthread_mutex_lock(&e->lock);
  struct point *p = point_reference(e->point);
  pthread_mutex_unlock(&e->lock);
  return p;
}

void event_set_point(struct event *e, struct point *point) {
  pthread_mutex_lock(&e->lock);
  point_release(e->point);
  e->point = point;
  captured_place_clear(&e->captured);
  pthread_mutex_unlock(&e->lock);
}

int cudaEventCreateWithFlags(struct event **event, unsigned flags) {
  (void)flags;
  struct event *e = calloc(1, sizeof *e);
  if (!e) return CUDA_OUT_OF_MEMORY;
  e->refs = 1;
  pthread_mutex_init(&e->lock, NULL);
  return *event = e, CUDA_OK;
}

int cudaEventCreate(struct event **event) { return cudaEventCreateWithFlags(event, 0); }
int cudaEventDestroy(struct event *e) { return event_release(e), CUDA_OK; }

static int run_reach(void *arg) { return point_reach(arg), CUDA_OK; }
static int run_wait(void *arg) { return point_wait(arg), CUDA_OK; }
static void release_point(void *arg) { point_release(arg); }

// A stream with an error, or of a lost GPU, skips its work: whoever waits for the point must not wait for ever.
static void release_reached(void *arg) {
  struct point *p = arg;
  if (!reached_at(p)) point_reach(p);
  point_release(p);
}

int cudaEventRecordWithFlags(struct event *e, struct stream *handle, unsigned flags) {
  struct stream *s = stream_of(handle);
  if (stream_capture(s) && (flags & EXTERNAL)) return capture_add_record(s, e);
  if (stream_capture(s)) {
    pthread_mutex_lock(&e->lock);
    int error = capture_record(s, &e->captured);
    pthread_mutex_unlock(&e->lock);
    return error;
  }
  struct point *p = point_new();
  event_set_point(e, point_reference(p));
  return stream_submit(s, (struct op){run_reach, release_reached, p});
}

int cudaEventRecord(struct event *e, struct stream *s) { return cudaEventRecordWithFlags(e, s, 0); }

int cudaStreamWaitEvent(struct stream *handle, struct event *e, unsigned flags) {
  struct stream *s = stream_of(handle);
  if (stream_capture(s) && (flags & EXTERNAL)) return capture_add_wait(s, e);
  pthread_mutex_lock(&e->lock);
  if (e->captured.capture_id) {
    int error = capture_join(s, &e->captured);
    pthread_mutex_unlock(&e->lock);
    return error;
  }
  struct point *p = point_reference(e->point);
  pthread_mutex_unlock(&e->lock);
  if (!p) return CUDA_OK;
  if (stream_capture(s)) return point_release(p), capture_isolation(s);
  return stream_submit(s, (struct op){run_wait, release_point, p});
}

int cudaEventQuery(struct event *e) {
  struct point *p = event_point(e);
  bool done = !p || reached_at(p);
  point_release(p);
  return done ? CUDA_OK : CUDA_NOT_READY;
}

int cudaEventSynchronize(struct event *e) {
  struct point *p = event_point(e);
  point_wait(p);
  point_release(p);
  return CUDA_OK;
}

int cudaEventElapsedTime(float *ms, struct event *from, struct event *to) {
  struct point *a = event_point(from), *b = event_point(to);
  int error = a && b ? CUDA_OK : CUDA_INVALID_HANDLE;
  uint64_t begin = a ? reached_at(a) : 0, end = b ? reached_at(b) : 0;
  if (!error && (!begin || !end)) error = CUDA_NOT_READY;
  if (!error) *ms = (float)((double)(int64_t)(end - begin) / 1e6);
  point_release(a);
  point_release(b);
  return error;
}
