// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Loads libnccl.so.2 and puts this library in the place of its CUDA runtime.
//
// NVIDIA's wheels link the runtime statically: its functions are local symbols with names. Each is made to jump to this library's
// function of the same name, or to a stub that says what is missing. A build with the shared runtime needs libcudart.so: an empty
// one beside this library lets it load, and its imports are set to the same functions.

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "divert.h"
#include "fakegpu.h"
#include "link.h"
#include "log.h"
#include "poll.h"
#include "symbols.h"

struct diverted {
  void *self;
  int played, stubs, failed;
};

static bool is_runtime(const char *name) { return !strncmp(name, "cuda", 4) && name[4] >= 'A' && name[4] <= 'Z'; }

// This library's function of the name, or a stub.
static void *function_for(struct diverted *d, const char *name) {
  void *to = dlsym(d->self, name);
  if (to) d->played++;
  else d->stubs++;
  return to ? to : divert_stub(name);
}

static void divert_local(const char *name, void *address, size_t size, void *context) {
  struct diverted *d = context;
  if (!is_runtime(name) || size < DIVERT_BYTES) return;
  if (!divert_function(address, function_for(d, name))) d->failed++;
}

static void *choose_imported(const char *name, void *context) { return is_runtime(name) ? function_for(context, name) : NULL; }

static bool divert_runtime(void *handle, void *self, char *why, size_t size) {
  struct diverted d = {.self = self};
  if (!symbols_open(handle, why, size)) return false;
  symbols_each_function("cuda", divert_local, &d);
  divert_imports(handle, choose_imported, &d);
  log_debug("%d functions of the CUDA runtime are played, %d are stubs", d.played, d.stubs);
  if (d.failed) return snprintf(why, size, "%d functions of its CUDA runtime cannot be replaced", d.failed), false;
  if (!d.played) return snprintf(why, size, "it has no CUDA runtime: no local function and no import is called cudaMalloc"), false;
  return true;
}

// Libraries that are looked for by their soname are found when they are loaded already: NCCL opens NVML so, a profiler plugin the
// driver.
static void load_beside(const char *own, const char *name) {
  char path[4096];
  const char *slash = strrchr(own, '/');
  snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - own) + 1 : 0, own, name);
  if (!dlopen(path, RTLD_NOW | RTLD_GLOBAL)) log_error("%s", dlerror());
}

void *fakegpu_load_nccl(const char *path, const char *layout, char *why, size_t size) {
  static const char *const beside[] = {"libnvidia-ml.so.1", "libcuda.so.1", "libcudart.so.12", "libcudart.so.13"};
  Dl_info own;
  if (!dladdr((void *)fakegpu_load_nccl, &own)) return snprintf(why, size, "the played GPU's library does not find itself"), NULL;
  void *self = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) load_beside(own.dli_fname, beside[i]);
  void *handle = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
  if (!handle) return snprintf(why, size, "%s", dlerror()), NULL;
  if (!divert_runtime(handle, self, why, size)) return NULL;
  if (!link_divert(handle, why, size)) return NULL;
  if (!poll_divert(handle, why, size)) return NULL;
  if (!device_open(layout, why, size)) return NULL;
  return handle;
}
