// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "find.h"

#include <dlfcn.h>
#include <stddef.h>

// In a scope of its own, where RTLD_NEXT does not look: PyTorch's may be.
static void *find_in(const char *library, const char *profiled) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (handle == NULL) return NULL;
  void *found = dlsym(handle, profiled);
  dlclose(handle);
  return found;
}

// keep prevents the library that holds a function from being unmapped: its address is kept here.
static void keep(const void *function) {
  Dl_info where;
  if (dladdr(function, &where) != 0 && where.dli_fname != NULL) {
    void *handle = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (handle != NULL) dlclose(handle);
  }
}

void *find(void **cache, const char *profiled, const char *name) {
  void *found = __atomic_load_n(cache, __ATOMIC_ACQUIRE);
  if (found != NULL) return found;
  found = dlsym(RTLD_NEXT, profiled);
  if (found == NULL) found = find_in("libnccl.so.2", profiled);
  if (found == NULL) found = find_in("librccl.so.1", profiled);
  if (found == NULL) found = dlsym(RTLD_NEXT, name);
  if (found != NULL) {
    keep(found);
    __atomic_store_n(cache, found, __ATOMIC_RELEASE);
  }
  return found;
}
