// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Runs operations of the real NCCL on played GPUs and compares their results.
//
//	check -l LIBRARY -L LAYOUT -d DIRECTORY [-n RANKS] [-g RANKS_OF_A_HOST] [-c COMPUTE_CAPABILITY] [-r REPEATS] [-t SECONDS]
//	      [-a FILE] OPERATION...
//
// An operation is name:type:reduction:bytes[:in]. Each rank is a process; each host has a directory below DIRECTORY. One JSON line
// for each operation comes from rank 0, and one for each wrong result from every rank. An operation that does not end within -t
// seconds ends the job with status 5. When FILE appears, every rank aborts its communicator and ends with status 6.

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../fakegpu.h"
#include "ops.h"

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_CALL = 3, EXIT_HANG = 5, EXIT_ABORTED = 6, RANKS_MAX = 64 };

static const char *library, *layout, *directory, *compute = "8.0", *abort_file;
static int ranks = 2, per_host = 1, repeats = 1, rank;
static unsigned limit = 60;
static const char *volatile current = "init";

static volatile struct {
  unique_id id;
  int ready;
} *shared;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void too_late(int signal_number) {
  (void)signal_number;
  char text[160];
  int n = snprintf(text, sizeof text, "{\"rank\":%d,\"op\":\"%s\",\"hang\":true}\n", rank, current);
  if (write(STDOUT_FILENO, text, (size_t)n) < 0) _exit(EXIT_HANG);
  _exit(EXIT_HANG);
}

static void check(const char *call, int result) {
  if (!result) return;
  fprintf(stderr, "rank %d: %s: %s: %s\n", rank, current, call, nccl.GetErrorString(result));
  exit(EXIT_CALL);
}

static void set_number(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

// A rank's host and GPU.
static void take_place(void) {
  char path[4096], name[32];
  snprintf(name, sizeof name, "host%d", rank / per_host);
  snprintf(path, sizeof path, "%s/%s", directory, name);
  setenv("FAKEGPU_DIR", path, 1);
  setenv("NCCL_HOSTID", name, 1);
  set_number("CUDA_VISIBLE_DEVICES", rank % per_host);
}

static void make_hosts(void) {
  char path[4096];
  for (int host = 0; host <= (ranks - 1) / per_host; host++) {
    snprintf(path, sizeof path, "%s/host%d", directory, host);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/host%d/node", directory, host);
    FILE *f = fopen(path, "we");
    if (!f) exit(EXIT_USAGE);
    fprintf(f, "name host%d\ngpus %d\ncompute %s\n", host, per_host, compute);
    fclose(f);
  }
}

static comm_t join(void) {
  if (rank == 0) {
    unique_id id;
    check("ncclGetUniqueId", nccl.GetUniqueId(&id));
    memcpy((void *)(uintptr_t)&shared->id, &id, sizeof id);
    __atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
  }
  while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE)) usleep(1000);
  unique_id id;
  memcpy(&id, (const void *)(uintptr_t)&shared->id, sizeof id);
  comm_t comm;
  check("ncclCommInitRank", nccl.CommInitRank(&comm, ranks, id, rank));
  return comm;
}

static atomic_bool aborting;

// Aborts the communicator when the file is there, as a watchdog does.
static void *watch(void *comm) {
  while (access(abort_file, F_OK)) usleep(10000);
  atomic_store(&aborting, true);
  int result = nccl.CommAbort(comm);
  printf("{\"rank\":%d,\"aborted\":%d}\n", rank, result);
  fflush(stdout);
  _exit(EXIT_ABORTED);
}

static bool run(const char *text, const struct member *m, int round) {
  struct op op;
  struct op_run r;
  if (!op_parse(text, &op)) {
    fprintf(stderr, "no operation %s\n", text);
    exit(EXIT_USAGE);
  }
  const char *failed = op_begin(&r, &op, m, round);
  double begun = now();
  if (!failed) failed = op_enqueue(&r);
  int error = failed ? 0 : cudaStreamSynchronize(m->stream);
  double seconds = now() - begun;
  while (atomic_load(&aborting)) pause();  // the communicator is gone; the watchdog ends the process
  if (failed || error) {
    printf("{\"rank\":%d,\"op\":\"%s\",\"failed\":\"%s\",\"error\":%d}\n", rank, text, failed ? failed : "cudaStreamSynchronize", error);
    fflush(stdout);
    exit(EXIT_CALL);
  }
  long wrong = op_wrong(&r);
  if (wrong >= 0 || rank == 0) printf("{\"rank\":%d,\"op\":\"%s\",\"seconds\":%.6f,\"wrong\":%ld}\n", rank, text, seconds, wrong);
  fflush(stdout);
  op_end(&r);
  return wrong < 0;
}

static int rank_main(int argc, char **argv) {
  take_place();
  signal(SIGALRM, too_late);
  alarm(limit);
  char why[512];
  void *handle = fakegpu_load_nccl(library, layout, why, sizeof why);
  if (!handle) {
    fprintf(stderr, "rank %d: %s\n", rank, why);
    return EXIT_CALL;
  }
  const char *missing = nccl_bind(handle);
  if (missing) {
    fprintf(stderr, "rank %d: the library has no %s\n", rank, missing);
    return EXIT_CALL;
  }
  struct member m = {.comm = join(), .rank = rank, .ranks = ranks};
  cudaStreamCreate(&m.stream);
  pthread_t watchdog;
  if (abort_file && pthread_create(&watchdog, NULL, watch, m.comm)) return EXIT_CALL;
  int bad = 0;
  for (int i = 0; i < argc * repeats; i++) {
    current = argv[i % argc];
    alarm(limit);
    if (!run(current, &m, i)) bad++;
  }
  current = "end";
  alarm(limit);
  check("ncclCommDestroy", nccl.CommDestroy(m.comm));
  return bad ? EXIT_WRONG : 0;
}

static int wait_for_ranks(void) {
  int worst = 0;
  for (int i = 0; i < ranks; i++) {
    int status = 0;
    if (wait(&status) < 0) break;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code > worst) worst = code;
    if (code > EXIT_WRONG && code != EXIT_ABORTED) break;  // the others wait for it in vain; they die with this process
  }
  return worst;
}

static int usage(void) {
  fprintf(stderr, "usage: check -l LIBRARY -L LAYOUT -d DIRECTORY [-n RANKS] [-g RANKS_OF_A_HOST] [-c COMPUTE_CAPABILITY] [-r REPEATS]"
                  " [-t SECONDS] [-a FILE] OPERATION...\n");
  return EXIT_USAGE;
}

int main(int argc, char **argv) {
  int option;
  while ((option = getopt(argc, argv, "l:L:d:n:g:c:r:t:a:")) > 0) {
    if (option == 'l') library = optarg;
    else if (option == 'L') layout = optarg;
    else if (option == 'd') directory = optarg;
    else if (option == 'n') ranks = atoi(optarg);
    else if (option == 'g') per_host = atoi(optarg);
    else if (option == 'c') compute = optarg;
    else if (option == 'r') repeats = atoi(optarg);
    else if (option == 'a') abort_file = optarg;
    else if (option == 't') limit = (unsigned)atoi(optarg);
    else return usage();
  }
  if (!library || !layout || !directory || ranks < 1 || ranks > RANKS_MAX || per_host < 1 || optind == argc) return usage();
  make_hosts();
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return EXIT_USAGE;
  for (rank = 0; rank < ranks; rank++) {
    pid_t pid = fork();
    if (pid < 0) return EXIT_USAGE;
    if (pid > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return rank_main(argc - optind, argv + optind);
  }
  return wait_for_ranks();
}
