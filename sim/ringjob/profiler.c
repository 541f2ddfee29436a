// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "profiler.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "event.h"

static struct {
  pthread_mutex_t mutex;
  void *lib;
  struct prof_api api;
  bool loaded;
  bool failed;  // Tried once: NCCL does not try again.
  int references;
  int mask;     // Handed to every init; the plugin may change it at any time.
} self = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void logger(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
  (void)flags;
  const char *debug = getenv("NCCL_DEBUG");
  int wanted = CULPRIT_NCCL_LOG_WARN;
  if (debug && strcasecmp(debug, "INFO") == 0) wanted = CULPRIT_NCCL_LOG_INFO;
  if (level > wanted) return;
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "ringjob: plugin %s:%d: %s\n", file, line, text);
}

static void *open_plugin(void) {
  const char *name = getenv("NCCL_PROFILER_PLUGIN");
  if (name && strcasecmp(name, "none") == 0) return NULL;
  if (!name || !*name) return dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
  if (strcmp(name, "STATIC_PLUGIN") == 0) return dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
  void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (lib) return lib;
  char text[512];
  snprintf(text, sizeof text, "%s", dlerror());
  char path[512];
  snprintf(path, sizeof path, "libnccl-profiler-%s.so", name);
  lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) fprintf(stderr, "ringjob: no profiler plugin: %s; %s\n", text, dlerror());
  return lib;
}

static void load(int version) {
  if (self.loaded || self.failed) {
    if (self.loaded) self.references++;
    return;
  }
  self.lib = open_plugin();
  if (!self.lib || !prof_api_find(&self.api, self.lib, version)) {
    if (self.lib) {
      const char *which = version ? "of the ABI version asked for" : "known here";
      fprintf(stderr, "ringjob: the profiler plugin exports nothing %s\n", which);
      dlclose(self.lib);
    }
    self.lib = NULL;
    self.failed = true;
    return;
  }
  self.loaded = true;
  self.references = 1;
}

static void unload(void) {
  if (--self.references > 0) return;
  self.loaded = false;
  dlclose(self.lib);
  self.lib = NULL;
}

void prof_comm_init(void **context, uint64_t comm_id, const char *comm_name, int nnodes, int nranks, int rank, int version) {
  *context = NULL;
  pthread_mutex_lock(&self.mutex);
  load(version);
  if (self.loaded && self.api.init(context, comm_id, &self.mask, comm_name, nnodes, nranks, rank, logger) != 0) {
    fprintf(stderr, "ringjob: the profiler plugin's init failed; going on without\n");
    *context = NULL;
    unload();
  }
  pthread_mutex_unlock(&self.mutex);
}

void prof_comm_finalize(void *context) {
  pthread_mutex_lock(&self.mutex);
  if (self.loaded && context) {
    self.api.finalize(context);
    unload();
  }
  pthread_mutex_unlock(&self.mutex);
}

bool prof_loaded(void) { return self.loaded; }

// The plugin writes the mask from its own threads without telling: an atomic load is all a reader can do.
int prof_mask(void) { return self.loaded ? __atomic_load_n(&self.mask, __ATOMIC_RELAXED) : 0; }

void prof_start(void *context, void **handle, prof_descr *descr) {
  if (self.loaded) self.api.start(context, handle, descr);
}

void prof_stop(void *handle) {
  if (self.loaded && handle) self.api.stop(handle);
}

void prof_record(void *handle, int state, const prof_args *args) {
  if (!self.loaded || !handle) return;
  prof_args copy = {0};
  if (args) copy = *args;
  self.api.record(handle, state, args ? &copy : NULL);
}

bool prof_native(void) { return self.loaded && self.api.record_op != NULL; }

void prof_record_op(void *handle, int state, size_t bytes, int steps) {
  if (prof_native() && handle) self.api.record_op(handle, state, bytes, steps);
}
