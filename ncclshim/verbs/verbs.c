// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// libculprit-ibverbs.so stands before libibverbs and reports queue pairs, their peers, posts and completions to the plugin.
//
// NCCL looks libibverbs' functions up by dlvsym on the library's own handle, so a plain preload is passed by. Two ways in:
//   NCCL_IBVERBS_LIB=/path/libculprit-ibverbs.so   NCCL 2.30.3 and later
//   LD_PRELOAD=/path/libculprit-ibverbs.so         before: its SONAME is libibverbs.so, the first name that NCCL opens
// The functions defined here are found in this library, the rest in libibverbs.so.1, which it depends on. Posting and
// polling go through function pointers in the device context: those are redirected when its first queue pair is made.

#include "../hooks.h"
#include "verbs_abi.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

#define CONTEXTS 64u
#define QPS 8192u  // Places for queue pairs.

struct context_entry {
  struct verbs_context *context;
  int (*poll_cq)(struct verbs_cq *cq, int entries, struct verbs_wc *wc);
  int (*post_send)(struct verbs_qp *qp, struct verbs_send_wr *wr, struct verbs_send_wr **bad);
  int (*post_recv)(struct verbs_qp *qp, struct verbs_recv_wr *wr, struct verbs_recv_wr **bad);
};

// A queue pair that is destroyed leaves GONE, for the next one that comes this way.
struct qp_entry {
  uint64_t key;
  uint64_t handle;
  bool signal_all;
};

enum { FREE = 0, GONE = 1 };  // Keys that are no queue pair's: never used, given up.

static struct {
  pthread_mutex_t lock;  // For making and destroying.
  struct context_entry contexts[CONTEXTS];
  struct qp_entry qps[QPS];
} verbs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *real(const char *name) {
  void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return NULL;
  void *found = dlvsym(library, name, VERBS_VERSION);
  dlclose(library);  // It stays: this library depends on it.
  return found;
}

static struct context_entry *find_context(const struct verbs_context *context) {
  for (unsigned i = 0; i < CONTEXTS; i++) {
    const struct verbs_context *at = __atomic_load_n(&verbs.contexts[i].context, __ATOMIC_ACQUIRE);
    if (at == context) return &verbs.contexts[i];
    if (at == NULL) return NULL;
  }
  return NULL;
}

// key_of names a queue pair by the place of its context and its number.
static uint64_t key_of(const struct context_entry *c, uint32_t qp_num) {
  return (uint64_t)(c - verbs.contexts + 1) << 32 | qp_num;
}

static uint64_t place_of(uint64_t key) { return key * 0x9e3779b97f4a7c15u >> 40; }

static struct qp_entry *find_qp(const struct context_entry *c, uint32_t qp_num) {
  if (c == NULL) return NULL;
  const uint64_t key = key_of(c, qp_num);
  for (uint64_t i = 0, at = place_of(key); i < QPS; i++, at++) {
    struct qp_entry *e = &verbs.qps[at % QPS];
    const uint64_t found = __atomic_load_n(&e->key, __ATOMIC_ACQUIRE);
    if (found == key) return e;
    if (found == FREE) return NULL;
  }
  return NULL;
}

static uint64_t handle_of(const struct qp_entry *e) { return e == NULL ? 0 : __atomic_load_n(&e->handle, __ATOMIC_ACQUIRE); }

static int post_send(struct verbs_qp *qp, struct verbs_send_wr *first, struct verbs_send_wr **bad) {
  const struct context_entry *c = find_context(qp->context);
  const struct qp_entry *e = find_qp(c, qp->qp_num);
  const uint64_t handle = handle_of(e);
  if (handle != 0) {
    // Noted before it happens: its completion may be polled by another thread at once.
    for (const struct verbs_send_wr *wr = first; wr != NULL; wr = wr->next) {
      uint64_t bytes = 0;
      for (int32_t i = 0; i < wr->num_sge; i++) bytes += wr->sg_list[i].length;
      culprit_hooks.qp_send_posted(handle, bytes, e->signal_all || (wr->send_flags & VERBS_SEND_SIGNALED) != 0);
    }
  }
  return c->post_send(qp, first, bad);
}

static int post_recv(struct verbs_qp *qp, struct verbs_recv_wr *first, struct verbs_recv_wr **bad) {
  const struct context_entry *c = find_context(qp->context);
  const uint64_t handle = handle_of(find_qp(c, qp->qp_num));
  if (handle != 0) {
    for (const struct verbs_recv_wr *wr = first; wr != NULL; wr = wr->next) culprit_hooks.qp_receive_posted(handle);
  }
  return c->post_recv(qp, first, bad);
}

static int poll_cq(struct verbs_cq *cq, int entries, struct verbs_wc *wc) {
  const struct context_entry *c = find_context(cq->context);
  const int n = c->poll_cq(cq, entries, wc);
  for (int i = 0; i < n; i++) {
    const uint64_t handle = handle_of(find_qp(c, wc[i].qp_num));
    if (handle == 0) continue;
    const bool receive = wc[i].status == 0 && (wc[i].opcode & VERBS_WC_RECV) != 0;
    culprit_hooks.qp_completed(handle, receive, wc[i].status);
  }
  return n;
}

// redirect puts our functions into a context, once; false when there is no place to keep its own. A context that was closed
// and another opened at its address has functions of its own again.
static bool redirect(struct verbs_context *context) {
  if (context->post_send == post_send) return true;
  struct context_entry *e = find_context(context);
  if (e == NULL) {
    for (unsigned i = 0; i < CONTEXTS && e == NULL; i++) {
      if (verbs.contexts[i].context == NULL) e = &verbs.contexts[i];
    }
  }
  if (e == NULL) return false;
  e->poll_cq = context->poll_cq;
  e->post_send = context->post_send;
  e->post_recv = context->post_recv;
  __atomic_store_n(&e->context, context, __ATOMIC_RELEASE);
  __atomic_store_n(&context->poll_cq, poll_cq, __ATOMIC_RELEASE);
  __atomic_store_n(&context->post_send, post_send, __ATOMIC_RELEASE);
  __atomic_store_n(&context->post_recv, post_recv, __ATOMIC_RELEASE);
  return true;
}

// remember gives a queue pair a place; the caller holds the lock. Where its number comes again, the earlier one is gone.
static void remember(const struct verbs_qp *qp, bool signal_all) {
  const struct context_entry *c = find_context(qp->context);
  const uint64_t key = key_of(c, qp->qp_num);
  struct qp_entry *e = find_qp(c, qp->qp_num);
  for (uint64_t i = 0, at = place_of(key); i < QPS && e == NULL; i++, at++) {
    struct qp_entry *candidate = &verbs.qps[at % QPS];
    if (candidate->key == FREE || candidate->key == GONE) e = candidate;
  }
  if (e == NULL) return;
  if (e->handle != 0) culprit_hooks.qp_destroyed(e->handle);
  const uint64_t handle = culprit_hooks.qp_created(qp->qp_num, qp->context->device == NULL ? NULL : qp->context->device->name);
  if (handle == 0) return;
  e->signal_all = signal_all;
  __atomic_store_n(&e->handle, handle, __ATOMIC_RELEASE);
  __atomic_store_n(&e->key, key, __ATOMIC_RELEASE);
}

// A lock that another thread held at a fork is nobody's in the child.
static void forked_child(void) { (void)pthread_mutex_init(&verbs.lock, NULL); }

__attribute__((constructor)) static void mind_forks(void) { (void)pthread_atfork(NULL, NULL, forked_child); }

EXPORT struct verbs_qp *ibv_create_qp(void *pd, struct verbs_qp_init_attr *attr);
EXPORT int ibv_modify_qp(struct verbs_qp *qp, struct verbs_qp_attr *attr, int mask);
EXPORT int ibv_destroy_qp(struct verbs_qp *qp);

EXPORT struct verbs_qp *ibv_create_qp(void *pd, struct verbs_qp_init_attr *attr) {
  struct verbs_qp *(*create)(void *, struct verbs_qp_init_attr *);
  *(void **)&create = real("ibv_create_qp");
  if (create == NULL) {
    errno = ENOSYS;
    return NULL;
  }
  struct verbs_qp *qp = create(pd, attr);
  if (qp == NULL || qp->context == NULL) return qp;
  const int saved = errno;
  pthread_mutex_lock(&verbs.lock);
  if (redirect(qp->context)) remember(qp, attr->sq_sig_all != 0);
  pthread_mutex_unlock(&verbs.lock);
  errno = saved;
  return qp;
}

EXPORT int ibv_modify_qp(struct verbs_qp *qp, struct verbs_qp_attr *attr, int mask) {
  int (*modify)(struct verbs_qp *, struct verbs_qp_attr *, int);
  *(void **)&modify = real("ibv_modify_qp");
  if (modify == NULL) return ENOSYS;
  const int result = modify(qp, attr, mask);
  const uint64_t handle = handle_of(find_qp(find_context(qp->context), qp->qp_num));
  if (result != 0 || handle == 0) return result;
  struct culprit_qp_change change = {.state = (mask & VERBS_QP_STATE) != 0 ? attr->qp_state : -1};
  if ((mask & VERBS_QP_DEST_QPN) != 0) change.dest_qp_num = attr->dest_qp_num;
  if ((mask & VERBS_QP_AV) != 0) {
    change.has_path = true;
    change.port = attr->port_num;
    change.dest_lid = attr->is_global != 0 && attr->dlid == 0 ? 0 : attr->dlid;
    change.gid_index = attr->sgid_index;
    for (unsigned i = 0; i < sizeof change.remote_gid; i++) change.remote_gid[i] = attr->dgid[i];
  }
  culprit_hooks.qp_changed(handle, &change);
  return result;
}

EXPORT int ibv_destroy_qp(struct verbs_qp *qp) {
  int (*destroy)(struct verbs_qp *);
  *(void **)&destroy = real("ibv_destroy_qp");
  if (destroy == NULL) return ENOSYS;
  pthread_mutex_lock(&verbs.lock);
  struct qp_entry *e = find_qp(find_context(qp->context), qp->qp_num);
  const uint64_t handle = handle_of(e);
  if (e != NULL) {
    __atomic_store_n(&e->handle, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&e->key, GONE, __ATOMIC_RELEASE);
  }
  if (handle != 0) culprit_hooks.qp_destroyed(handle);
  pthread_mutex_unlock(&verbs.lock);
  return destroy(qp);
}
