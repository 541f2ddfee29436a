// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A SPANK plugin: every task of Slurm loads the shim, as with the TaskProlog beside it, and `srun --culprit=off` keeps it out. It is
// for sites that want the option, or cannot add to their TaskProlog. Slurm loads plugins of its own release only, so that sites
// build it: see the Makefile. In plugstack.conf:
//
//     optional /usr/lib/culprit/spank_culprit.so [lib=/usr/lib/culprit] [dir=/dev/shm/culprit]

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

SPANK_PLUGIN(culprit, 1)

#define PLUGIN "libnccl-profiler-culprit.so"

enum { VALUE_BYTES = 32768 };

static const char *lib = "/usr/lib/culprit";
static const char *dir = NULL;
static bool off = false;

static int set_option(int value, const char *argument, int remote) {
  (void)value;
  (void)remote;
  if (argument != NULL && strcmp(argument, "off") == 0) {
    off = true;
  } else if (argument == NULL || strcmp(argument, "on") != 0) {
    slurm_error("culprit: --culprit takes on or off");
    return -1;
  }
  return 0;
}

static struct spank_option option = {"culprit", "on|off", "Have tasks load Culprit's NCCL plugin (default: on).", 1, 0, set_option};

int slurm_spank_init(spank_t spank, int count, char **words) {
  for (int i = 0; i < count; i++) {
    if (strncmp(words[i], "lib=", 4) == 0) lib = words[i] + 4;
    if (strncmp(words[i], "dir=", 4) == 0) dir = words[i] + 4;
  }
  return spank_option_register(spank, &option);
}

// get gives a variable of the task; empty where it is not set or does not fit.
static const char *get(spank_t spank, const char *name, char *value) {
  if (spank_getenv(spank, name, value, VALUE_BYTES) != ESPANK_SUCCESS) value[0] = '\0';
  return value;
}

static bool ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

// listed tells whether a list with colons has an element.
static bool listed(const char *list, const char *element) {
  const size_t n = strlen(element);
  for (const char *at = list; at != NULL; at = strchr(at, ':')) {
    if (*at == ':') at++;
    if (strncmp(at, element, n) == 0 && (at[n] == ':' || at[n] == '\0')) return true;
  }
  return false;
}

// slurm_spank_task_init runs in each task before its program. It never fails a task.
int slurm_spank_task_init(spank_t spank, int count, char **words) {
  (void)count;
  (void)words;
  static char value[VALUE_BYTES], made[VALUE_BYTES + 4096];
  char file[4096];
  snprintf(file, sizeof file, "%s/" PLUGIN, lib);
  if (off || access(file, R_OK) != 0 || strcmp(get(spank, "CULPRIT_DISABLE", value), "1") == 0) return 0;

  const char *set = get(spank, "NCCL_PROFILER_PLUGIN", value);
  if (strcmp(set, "STATIC_PLUGIN") == 0) return 0;  // Linked into the job: nothing can be put before it.
  if (!ends_with(set, PLUGIN)) {
    if (set[0] != '\0') {
      // NCCL loads one plugin; the shim loads the other one behind it. NCCL completes a short name; the shim wants the file's.
      const bool whole = strchr(set, '/') != NULL || strstr(set, ".so") != NULL;
      snprintf(made, sizeof made, whole ? "%s" : "libnccl-profiler-%s.so", set);
      spank_setenv(spank, "CULPRIT_CHAIN", made, 0);
    }
    spank_setenv(spank, "NCCL_PROFILER_PLUGIN", PLUGIN, 1);
  }
  const char *path = get(spank, "LD_LIBRARY_PATH", value);
  if (!listed(path, lib)) {
    snprintf(made, sizeof made, path[0] == '\0' ? "%s" : "%s:%s", lib, path);
    spank_setenv(spank, "LD_LIBRARY_PATH", made, 1);
  }
  if (dir != NULL) spank_setenv(spank, "CULPRIT_DIR", dir, 1);
  return 0;
}
