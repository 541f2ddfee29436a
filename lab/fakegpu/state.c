// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node.h"

static struct fakegpu_state *states[NODE_GPUS_MAX];
static struct fakegpu_process *own[NODE_GPUS_MAX];
static pid_t owner[NODE_GPUS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct fakegpu_state *map_state(int gpu) {
  char path[4096];
  int fd = node_path(gpu, "state", path, sizeof path) ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
  void *at = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, STATE_BYTES) == 0) at = mmap(NULL, STATE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  if (at == MAP_FAILED) at = mmap(NULL, STATE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) abort();
  struct fakegpu_state *state = at;
  __atomic_store_n(&state->version, STATE_VERSION, __ATOMIC_RELAXED);
  __atomic_store_n(&state->magic, STATE_MAGIC, __ATOMIC_RELEASE);
  return state;
}

struct fakegpu_state *state_of(int gpu) {
  if (gpu < 0 || gpu >= NODE_GPUS_MAX) gpu = 0;
  pthread_mutex_lock(&lock);
  if (!states[gpu]) states[gpu] = map_state(gpu);
  struct fakegpu_state *state = states[gpu];
  pthread_mutex_unlock(&lock);
  return state;
}

static bool take_slot(struct fakegpu_state *state, struct fakegpu_process *p, uint32_t pid) {
  uint32_t was = __atomic_load_n(&p->pid, __ATOMIC_ACQUIRE);
  if (was != 0 && (kill((pid_t)was, 0) == 0 || errno != ESRCH)) return false;
  if (!__atomic_compare_exchange_n(&p->pid, &was, pid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return false;
  __atomic_fetch_sub(&state->memory_bytes, __atomic_exchange_n(&p->memory_bytes, 0, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  __atomic_store_n(&p->busy_ns, 0, __ATOMIC_RELAXED);
  return true;
}

struct fakegpu_process *state_process(int gpu) {
  if (gpu < 0 || gpu >= NODE_GPUS_MAX) gpu = 0;
  struct fakegpu_state *state = state_of(gpu);
  pid_t pid = getpid();
  pthread_mutex_lock(&lock);
  if (owner[gpu] != pid) {  // not yet, or a child after fork
    owner[gpu] = pid;
    own[gpu] = NULL;
    for (int i = 0; i < STATE_PROCESSES && !own[gpu]; i++) {
      if (take_slot(state, &state->processes[i], (uint32_t)pid)) own[gpu] = &state->processes[i];
    }
  }
  struct fakegpu_process *process = own[gpu];
  pthread_mutex_unlock(&lock);
  return process;
}

void state_add_memory(int gpu, int64_t bytes) {
  struct fakegpu_process *process = state_process(gpu);
  __atomic_fetch_add(&state_of(gpu)->memory_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
  if (process) __atomic_fetch_add(&process->memory_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

void state_add_busy(int gpu, uint64_t ns) {
  struct fakegpu_process *process = state_process(gpu);
  __atomic_fetch_add(&state_of(gpu)->busy_ns, ns, __ATOMIC_RELAXED);
  if (process) __atomic_fetch_add(&process->busy_ns, ns, __ATOMIC_RELAXED);
}
