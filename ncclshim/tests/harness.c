// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_SECONDS 300  // A case that hangs is killed by its alarm.

static char directory[128];

const char *harness_directory(void) { return directory; }

void harness_fail(const char *file, int line, const char *format, ...) {
  va_list args;
  fprintf(stderr, "%s:%d: ", file, line);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  _exit(1);
}

static void remove_tree(const char *path) {
  DIR *d = opendir(path);
  if (d != NULL) {
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
      if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
      char name[512];
      snprintf(name, sizeof name, "%s/%s", path, e->d_name);
      struct stat st;
      if (lstat(name, &st) == 0 && S_ISDIR(st.st_mode)) {
        remove_tree(name);
      } else {
        unlink(name);
      }
    }
    closedir(d);
  }
  rmdir(path);
}

void harness_fork_and_wait(int a, int b, void (*f)(int, int)) {
  char sub[256];
  snprintf(sub, sizeof sub, "%s/%d-%d", directory, a, b);
  if (mkdir(sub, 0755) != 0) harness_fail(__FILE__, __LINE__, "mkdir %s", sub);
  const pid_t child = fork();
  if (child == 0) {
    snprintf(directory, sizeof directory, "%.100s", sub);
    setenv("CULPRIT_DIR", directory, 1);
    f(a, b);
    exit(0);
  }
  int status = 1;
  if (waitpid(child, &status, 0) != child || status != 0) harness_fail(__FILE__, __LINE__, "with %d and %d", a, b);
}

// The launcher's own variables must not leak into the cases.
static void clean_environment(void) {
  static const char *const names[] = {
      "RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
      "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "POD_NAME",
      "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "KUBERNETES_SERVICE_HOST", "CULPRIT_DISABLE",
      "CULPRIT_EVENTS", "CULPRIT_SIZE_MB", "CULPRIT_MODE", "CULPRIT_KEEP_SECONDS", "CULPRIT_CLOCK", "CULPRIT_CHAIN",
      "TORCHELASTIC_RUN_ID", "PET_RDZV_ID", "SLURM_JOBID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS", "GROUP_WORLD_SIZE", "MASTER_ADDR",
      "MASTER_PORT", "PBS_JOBID", "LSB_JOBID", "JOB_NAME", "RAY_JOB_ID", "RAY_CLUSTER_NAME", "LWS_LEADER_ADDRESS",
      "JOB_COMPLETION_INDEX", "PMIX_NAMESPACE", "POD_NAMESPACE", "POD_UID", "CULPRIT_POD_UID", "HOSTNAME", "CULPRIT_JOB_ID", "CULPRIT_TRANSFERS", "CULPRIT_CONTROL", "CULPRIT_CUDA", "LD_PRELOAD"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
}

static bool run_case(const struct test_case *c) {
  snprintf(directory, sizeof directory, "/dev/shm/culprit-test-XXXXXX");
  if (mkdtemp(directory) == NULL) {
    perror("making a directory for the case");
    return false;
  }
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(CASE_SECONDS);
    clean_environment();
    setenv("CULPRIT_DIR", directory, 1);
    c->run();
    exit(0);
  }
  int status = 0;
  const bool waited = child > 0 && waitpid(child, &status, 0) == child;
  remove_tree(directory);
  if (waited && WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  if (waited && WIFSIGNALED(status)) fprintf(stderr, "%s: killed by signal %d\n", c->name, WTERMSIG(status));
  fprintf(stderr, "FAIL %s\n", c->name);
  return false;
}

int harness_main(int argc, char **argv, const struct test_case *cases, size_t count) {
  unsigned passed = 0, failed = 0;
  for (size_t i = 0; i < count; i++) {
    if (argc > 1 && strstr(cases[i].name, argv[1]) == NULL) continue;
    if (run_case(&cases[i])) {
      passed++;
    } else {
      failed++;
    }
  }
  const char *name = strrchr(argv[0], '/');
  printf("%s: %u passed, %u failed\n", name == NULL ? argv[0] : name + 1, passed, failed);
  return failed == 0 && passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
