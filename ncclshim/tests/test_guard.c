// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Somebody truncates the trace file while the job writes to it. The job goes on, and every other SIGBUS goes where it would
// have gone.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4

static uint32_t running = 1;
static uint64_t operations;

// communicate has a communicator of its own: operations with a proxy and steps, until there is nothing more to do.
static void *communicate(void *comm) {
  while (__atomic_load_n(&running, __ATOMIC_RELAXED) != 0) {
    void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
    void *p = nccl_proxy(comm, op, 0, 1, 4, 1);
    nccl_send_steps(comm, p, 0, 1, 4);
    nccl_stop(p);
    __atomic_fetch_add(&operations, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void await_operations(uint64_t n) {
  const uint64_t wanted = __atomic_load_n(&operations, __ATOMIC_RELAXED) + n;
  while (__atomic_load_n(&operations, __ATOMIC_RELAXED) < wanted) usleep(100);
}

static void truncated_under_writers(int bytes, int unused) {
  (void)unused;
  nccl_load(6);
  void *comms[THREADS];
  pthread_t threads[THREADS];
  for (uint64_t i = 0; i < THREADS; i++) {
    comms[i] = nccl_init(i + 1, NULL, 2, 4, 0);
    CHECK(comms[i] != NULL);
    CHECK(pthread_create(&threads[i], NULL, communicate, comms[i]) == 0);
  }
  await_operations(100);
  struct view v = view_open();
  CHECK(truncate(v.path, bytes) == 0);
  await_operations(1000);
  // It is noticed with a look that is taken about once a second: from then on NCCL is asked for nothing.
  while (__atomic_load_n(&nccl_mask, __ATOMIC_RELAXED) != 0) usleep(1000);
  await_operations(1000);
  __atomic_store_n(&running, 0, __ATOMIC_RELAXED);
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    nccl_finalize(comms[i]);
  }
  CHECK(nccl_init(99, NULL, 2, 4, 0) == NULL);
}

static void truncated(void) {
  const int sizes[] = {0, 4096, 1 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) harness_fork_and_wait(sizes[i], 0, truncated_under_writers);
}

// foreign_mapping is one page of a file without any bytes, which is none of the plugin's.
static volatile char *foreign_mapping(void) {
  char path[256];
  snprintf(path, sizeof path, "%s/foreign", harness_directory());
  const int fd = open(path, O_CREAT | O_RDWR, 0600);
  CHECK(fd >= 0);
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(page != MAP_FAILED);
  close(fd);
  return page;
}

static sigjmp_buf back;
static const volatile void *faulted;

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)context;
  faulted = info->si_addr;
  siglongjmp(back, 1);
}

static void on_signal(int number) {
  (void)number;
  siglongjmp(back, 2);
}

static void handler_before_is_called(void) {
  const struct sigaction mine = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGBUS, &mine, NULL) == 0);
  nccl_load(6);
  CHECK(nccl_init(1, NULL, 2, 4, 0) != NULL);
  volatile char *page = foreign_mapping();
  if (sigsetjmp(back, 1) == 0) {
    page[8] = 1;
    CHECK(false);
  }
  CHECK(faulted == page + 8);
}

static void plain_handler_before_is_called(void) {
  CHECK(signal(SIGBUS, on_signal) != SIG_ERR);
  nccl_load(6);
  CHECK(nccl_init(1, NULL, 2, 4, 0) != NULL);
  if (sigsetjmp(back, 1) == 0) {
    foreign_mapping()[0] = 1;
    CHECK(false);
  }
  if (sigsetjmp(back, 1) == 0) {
    raise(SIGBUS);
    CHECK(false);
  }
}

enum trouble { FAULT, SENT };

// ended_by gives the signal that ends a traced process which has this disposition and meets this trouble; 0 for none.
static int ended_by(void (*disposition)(int), enum trouble trouble) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGBUS, disposition);
    nccl_load(6);
    if (nccl_init(1, NULL, 2, 4, 0) == NULL) _exit(2);
    if (trouble == FAULT) {
      foreign_mapping()[0] = 1;
    } else {
      raise(SIGBUS);
    }
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) return WTERMSIG(status);
  CHECK_EQ(status, 0);
  return 0;
}

static void dispositions_hold(void) {
  CHECK_EQ(ended_by(SIG_DFL, FAULT), SIGBUS);
  CHECK_EQ(ended_by(SIG_DFL, SENT), SIGBUS);
  CHECK_EQ(ended_by(SIG_IGN, FAULT), SIGBUS);
  CHECK_EQ(ended_by(SIG_IGN, SENT), 0);
}

static void check_given_back(void) {
  struct sigaction now;
  if (sigaction(SIGBUS, NULL, &now) != 0 || now.sa_handler != on_signal) _exit(1);
}

// Exit handlers run in the reverse of their order: this one after the plugin's.
static void given_back_at_exit(void) {
  CHECK(atexit(check_given_back) == 0);
  CHECK(signal(SIGBUS, on_signal) != SIG_ERR);
  nccl_load(6);
  CHECK(nccl_init(1, NULL, 2, 4, 0) != NULL);
  struct sigaction now;
  CHECK(sigaction(SIGBUS, NULL, &now) == 0);
  CHECK(now.sa_handler != on_signal);
}

static void later_handler_stays(void) {
  CHECK(atexit(check_given_back) == 0);
  nccl_load(6);
  CHECK(nccl_init(1, NULL, 2, 4, 0) != NULL);
  CHECK(signal(SIGBUS, on_signal) != SIG_ERR);
}

static const struct test_case cases[] = {
    {"truncated", truncated},
    {"handler_before_is_called", handler_before_is_called},
    {"plain_handler_before_is_called", plain_handler_before_is_called},
    {"dispositions_hold", dispositions_hold},
    {"given_back_at_exit", given_back_at_exit},
    {"later_handler_stays", later_handler_stays},
};

TEST_MAIN(cases)
