// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// late, loaded with LD_PRELOAD, takes the processor away from proxy threads at the worst moment: when they have just told the
// program that all their work is done. A busy machine does the same, but seldom.

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

// Long enough for the program to free what it may by then.
#define LATE_NS 10000000

static _Thread_local bool has_told;

static bool is_proxy(void) {
  char name[16];
  return prctl(PR_GET_NAME, name) == 0 && strncmp(name, "proxy-", 6) == 0;
}

int pthread_cond_broadcast(pthread_cond_t *cond) {
  static int (*real)(pthread_cond_t *);
  // x86 has an older one as well, with another layout, which dlsym may prefer.
  if (!real) *(void **)&real = dlvsym(RTLD_NEXT, "pthread_cond_broadcast", "GLIBC_2.3.2");
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_broadcast");
  has_told = is_proxy();
  return real(cond);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
  static int (*real)(pthread_mutex_t *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
  int result = real(mutex);
  if (has_told) {
    has_told = false;
    struct timespec late = {.tv_nsec = LATE_NS};
    nanosleep(&late, NULL);
  }
  return result;
}
