// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The real library on several played GPUs of one process: nccl_test LIBRARY LAYOUT CASE…
// Prints a line for each case and ends with 1 when one failed.

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../fakegpu.h"
#include "nccl.h"

enum { DEVICES = 3, COUNT = 30000 };

static struct nccl nccl;
static nccl_comm comms[DEVICES];
static cudaStream streams[DEVICES];
static float *in[DEVICES], *out[DEVICES];

#define CHECK(call)                                                                                   \
  do {                                                                                                \
    int result_ = (call);                                                                             \
    if (result_) printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, result_), exit(1);              \
  } while (0)

static void bind(void *handle) {
#define X(name, parameters) \
  if (!(nccl.name = (__typeof__(nccl.name))dlsym(handle, "nccl" #name))) printf("no nccl" #name "\n"), exit(1);
  NCCL_FUNCTIONS(X)
#undef X
}

static float value(int rank, int i, int round) { return (float)((i * 7 + rank * 13 + round * 3) % 1000); }

static float sum(int i, int round) {
  float s = 0;
  for (int r = 0; r < DEVICES; r++) s += value(r, i, round);
  return s;
}

static void fill(int round) {
  for (int d = 0; d < DEVICES; d++) {
    for (int i = 0; i < COUNT; i++) in[d][i] = value(d, i, round), out[d][i] = -1;
  }
}

static bool synchronize(void) {
  for (int d = 0; d < DEVICES; d++) CHECK(cudaStreamSynchronize(streams[d]));
  return true;
}

static bool expect(int device, int i, float want) {
  if (out[device][i] == want) return true;
  printf("device %d element %d: %g, want %g\n", device, i, (double)out[device][i], (double)want);
  return false;
}

static bool sums_right(int count, int round) {
  for (int d = 0; d < DEVICES; d++) {
    for (int i = 0; i < count; i++) {
      if (!expect(d, i, sum(i, round))) return false;
    }
  }
  return true;
}

static void all_reduce(size_t count) {
  CHECK(nccl.GroupStart());
  for (int d = 0; d < DEVICES; d++) CHECK(nccl.AllReduce(in[d], out[d], count, NCCL_FLOAT32, NCCL_SUM, comms[d], streams[d]));
  CHECK(nccl.GroupEnd());
}

static bool test_allreduce(void) {
  for (int round = 0; round < 3; round++) {
    fill(round);
    all_reduce(COUNT);
    if (!synchronize() || !sums_right(COUNT, round)) return false;
  }
  return true;
}

static bool test_reducescatter(void) {
  enum { EACH = COUNT / DEVICES };
  fill(0);
  CHECK(nccl.GroupStart());
  for (int d = 0; d < DEVICES; d++) CHECK(nccl.ReduceScatter(in[d], out[d], EACH, NCCL_FLOAT32, NCCL_SUM, comms[d], streams[d]));
  CHECK(nccl.GroupEnd());
  synchronize();
  for (int d = 0; d < DEVICES; d++) {
    for (int i = 0; i < EACH; i++) {
      if (!expect(d, i, sum(d * EACH + i, 0))) return false;
    }
  }
  return true;
}

static bool test_allgather(void) {
  enum { EACH = COUNT / DEVICES };
  fill(0);
  CHECK(nccl.GroupStart());
  for (int d = 0; d < DEVICES; d++) CHECK(nccl.AllGather(in[d], out[d], EACH, NCCL_FLOAT32, comms[d], streams[d]));
  CHECK(nccl.GroupEnd());
  synchronize();
  for (int d = 0; d < DEVICES; d++) {
    for (int i = 0; i < COUNT; i++) {
      if (!expect(d, i, value(i / EACH, i % EACH, 0))) return false;
    }
  }
  return true;
}

static bool test_sendrecv(void) {
  fill(0);
  CHECK(nccl.GroupStart());
  for (int d = 0; d < DEVICES; d++) {
    CHECK(nccl.Send(in[d], COUNT, NCCL_FLOAT32, (d + 1) % DEVICES, comms[d], streams[d]));
    CHECK(nccl.Recv(out[d], COUNT, NCCL_FLOAT32, (d + DEVICES - 1) % DEVICES, comms[d], streams[d]));
  }
  CHECK(nccl.GroupEnd());
  synchronize();
  for (int d = 0; d < DEVICES; d++) {
    for (int i = 0; i < COUNT; i++) {
      if (!expect(d, i, value((d + DEVICES - 1) % DEVICES, i, 0))) return false;
    }
  }
  return true;
}

// Captures two reductions a stream, one of them forked to a second stream, and replays them with other numbers.
static bool test_graph(void) {
  cudaGraphExec execs[DEVICES];
  for (int d = 0; d < DEVICES; d++) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaStreamBeginCapture(streams[d], 1));
  }
  all_reduce(COUNT / 2);
  CHECK(nccl.GroupStart());
  for (int d = 0; d < DEVICES; d++) {
    CHECK(nccl.AllReduce(in[d] + COUNT / 2, out[d] + COUNT / 2, COUNT - COUNT / 2, NCCL_FLOAT32, NCCL_SUM, comms[d], streams[d]));
  }
  CHECK(nccl.GroupEnd());
  for (int d = 0; d < DEVICES; d++) {
    cudaGraph graph;
    CHECK(cudaSetDevice(d));
    CHECK(cudaStreamEndCapture(streams[d], &graph));
    CHECK(cudaGraphInstantiate(&execs[d], graph, 0));
    CHECK(cudaGraphDestroy(graph));
  }
  for (int round = 0; round < 5; round++) {
    fill(round);
    for (int d = 0; d < DEVICES; d++) CHECK(cudaGraphLaunch(execs[d], streams[d]));
    if (!synchronize() || !sums_right(COUNT, round)) return false;
    fill(round + 100);  // between replays, work outside of the graph
    all_reduce(COUNT);
    if (!synchronize() || !sums_right(COUNT, round + 100)) return false;
  }
  for (int d = 0; d < DEVICES; d++) CHECK(cudaGraphExecDestroy(execs[d]));
  return true;
}

static void control(int gpu, const char *text) {
  char path[4096], next[4096];
  snprintf(path, sizeof path, "%s/gpu%d.control", getenv("FAKEGPU_DIR"), gpu);
  snprintf(next, sizeof next, "%s/next", getenv("FAKEGPU_DIR"));
  FILE *file = fopen(next, "w");
  if (!file || fputs(text, file) < 0 || fclose(file) || rename(next, path)) printf("%s cannot be written\n", path), exit(1);
  usleep(100000);  // longer than between two looks
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool done_within(double seconds) {
  for (double end = now() + seconds; now() < end; usleep(5000)) {
    bool done = true;
    for (int d = 0; d < DEVICES; d++) done &= cudaStreamQuery(streams[d]) == CUDA_OK;
    if (done) return true;
  }
  return false;
}

// Nothing ends while the fault lasts, everything does afterwards, with the right sums.
static bool stops(const char *fault) {
  fill(0);
  all_reduce(COUNT);  // connects
  if (!synchronize() || !sums_right(COUNT, 0)) return false;
  fill(1);
  control(1, fault);
  all_reduce(COUNT);
  if (done_within(1)) return printf("\"%s\" stops nothing\n", fault), false;
  control(1, "");
  return synchronize() && sums_right(COUNT, 1);
}

static bool test_stall(void) { return stops("link.stall 1"); }
static bool test_freeze(void) { return stops("freeze 1"); }
static bool test_hold(void) { return stops("hold 1"); }

static double seconds_of(int operations) {
  double begin = now();
  for (int i = 0; i < operations; i++) all_reduce(COUNT);
  synchronize();
  return now() - begin;
}

// A lost GPU's stream ends with an error, whatever its kernel does. Comes last: nothing works afterwards.
static bool test_lost(void) {
  fill(0);
  seconds_of(1);
  control(1, "freeze 1");
  all_reduce(COUNT);
  control(1, "freeze 1\nlost 1");
  if (cudaStreamSynchronize(streams[1]) != CUDA_DEVICES_UNAVAILABLE) return printf("the lost GPU's stream has no error\n"), false;
  memset(comms, 0, sizeof comms);  // the process ends with them, as a job on a lost GPU does
  return true;
}

// The least time that a fault can cost is exceeded, however fast the machine is.
static bool slows(const char *fault, double least) {
  fill(0);
  seconds_of(1);
  control(1, fault);
  double slow = seconds_of(1);
  control(1, "");
  if (slow < least) return printf("\"%s\" costs %.3f s, want at least %.3f\n", fault, slow, least), false;
  return sums_right(COUNT, 0);
}

// Of 120 kB each rank sends 4/3 to its neighbour: two of three parts twice.
static bool test_rate(void) { return slows("link.rate 200000", 0.5); }

// Each rank posts a transfer for each part, at least four to send.
static bool test_delay(void) { return slows("proxy.delay_ms 100", 0.4); }

static const struct {
  const char *name;
  bool (*run)(void);
} tests[] = {{"allreduce", test_allreduce}, {"reducescatter", test_reducescatter}, {"allgather", test_allgather}, {"sendrecv", test_sendrecv}, {"graph", test_graph},
           {"link.stall", test_stall},
           {"freeze", test_freeze},
           {"hold", test_hold},
           {"link.rate", test_rate},
           {"proxy.delay", test_delay},
           {"lost", test_lost}};

static bool run(const char *name) {
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (strcmp(tests[i].name, name)) continue;
    bool ok = tests[i].run();
    printf("%s %s\n", ok ? "ok" : "FAILED", name);
    fflush(stdout);
    return ok;
  }
  printf("no case %s\n", name);
  return false;
}

int main(int argc, char **argv) {
  char why[256];
  if (argc < 4) return fprintf(stderr, "usage: nccl_test LIBRARY LAYOUT CASE...\n"), 2;
  void *handle = fakegpu_load_nccl(argv[1], argv[2], why, sizeof why);
  if (!handle) return fprintf(stderr, "nccl_test: %s\n", why), 2;
  bind(handle);
  CHECK(nccl.CommInitAll(comms, DEVICES, NULL));
  for (int d = 0; d < DEVICES; d++) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaStreamCreate(&streams[d]));
    CHECK(cudaMalloc((void **)&in[d], COUNT * sizeof(float)));
    CHECK(cudaMalloc((void **)&out[d], COUNT * sizeof(float)));
  }
  bool ok = true;
  for (int i = 3; i < argc; i++) ok &= run(argv[i]);
  for (int d = 0; d < DEVICES && comms[d]; d++) CHECK(nccl.CommDestroy(comms[d]));
  printf("%s end\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}
