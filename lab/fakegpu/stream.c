// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "capture.h"
#include "control.h"
#include "cudart.h"
#include "node.h"
#include "runtime.h"

enum { NON_BLOCKING = 1, LOOK_FOR_LOSS_NS = 50 * 1000 * 1000 };

// A place in a stream: the first `at` pieces of its work.
struct place {
  struct stream *stream;
  uint64_t at;
};

struct item {
  struct item *next;
  struct op op;
  size_t after_count;
  struct place after[];  // work of other streams that comes first
};

struct stream {
  struct stream *next;  // of all streams
  int refs;             // the handle, the thread, places
  int device, priority;
  unsigned flags;
  bool is_default;
  struct capture *capture;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool started, destroyed;
  struct item *head, **tail;
  uint64_t submitted, done;
  int error;  // the first of its work, sticky as in CUDA
};

// Holds the list of streams, and the order in which work of a default stream and of others was submitted.
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams, *default_streams[NODE_GPUS_MAX];

static struct stream *reference(struct stream *s) {
  __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
  return s;
}

static void release(struct stream *s) {
  if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->changed);
  free(s);
}

static void wait_place(struct place p) {
  pthread_mutex_lock(&p.stream->lock);
  while (p.stream->done < p.at) pthread_cond_wait(&p.stream->changed, &p.stream->lock);
  pthread_mutex_unlock(&p.stream->lock);
}

static int run_item(struct item *item, int error) {
  for (size_t i = 0; i < item->after_count; i++) {
    wait_place(item->after[i]);
    release(item->after[i].stream);
  }
  if (!error) error = item->op.run(item->op.arg);
  if (item->op.release) item->op.release(item->op.arg);
  free(item);
  return error;
}

static void *work(void *arg) {
  struct stream *s = arg;
  pthread_setname_np(pthread_self(), "fakegpu-stream");
  cudaSetDevice(s->device);
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (!s->head && !s->destroyed) pthread_cond_wait(&s->changed, &s->lock);
    if (!s->head) break;
    struct item *item = s->head;
    s->head = item->next;
    if (!s->head) s->tail = &s->head;
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    error = run_item(item, error);
    pthread_mutex_lock(&s->lock);
    if (!s->error) s->error = error;
    s->done++;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
  release(s);
  return NULL;
}

static struct stream *stream_new(int device, unsigned flags, int priority) {
  struct stream *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->refs = 1;
  s->device = device, s->flags = flags, s->priority = priority;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  s->tail = &s->head;
  s->next = streams;
  return streams = s;
}

struct stream *stream_of(struct stream *handle) {
  if ((uintptr_t)handle > 2) return handle;
  int device = runtime_device();
  pthread_mutex_lock(&order);
  struct stream *s = default_streams[device];
  if (!s && (s = stream_new(device, 0, 0))) s->is_default = true, default_streams[device] = s;
  pthread_mutex_unlock(&order);
  if (!s) abort();
  return s;
}

int stream_gpu(const struct stream *s) { return node_gpu_of_device(s->device); }
struct capture *stream_capture(struct stream *s) { return __atomic_load_n(&s->capture, __ATOMIC_ACQUIRE); }
void stream_set_capture(struct stream *s, struct capture *c) { __atomic_store_n(&s->capture, c, __ATOMIC_RELEASE); }

static struct place last_place(struct stream *s) {
  pthread_mutex_lock(&s->lock);
  struct place p = {s, s->submitted};
  if (s->done == s->submitted) p.stream = NULL;
  else reference(s);
  pthread_mutex_unlock(&s->lock);
  return p;
}

// The default stream's work comes after what other streams have, and theirs after its; streams made as non-blocking stand apart.
// The caller holds order.
static struct item *item_new(const struct stream *s, struct op op) {
  size_t most = 0;
  for (struct stream *other = streams; other && !(s->flags & NON_BLOCKING); other = other->next) most++;
  struct item *item = calloc(1, sizeof *item + most * sizeof *item->after);
  if (!item) abort();
  item->op = op;
  if (s->flags & NON_BLOCKING) return item;
  for (struct stream *other = streams; other; other = other->next) {
    if (other == s || other->device != s->device || (other->flags & NON_BLOCKING) || other->is_default == s->is_default) continue;
    struct place p = last_place(other);
    if (p.stream) item->after[item->after_count++] = p;
  }
  return item;
}

static void start(struct stream *s) {
  pthread_t thread;
  s->started = true;
  reference(s);
  if (pthread_create(&thread, NULL, work, s)) abort();
  pthread_detach(thread);
}

static void enqueue(struct stream *s, struct op op) {
  pthread_mutex_lock(&order);
  struct item *item = item_new(s, op);
  pthread_mutex_lock(&s->lock);
  if (!s->started) start(s);
  *s->tail = item;
  s->tail = &item->next;
  s->submitted++;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  pthread_mutex_unlock(&order);
}

int stream_submit(struct stream *handle, struct op op) {
  struct stream *s = stream_of(handle);
  int error = CUDA_OK;
  if (stream_capture(s)) error = capture_add(s, op);
  else if (control_lost(stream_gpu(s))) error = CUDA_DEVICES_UNAVAILABLE;
  else enqueue(s, op);
  if (error && op.release) op.release(op.arg);
  return error;
}

static int error_of(struct stream *s) {
  pthread_mutex_lock(&s->lock);
  int error = s->error;
  pthread_mutex_unlock(&s->lock);
  return error ? error : control_lost(stream_gpu(s)) ? CUDA_DEVICES_UNAVAILABLE : CUDA_OK;
}

// As wait_place, but gives up when the GPU is lost: its work never ends.
static void wait_place_or_loss(struct place p) {
  pthread_mutex_lock(&p.stream->lock);
  while (p.stream->done < p.at && !control_lost(stream_gpu(p.stream))) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_FOR_LOSS_NS;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&p.stream->changed, &p.stream->lock, &until);
  }
  pthread_mutex_unlock(&p.stream->lock);
}

int stream_synchronize(struct stream *handle) {
  struct stream *s = stream_of(handle);
  if (stream_capture(s)) return capture_forbid(s);
  struct place p = last_place(s);
  if (p.stream) wait_place_or_loss(p), release(p.stream);
  return error_of(s);
}

int stream_synchronize_device(int device) {
  size_t count = 0, most = 0;
  pthread_mutex_lock(&order);
  for (struct stream *s = streams; s; s = s->next) most++;
  struct stream **own = calloc(most + 1, sizeof(struct stream *));
  if (!own) abort();
  for (struct stream *s = streams; s; s = s->next) {
    if (s->device == device && !stream_capture(s)) own[count++] = reference(s);
  }
  pthread_mutex_unlock(&order);
  int error = CUDA_OK;
  for (size_t i = 0; i < count; i++) {
    int e = stream_synchronize(own[i]);
    if (!error) error = e;
    release(own[i]);
  }
  free(own);
  return error;
}

int cudaStreamCreateWithPriority(struct stream **s, unsigned flags, int priority) {
  int least, greatest;
  cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (priority > least) priority = least;
  if (priority < greatest) priority = greatest;
  pthread_mutex_lock(&order);
  *s = stream_new(runtime_device(), flags, priority);
  pthread_mutex_unlock(&order);
  return *s ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

int cudaStreamCreateWithFlags(struct stream **s, unsigned flags) { return cudaStreamCreateWithPriority(s, flags, 0); }
int cudaStreamCreate(struct stream **s) { return cudaStreamCreateWithPriority(s, 0, 0); }

// Work that it has is still done.
int cudaStreamDestroy(struct stream *s) {
  if ((uintptr_t)s <= 2) return CUDA_INVALID_HANDLE;
  if (stream_capture(s)) capture_leave(s);
  pthread_mutex_lock(&order);
  struct stream **at = &streams;
  while (*at && *at != s) at = &(*at)->next;
  if (*at) *at = s->next;
  pthread_mutex_unlock(&order);
  pthread_mutex_lock(&s->lock);
  s->destroyed = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  release(s);
  return CUDA_OK;
}

int cudaStreamSynchronize(struct stream *s) { return stream_synchronize(s); }
int cudaDeviceSynchronize(void) { return stream_synchronize_device(runtime_device()); }
int cudaStreamGetPriority(struct stream *s, int *priority) { return *priority = stream_of(s)->priority, CUDA_OK; }
int cudaStreamGetFlags(struct stream *s, unsigned *flags) { return *flags = stream_of(s)->flags, CUDA_OK; }
int cudaStreamGetDevice(struct stream *s, int *device) { return *device = stream_of(s)->device, CUDA_OK; }
int cudaStreamGetId(struct stream *s, unsigned long long *id) { return *id = (uintptr_t)stream_of(s), CUDA_OK; }

int cudaStreamQuery(struct stream *handle) {
  struct stream *s = stream_of(handle);
  if (stream_capture(s)) return capture_forbid(s);
  struct place p = last_place(s);
  if (!p.stream) return error_of(s);
  release(p.stream);
  return CUDA_NOT_READY;
}

struct call {
  void (*function)(void *);
  void *arg;
};

static int run_call(void *arg) {
  struct call *c = arg;
  c->function(c->arg);
  return CUDA_OK;
}

int cudaLaunchHostFunc(struct stream *s, void (*function)(void *), void *arg) {
  struct call *c = malloc(sizeof *c);
  if (!c) return CUDA_OUT_OF_MEMORY;
  *c = (struct call){function, arg};
  return stream_submit(s, (struct op){run_call, free, c});
}
