// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "graph.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cudart.h"
#include "event.h"
#include "node.h"

enum kind { NODE_WORK, NODE_RECORD, NODE_WAIT };

struct graph_node {
  struct graph *graph;
  enum kind kind;
  bool manual;
  size_t index;  // in the graph
  struct op op;
  struct event *event;
  size_t after_count;
  struct graph_node **after;
};

// Something of the program that lives as long as the graphs that use it.
struct user_object {
  int refs;
  void (*destroy)(void *);
  void *arg;
};

struct held {
  struct held *next;
  struct user_object *object;
  unsigned count;
};

// An executable graph is a reference to the graph, which does not change any more then.
struct graph {
  int refs;
  bool instantiated;
  pthread_mutex_t running;  // launches of one graph come one after the other
  size_t count, room;
  struct graph_node **nodes;
  struct held *held;
};

struct graph *graph_new(void) {
  struct graph *g = calloc(1, sizeof *g);
  if (!g) abort();
  g->refs = 1;
  pthread_mutex_init(&g->running, NULL);
  return g;
}

struct graph *graph_reference(struct graph *g) {
  __atomic_fetch_add(&g->refs, 1, __ATOMIC_RELAXED);
  return g;
}

static void object_release(struct user_object *o, unsigned count) {
  if (__atomic_sub_fetch(&o->refs, (int)count, __ATOMIC_ACQ_REL) > 0) return;
  o->destroy(o->arg);
  free(o);
}

static void node_free(struct graph_node *n) {
  if (n->op.release) n->op.release(n->op.arg);
  if (n->event) event_release(n->event);
  free(n->after);
  free(n);
}

void graph_release(struct graph *g) {
  if (__atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  for (size_t i = 0; i < g->count; i++) node_free(g->nodes[i]);
  for (struct held *h = g->held, *next; h; h = next) {
    next = h->next;
    object_release(h->object, h->count);
    free(h);
  }
  pthread_mutex_destroy(&g->running);
  free(g->nodes);
  free(g);
}

static void add_after(struct graph_node *n, struct graph_node *after) {
  for (size_t i = 0; i < n->after_count; i++) {
    if (n->after[i] == after) return;
  }
  n->after = realloc(n->after, (n->after_count + 1) * sizeof(struct graph_node *));
  if (!n->after) abort();
  n->after[n->after_count++] = after;
}

static struct graph_node *add(struct graph *g, struct graph_node *const *after, size_t count, enum kind kind) {
  if (g->instantiated) return NULL;
  if (g->count == g->room) {
    g->room = g->room ? 2 * g->room : 16;
    g->nodes = realloc(g->nodes, g->room * sizeof(struct graph_node *));
  }
  struct graph_node *n = calloc(1, sizeof *n);
  if (!g->nodes || !n) abort();
  n->graph = g;
  n->kind = kind;
  n->index = g->count;
  for (size_t i = 0; i < count; i++) add_after(n, after[i]);
  return g->nodes[g->count++] = n;
}

struct graph_node *graph_add_work(struct graph *g, struct graph_node *const *after, size_t count, struct op op) {
  struct graph_node *n = add(g, after, count, NODE_WORK);
  if (n) n->op = op;
  return n;
}

struct graph_node *graph_add_record(struct graph *g, struct graph_node *const *after, size_t count, struct event *event) {
  struct graph_node *n = add(g, after, count, NODE_RECORD);
  if (n) n->event = event_reference(event);
  return n;
}

struct graph_node *graph_add_wait(struct graph *g, struct graph_node *const *after, size_t count, struct event *event) {
  struct graph_node *n = add(g, after, count, NODE_WAIT);
  if (n) n->event = event_reference(event);
  return n;
}

bool graph_is_manual(const struct graph_node *n) { return n->manual; }

// Where branches part and meet again and again, the ways double each time: each node is looked at once.
static bool search(const struct graph_node *node, struct graph_node *const *of, size_t count, bool *seen) {
  for (size_t i = 0; i < count; i++) {
    if (of[i] == node) return true;
    if (seen[of[i]->index]) continue;
    seen[of[i]->index] = true;
    if (search(node, of[i]->after, of[i]->after_count, seen)) return true;
  }
  return false;
}

bool graph_is_before(const struct graph_node *node, struct graph_node *const *of, size_t count) {
  bool *seen = calloc(node->graph->count, sizeof *seen);
  if (!seen) abort();
  bool before = search(node, of, count, seen);
  free(seen);
  return before;
}

// One launch.
struct launch {
  struct graph *graph;
  struct point **points;  // of records and waits, by node
  size_t *left;           // nodes that come before a node and have not ended
  pthread_mutex_t lock;
  pthread_cond_t changed;
  size_t ended;
  int error;
};

struct branch {
  struct launch *launch;
  struct graph_node *node;
};

static int run_node(struct launch *l, struct graph_node *n) {
  struct point *p = l->points[n->index];
  if (n->kind == NODE_RECORD) return point_reach(p), CUDA_OK;
  if (n->kind == NODE_WAIT) return point_wait(p), CUDA_OK;
  return n->op.run(n->op.arg);
}

static void *run_branch(void *arg);

static void start_branch(struct launch *l, struct graph_node *n) {
  struct branch *b = malloc(sizeof *b);
  pthread_t thread;
  if (!b) abort();
  *b = (struct branch){l, n};
  if (pthread_create(&thread, NULL, run_branch, b)) abort();
  pthread_detach(thread);
}

static bool comes_after(const struct graph_node *n, const struct graph_node *before) {
  for (size_t i = 0; i < n->after_count; i++) {
    if (n->after[i] == before) return true;
  }
  return false;
}

// Goes on with the nodes that have nothing to wait for now: one here, others in threads of their own.
static struct graph_node *end_node(struct launch *l, const struct graph_node *n, int error) {
  struct graph_node *next = NULL;
  pthread_mutex_lock(&l->lock);
  if (error && !l->error) __atomic_store_n(&l->error, error, __ATOMIC_RELAXED);
  for (size_t i = 0; i < l->graph->count; i++) {
    struct graph_node *other = l->graph->nodes[i];
    if (!comes_after(other, n) || --l->left[i] > 0) continue;
    if (next) start_branch(l, other);
    else next = other;
  }
  l->ended++;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  return next;
}

static void *run_branch(void *arg) {
  struct branch b = *(struct branch *)arg;
  free(arg);
  while (b.node) {
    // After an error nothing more runs, but points are reached: others may wait for them.
    bool run = !__atomic_load_n(&b.launch->error, __ATOMIC_RELAXED) || b.node->kind == NODE_RECORD;
    b.node = end_node(b.launch, b.node, run ? run_node(b.launch, b.node) : CUDA_OK);
  }
  return NULL;
}

static int run_launch(void *arg) {
  struct launch *l = arg;
  pthread_mutex_lock(&l->graph->running);
  for (size_t i = 0; i < l->graph->count; i++) {
    if (l->graph->nodes[i]->after_count == 0) start_branch(l, l->graph->nodes[i]);
  }
  pthread_mutex_lock(&l->lock);
  while (l->ended < l->graph->count) pthread_cond_wait(&l->changed, &l->lock);
  pthread_mutex_unlock(&l->lock);
  pthread_mutex_unlock(&l->graph->running);
  return l->error;
}

static void release_launch(void *arg) {
  struct launch *l = arg;
  for (size_t i = 0; i < l->graph->count; i++) {
    if (l->graph->nodes[i]->kind == NODE_RECORD) point_reach(l->points[i]);  // the stream may have skipped the launch
    point_release(l->points[i]);
  }
  graph_release(l->graph);
  pthread_mutex_destroy(&l->lock);
  pthread_cond_destroy(&l->changed);
  free(l->points);
  free(l->left);
  free(l);
}

int cudaGraphLaunch(struct graph *g, struct stream *stream) {
  if (stream_capture(stream_of(stream))) return CUDA_CAPTURE_UNSUPPORTED;  // child graphs are not played
  struct launch *l = calloc(1, sizeof *l);
  if (!l) return CUDA_OUT_OF_MEMORY;
  l->graph = graph_reference(g);
  l->points = calloc(g->count + 1, sizeof(struct point *));
  l->left = calloc(g->count + 1, sizeof *l->left);
  if (!l->points || !l->left) abort();
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->changed, NULL);
  for (size_t i = 0; i < g->count; i++) {
    struct graph_node *n = g->nodes[i];
    l->left[i] = n->after_count;
    if (n->kind == NODE_WAIT) l->points[i] = event_point(n->event);
  }
  for (size_t i = 0; i < g->count; i++) {
    if (g->nodes[i]->kind != NODE_RECORD) continue;
    l->points[i] = point_new();
    event_set_point(g->nodes[i]->event, point_reference(l->points[i]));
  }
  return stream_submit(stream, (struct op){run_launch, release_launch, l});
}

int cudaGraphCreate(struct graph **g, unsigned flags) { return (void)flags, *g = graph_new(), CUDA_OK; }
int cudaGraphDestroy(struct graph *g) { return graph_release(g), CUDA_OK; }
int cudaGraphExecDestroy(struct graph *g) { return graph_release(g), CUDA_OK; }

int cudaGraphInstantiate(struct graph **exec, struct graph *g, unsigned long long flags) {
  (void)flags;
  g->instantiated = true;
  *exec = graph_reference(g);
  return CUDA_OK;
}
int cudaGraphInstantiateWithFlags(struct graph **exec, struct graph *g, unsigned long long flags) { return cudaGraphInstantiate(exec, g, flags); }

int cudaGraphUpload(struct graph *exec, struct stream *stream) { return (void)exec, (void)stream, CUDA_OK; }

int cudaGraphGetNodes(struct graph *g, struct graph_node **nodes, size_t *count) {
  if (nodes) memcpy(nodes, g->nodes, (*count < g->count ? *count : g->count) * sizeof(struct graph_node *));
  return *count = g->count, CUDA_OK;
}

int cudaGraphAddEventRecordNode(struct graph_node **node, struct graph *g, struct graph_node *const *after, size_t count, struct event *event) {
  *node = graph_add_record(g, after, count, event);
  if (*node) (*node)->manual = true;
  return *node ? CUDA_OK : CUDA_NOT_SUPPORTED;
}

int cudaGraphAddEventWaitNode(struct graph_node **node, struct graph *g, struct graph_node *const *after, size_t count, struct event *event) {
  *node = graph_add_wait(g, after, count, event);
  if (*node) (*node)->manual = true;
  return *node ? CUDA_OK : CUDA_NOT_SUPPORTED;
}

struct host_node {  // as CUDA's cudaHostNodeParams
  void (*function)(void *);
  void *arg;
};

static int run_host(void *arg) {
  const struct host_node *h = arg;
  h->function(h->arg);
  return CUDA_OK;
}

int cudaGraphAddHostNode(struct graph_node **node, struct graph *g, struct graph_node *const *after, size_t count, const struct host_node *params) {
  struct host_node *h = malloc(sizeof *h);
  if (!h) return CUDA_OUT_OF_MEMORY;
  *h = *params;
  *node = graph_add_work(g, after, count, (struct op){run_host, free, h});
  if (!*node) return free(h), CUDA_NOT_SUPPORTED;
  (*node)->manual = true;
  return CUDA_OK;
}

int cudaGraphAddDependencies(struct graph *g, struct graph_node *const *from, struct graph_node *const *to, size_t count) {
  if (g->instantiated) return CUDA_NOT_SUPPORTED;
  for (size_t i = 0; i < count; i++) add_after(to[i], from[i]);
  return CUDA_OK;
}

int cudaGraphAddDependencies_v2(struct graph *g, struct graph_node *const *from, struct graph_node *const *to, const void *edges, size_t count) {
  return (void)edges, cudaGraphAddDependencies(g, from, to, count);
}

int cudaUserObjectCreate(struct user_object **object, void *arg, void (*destroy)(void *), unsigned count, unsigned flags) {
  (void)flags;
  struct user_object *o = malloc(sizeof *o);
  if (!o) return CUDA_OUT_OF_MEMORY;
  *o = (struct user_object){(int)count, destroy, arg};
  return *object = o, CUDA_OK;
}

int cudaUserObjectRetain(struct user_object *o, unsigned count) { return __atomic_fetch_add(&o->refs, (int)count, __ATOMIC_RELAXED), CUDA_OK; }
int cudaUserObjectRelease(struct user_object *o, unsigned count) { return object_release(o, count), CUDA_OK; }

int cudaGraphRetainUserObject(struct graph *g, struct user_object *o, unsigned count, unsigned flags) {
  enum { MOVE = 1 };
  struct held *h = malloc(sizeof *h);
  if (!h) return CUDA_OUT_OF_MEMORY;
  if (!(flags & MOVE)) cudaUserObjectRetain(o, count);
  *h = (struct held){g->held, o, count};
  g->held = h;
  return CUDA_OK;
}

int cudaGraphReleaseUserObject(struct graph *g, struct user_object *o, unsigned count) {
  for (struct held **at = &g->held; *at; at = &(*at)->next) {
    struct held *h = *at;
    if (h->object != o || h->count < count) continue;
    h->count -= count;
    if (h->count == 0) *at = h->next, free(h);
    return object_release(o, count), CUDA_OK;
  }
  return CUDA_INVALID_VALUE;
}
