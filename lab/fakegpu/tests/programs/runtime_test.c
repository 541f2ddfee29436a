// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Streams, events, graphs, memory, devices and faults of the played runtime, without NCCL.

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../fakegpu.h"
#include "../../state.h"
#include "check.h"

// Exported by the library, called by NCCL alone.
int cudaEventRecordWithFlags(cudaEvent event, cudaStream stream, unsigned flags);
int cudaStreamGetPriority(cudaStream stream, int *priority);
int cudaStreamIsCapturing(cudaStream stream, int *status);
int cudaUserObjectCreate(void **object, void *arg, void (*destroy)(void *), unsigned count, unsigned flags);
int cudaGraphRetainUserObject(cudaGraph graph, void *object, unsigned count, unsigned flags);
int cudaHostRegister(void *p, size_t n, unsigned flags);
int cudaHostUnregister(void *p);
int cudaDeviceGetPCIBusId(char *id, int size, int device);
int cudaDeviceGetByPCIBusId(int *device, const char *id);
struct ipc_handle {
  char bytes[64];
};
int cudaIpcGetMemHandle(struct ipc_handle *handle, void *address);
int cudaIpcOpenMemHandle(void **address, struct ipc_handle handle, unsigned flags);
int cudaIpcCloseMemHandle(void *address);
int cudaStreamCreateWithFlags(cudaStream *stream, unsigned flags);

enum { NON_BLOCKING = 1, THREAD_LOCAL_CAPTURE = 1 };

static char directory[] = "/tmp/fakegpu-test-XXXXXX";

static void control(int gpu, const char *text) {
  char path[128], next[128];
  snprintf(path, sizeof path, "%s/gpu%d.control", directory, gpu);
  snprintf(next, sizeof next, "%s/next", directory);
  FILE *file = fopen(next, "w");
  CHECK(file);
  fputs(text, file);
  fclose(file);
  CHECK(rename(next, path) == 0);
  usleep(60000);  // longer than between two looks
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// A gate that host functions in streams wait at.
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int open, passed;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static void pass_gate(void *arg) {
  (void)arg;
  pthread_mutex_lock(&gate.lock);
  while (!gate.open) pthread_cond_wait(&gate.changed, &gate.lock);
  gate.passed++;
  pthread_mutex_unlock(&gate.lock);
}

static void set_gate(int open) {
  pthread_mutex_lock(&gate.lock);
  gate.open = open;
  gate.passed = 0;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.lock);
}

static char trail[64];
static pthread_mutex_t trail_lock = PTHREAD_MUTEX_INITIALIZER;

static void append(void *letter) {
  pthread_mutex_lock(&trail_lock);
  size_t n = strlen(trail);
  if (n + 1 < sizeof trail) trail[n] = *(const char *)letter, trail[n + 1] = 0;
  pthread_mutex_unlock(&trail_lock);
}

static bool trail_is(const char *letters) {
  pthread_mutex_lock(&trail_lock);
  bool equal = !strcmp(trail, letters);
  pthread_mutex_unlock(&trail_lock);
  return equal;
}

static void trail_clear(void) {
  pthread_mutex_lock(&trail_lock);
  trail[0] = 0;
  pthread_mutex_unlock(&trail_lock);
}

static void say(cudaStream s, const char *letter) { CHECK_OK(cudaLaunchHostFunc(s, append, (void *)(uintptr_t)letter)); }

static void stream_keeps_order(void) {
  cudaStream s;
  CHECK_OK(cudaStreamCreate(&s));
  trail_clear();
  say(s, "a"), say(s, "b"), say(s, "c");
  CHECK_OK(cudaStreamSynchronize(s));
  CHECK(trail_is("abc"));
  CHECK_OK(cudaStreamDestroy(s));
}

static void stream_tells_whether_it_is_done(void) {
  cudaStream s;
  CHECK_OK(cudaStreamCreate(&s));
  set_gate(0);
  CHECK_OK(cudaLaunchHostFunc(s, pass_gate, NULL));
  CHECK(cudaStreamQuery(s) == CUDA_NOT_READY);
  set_gate(1);
  CHECK_OK(cudaStreamSynchronize(s));
  CHECK_OK(cudaStreamQuery(s));
  CHECK_OK(cudaStreamDestroy(s));
}

static void destroyed_stream_does_its_work(void) {
  cudaStream s;
  CHECK_OK(cudaStreamCreate(&s));
  trail_clear();
  set_gate(0);
  CHECK_OK(cudaLaunchHostFunc(s, pass_gate, NULL));
  say(s, "x");
  CHECK_OK(cudaStreamDestroy(s));
  set_gate(1);
  for (int i = 0; i < 2000 && !trail_is("x"); i++) usleep(5000);
  CHECK(trail_is("x"));
}

static void stream_waits_for_event_of_another(void) {
  cudaStream a, b;
  cudaEvent e;
  CHECK_OK(cudaStreamCreateWithFlags(&a, NON_BLOCKING));
  CHECK_OK(cudaStreamCreateWithFlags(&b, NON_BLOCKING));
  CHECK_OK(cudaEventCreate(&e));
  CHECK_OK(cudaEventQuery(e));  // never recorded
  trail_clear();
  set_gate(0);
  CHECK_OK(cudaLaunchHostFunc(a, pass_gate, NULL));
  say(a, "1");
  CHECK_OK(cudaEventRecord(e, a));
  CHECK_OK(cudaStreamWaitEvent(b, e, 0));
  CHECK_OK(cudaEventRecord(e, a));  // the wait is for the record before
  CHECK_OK(cudaEventDestroy(e));    // while work still uses it
  say(b, "2");
  CHECK(cudaStreamQuery(b) == CUDA_NOT_READY);
  set_gate(1);
  CHECK_OK(cudaStreamSynchronize(b));
  CHECK(trail_is("12"));
  CHECK_OK(cudaStreamDestroy(a));
  CHECK_OK(cudaStreamDestroy(b));
}

static void event_measures_time(void) {
  cudaStream s;
  cudaEvent a, b;
  float ms = 0;
  CHECK_OK(cudaStreamCreate(&s));
  CHECK_OK(cudaEventCreate(&a));
  CHECK_OK(cudaEventCreate(&b));
  CHECK(cudaEventElapsedTime(&ms, a, b) == CUDA_INVALID_HANDLE);
  CHECK_OK(cudaEventRecord(a, s));
  CHECK_OK(fakegpu_compute(s, 40));
  CHECK_OK(cudaEventRecord(b, s));
  CHECK_OK(cudaEventSynchronize(b));
  CHECK_OK(cudaEventElapsedTime(&ms, a, b));
  CHECK(ms >= 40);
  CHECK_OK(cudaEventDestroy(a));
  CHECK_OK(cudaEventDestroy(b));
  CHECK_OK(cudaStreamDestroy(s));
}

static void default_stream_waits_for_blocking_streams(void) {
  cudaStream blocking, apart;
  CHECK_OK(cudaStreamCreate(&blocking));
  CHECK_OK(cudaStreamCreateWithFlags(&apart, NON_BLOCKING));
  trail_clear();
  set_gate(0);
  CHECK_OK(cudaLaunchHostFunc(blocking, pass_gate, NULL));
  say(blocking, "1");
  say(NULL, "2");
  say(blocking, "3");
  say(apart, "0");
  CHECK_OK(cudaStreamSynchronize(apart));
  CHECK(cudaStreamQuery(NULL) == CUDA_NOT_READY);
  set_gate(1);
  CHECK_OK(cudaDeviceSynchronize());
  CHECK(trail_is("0123"));
  CHECK_OK(cudaStreamDestroy(blocking));
  CHECK_OK(cudaStreamDestroy(apart));
}

static void priorities_are_kept_within_the_range(void) {
  cudaStream s;
  int least, greatest, priority;
  CHECK_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest < least);
  CHECK_OK(cudaStreamCreateWithPriority(&s, NON_BLOCKING, -100));
  CHECK_OK(cudaStreamGetPriority(s, &priority));
  CHECK(priority == greatest);
  CHECK_OK(cudaStreamDestroy(s));
}

static void copies_and_sets(void) {
  int *device, host[256], back[256];
  for (int i = 0; i < 256; i++) host[i] = i;
  CHECK_OK(cudaMalloc((void **)&device, sizeof host));
  CHECK_OK(cudaMemcpy(device, host, sizeof host, CUDA_MEMCPY_DEFAULT));
  CHECK_OK(cudaMemcpy(back, device, sizeof back, CUDA_MEMCPY_DEFAULT));
  CHECK(!memcmp(host, back, sizeof host));
  CHECK_OK(cudaMemset(device, 0, sizeof host));
  CHECK_OK(cudaMemcpy(back, device, sizeof back, CUDA_MEMCPY_DEFAULT));
  CHECK(back[255] == 0);
  CHECK_OK(cudaFree(device));
  CHECK(cudaFree(device) == CUDA_INVALID_VALUE);
  CHECK_OK(cudaFree(NULL));
  CHECK_OK(cudaHostRegister(host, sizeof host, 0));
  CHECK(cudaHostRegister(host, sizeof host, 0) == CUDA_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK_OK(cudaHostUnregister(host));
  CHECK(cudaHostUnregister(host) == CUDA_HOST_MEMORY_NOT_REGISTERED);
}

static void pageable_memory_is_read_at_once(void) {
  cudaStream s;
  int *device, host = 1, back = 0;
  CHECK_OK(cudaStreamCreateWithFlags(&s, NON_BLOCKING));
  CHECK_OK(cudaMalloc((void **)&device, sizeof host));
  set_gate(0);
  CHECK_OK(cudaLaunchHostFunc(s, pass_gate, NULL));
  CHECK_OK(cudaMemcpyAsync(device, &host, sizeof host, CUDA_MEMCPY_DEFAULT, s));
  host = 2;
  set_gate(1);
  CHECK_OK(cudaStreamSynchronize(s));
  CHECK_OK(cudaMemcpy(&back, device, sizeof back, CUDA_MEMCPY_DEFAULT));
  CHECK(back == 1);
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaStreamDestroy(s));
}

// One process fills memory of another.
static void memory_of_another_process(void) {
  enum { INTS = 5000 };
  struct ipc_handle handle;
  int *ours, status;
  CHECK_OK(cudaMalloc((void **)&ours, INTS * sizeof *ours));
  for (int i = 0; i < INTS; i++) ours[i] = i;
  CHECK_OK(cudaIpcGetMemHandle(&handle, ours + 100));  // the handle is the allocation's
  pid_t child = fork();
  if (child == 0) {
    int *theirs = NULL;
    CHECK_OK(cudaIpcOpenMemHandle((void **)&theirs, handle, 0));
    CHECK(theirs != ours && theirs[INTS - 1] == INTS - 1);
    for (int i = 0; i < INTS; i++) theirs[i] = 2 * i;
    CHECK(cudaFree(theirs) == CUDA_INVALID_VALUE);
    CHECK_OK(cudaIpcCloseMemHandle(theirs));
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(ours[INTS - 1] == 2 * (INTS - 1));
  CHECK_OK(cudaFree(ours));
  void *gone;
  CHECK(cudaIpcOpenMemHandle(&gone, handle, 0) == CUDA_INVALID_HANDLE);
  int host;
  CHECK(cudaIpcGetMemHandle(&handle, &host) == CUDA_INVALID_VALUE);
}

static void *device_of_a_thread(void *arg) {
  CHECK_OK(cudaGetDevice(arg));
  return NULL;
}

static void devices_are_a_threads_own(void) {
  int n, device = -1;
  pthread_t thread;
  char id[32];
  CHECK_OK(cudaGetDeviceCount(&n));
  CHECK(n == 2);
  CHECK(cudaSetDevice(2) == CUDA_INVALID_DEVICE);
  CHECK_OK(cudaSetDevice(1));
  CHECK(pthread_create(&thread, NULL, device_of_a_thread, &device) == 0);
  pthread_join(thread, NULL);
  CHECK(device == 0);
  CHECK_OK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
  CHECK(!strcmp(id, "0000:11:00.0"));
  CHECK_OK(cudaDeviceGetByPCIBusId(&device, id));
  CHECK(device == 1);
  CHECK_OK(cudaSetDevice(0));
}

static void state_counts_memory_and_time(void) {
  char path[128];
  void *p;
  struct fakegpu_state before, after;
  snprintf(path, sizeof path, "%s/gpu1.state", directory);
  CHECK_OK(cudaSetDevice(1));
  CHECK_OK(fakegpu_compute(NULL, 1));
  CHECK_OK(cudaDeviceSynchronize());
  int fd = open(path, O_RDONLY);
  CHECK(pread(fd, &before, sizeof before, 0) == sizeof before);
  CHECK(before.magic == STATE_MAGIC && before.version == STATE_VERSION && before.processes[0].pid == (uint32_t)getpid());
  CHECK_OK(cudaMalloc(&p, 1 << 20));
  CHECK_OK(fakegpu_compute(NULL, 30));
  CHECK_OK(cudaDeviceSynchronize());
  CHECK(pread(fd, &after, sizeof after, 0) == sizeof after);
  CHECK(after.memory_bytes - before.memory_bytes == 1 << 20);
  CHECK(after.processes[0].memory_bytes - before.processes[0].memory_bytes == 1 << 20);
  CHECK(after.busy_ns - before.busy_ns >= 30000000);
  CHECK_OK(cudaFree(p));
  CHECK(pread(fd, &after, sizeof after, 0) == sizeof after);
  CHECK(after.memory_bytes == before.memory_bytes);
  control(1, "freeze 1\n");
  CHECK_OK(fakegpu_compute(NULL, 1));
  double end = now() + 20;
  do {  // a frozen kernel is busy before it ends
    usleep(20000);
    CHECK(pread(fd, &after, sizeof after, 0) == sizeof after && now() < end);
  } while (after.busy_ns - before.busy_ns < 130000000);
  control(1, "");
  CHECK_OK(cudaDeviceSynchronize());
  close(fd);
  CHECK_OK(cudaSetDevice(0));
}

// Whether work ends within the time; a healthy GPU takes 10 ms for it.
static bool ends_within(cudaStream s, double seconds) {
  CHECK_OK(fakegpu_compute(s, 10));
  for (double end = now() + seconds; now() < end; usleep(2000)) {
    if (cudaStreamQuery(s) == CUDA_OK) return true;
  }
  return false;
}

static void faults_strike_and_heal(void) {
  cudaStream s;
  CHECK_OK(cudaStreamCreate(&s));
  CHECK(ends_within(s, 30));
  const char *stopping[] = {"freeze 1\n", "hold 1\n", "temperature 50\nhold 1\n", "speed 0.001\n"};
  for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++) {
    control(0, stopping[i]);
    CHECK(!ends_within(s, 0.3));
    control(0, "");
    CHECK_OK(cudaStreamSynchronize(s));
  }
  control(0, "speed 0.25\n");
  double begin = now();
  CHECK(ends_within(s, 30));
  CHECK(now() - begin >= 0.04);
  control(0, "hold 0\nfreeze 0\n");
  CHECK(ends_within(s, 30));
  control(1, "hold 1\n");  // another GPU's
  CHECK(ends_within(s, 30));
  control(1, "");
  CHECK_OK(cudaStreamDestroy(s));
}

static void lost_gpu_fails_what_runs_and_what_is_asked(void) {
  cudaStream s;
  void *p;
  CHECK_OK(cudaSetDevice(1));
  CHECK_OK(cudaStreamCreate(&s));
  control(1, "freeze 1\n");
  CHECK_OK(fakegpu_compute(s, 10));
  control(1, "freeze 1\nlost 1\n");
  CHECK(cudaStreamSynchronize(s) == CUDA_DEVICES_UNAVAILABLE);
  CHECK(fakegpu_compute(s, 1) == CUDA_DEVICES_UNAVAILABLE);
  CHECK(cudaMalloc(&p, 4096) == CUDA_DEVICES_UNAVAILABLE);
  CHECK_OK(cudaSetDevice(0));
  CHECK_OK(cudaMalloc(&p, 4096));
  CHECK_OK(cudaFree(p));
  control(1, "");
  CHECK_OK(cudaStreamDestroy(s));
}

static cudaGraphExec captured(cudaStream s, cudaStream forked) {
  cudaGraph graph;
  cudaGraphExec exec;
  cudaEvent fork, join;
  int status;
  CHECK_OK(cudaEventCreate(&fork));
  CHECK_OK(cudaEventCreate(&join));
  CHECK_OK(cudaStreamBeginCapture(s, THREAD_LOCAL_CAPTURE));
  say(s, "a");
  CHECK_OK(cudaEventRecord(fork, s));
  CHECK_OK(cudaStreamWaitEvent(forked, fork, 0));
  CHECK_OK(cudaStreamIsCapturing(forked, &status));
  CHECK(status == 1);
  CHECK_OK(cudaLaunchHostFunc(forked, pass_gate, NULL));
  say(forked, "c");
  say(s, "b");  // does not wait at the gate
  CHECK_OK(cudaEventRecord(join, forked));
  CHECK_OK(cudaStreamWaitEvent(s, join, 0));
  say(s, "d");
  CHECK_OK(cudaStreamEndCapture(s, &graph));
  CHECK_OK(cudaStreamIsCapturing(forked, &status));
  CHECK(status == 0);
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaEventDestroy(fork));
  CHECK_OK(cudaEventDestroy(join));
  return exec;
}

static void graph_runs_its_branches_side_by_side(void) {
  cudaStream s, forked;
  CHECK_OK(cudaStreamCreateWithFlags(&s, NON_BLOCKING));
  CHECK_OK(cudaStreamCreateWithFlags(&forked, NON_BLOCKING));
  trail_clear();
  cudaGraphExec exec = captured(s, forked);
  CHECK(trail_is(""));  // captured is not run
  for (int i = 0; i < 20; i++) {
    trail_clear();
    set_gate(0);
    CHECK_OK(cudaGraphLaunch(exec, s));
    for (int k = 0; k < 4000 && !trail_is("ab"); k++) usleep(5000);
    CHECK(trail_is("ab"));
    set_gate(1);
    CHECK_OK(cudaStreamSynchronize(s));
    CHECK(trail_is("abcd"));
  }
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaStreamDestroy(s));
  CHECK_OK(cudaStreamDestroy(forked));
}

static void count(void *arg) { ++*(int *)arg; }

static void graph_keeps_user_objects(void) {
  cudaStream s;
  cudaGraph graph;
  cudaGraphExec exec;
  void *object;
  int destroyed = 0;
  CHECK_OK(cudaStreamCreate(&s));
  CHECK_OK(cudaStreamBeginCapture(s, THREAD_LOCAL_CAPTURE));
  CHECK_OK(cudaLaunchHostFunc(s, pass_gate, NULL));
  CHECK_OK(cudaStreamEndCapture(s, &graph));
  CHECK_OK(cudaUserObjectCreate(&object, &destroyed, count, 1, 1));
  CHECK_OK(cudaGraphRetainUserObject(graph, object, 1, 1));
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_OK(cudaGraphDestroy(graph));
  set_gate(0);
  CHECK_OK(cudaGraphLaunch(exec, s));
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK(destroyed == 0);  // a launch is under way
  set_gate(1);
  CHECK_OK(cudaStreamSynchronize(s));
  CHECK_OK(cudaStreamDestroy(s));
  for (int i = 0; i < 2000 && __atomic_load_n(&destroyed, __ATOMIC_ACQUIRE) == 0; i++) usleep(5000);
  CHECK(destroyed == 1);
}

static void graph_records_and_waits_for_events_outside(void) {
  enum { EXTERNAL = 1 };
  cudaStream s, other;
  cudaEvent begin, end;
  cudaGraph graph;
  cudaGraphExec exec;
  CHECK_OK(cudaStreamCreateWithFlags(&s, NON_BLOCKING));
  CHECK_OK(cudaStreamCreateWithFlags(&other, NON_BLOCKING));
  CHECK_OK(cudaEventCreate(&begin));
  CHECK_OK(cudaEventCreate(&end));
  CHECK_OK(cudaStreamBeginCapture(s, THREAD_LOCAL_CAPTURE));
  CHECK_OK(cudaStreamWaitEvent(s, begin, EXTERNAL));
  say(s, "g");
  CHECK_OK(cudaEventRecordWithFlags(end, s, EXTERNAL));
  CHECK_OK(cudaStreamEndCapture(s, &graph));
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 5; i++) {
    trail_clear();
    set_gate(0);
    CHECK_OK(cudaLaunchHostFunc(other, pass_gate, NULL));
    say(other, "1");
    CHECK_OK(cudaEventRecord(begin, other));
    CHECK_OK(cudaGraphLaunch(exec, s));
    CHECK_OK(cudaStreamWaitEvent(other, end, 0));
    say(other, "2");
    set_gate(1);
    CHECK_OK(cudaStreamSynchronize(other));
    CHECK(trail_is("1g2"));
    CHECK_OK(cudaStreamSynchronize(s));
  }
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaEventDestroy(begin));
  CHECK_OK(cudaEventDestroy(end));
  CHECK_OK(cudaStreamDestroy(s));
  CHECK_OK(cudaStreamDestroy(other));
}

// As a communicator's stream beside the compute: the ways through the graph double each time.
static void capture_of_streams_that_part_and_meet_a_hundred_times(void) {
  cudaStream s, other;
  cudaEvent fork, join;
  cudaGraph graph;
  CHECK_OK(cudaStreamCreateWithFlags(&s, NON_BLOCKING));
  CHECK_OK(cudaStreamCreateWithFlags(&other, NON_BLOCKING));
  CHECK_OK(cudaEventCreate(&fork));
  CHECK_OK(cudaEventCreate(&join));
  CHECK_OK(cudaStreamBeginCapture(s, THREAD_LOCAL_CAPTURE));
  for (int i = 0; i < 100; i++) {
    CHECK_OK(cudaEventRecord(fork, s));
    CHECK_OK(cudaStreamWaitEvent(other, fork, 0));
    say(s, "a");
    say(other, "b");
    CHECK_OK(cudaEventRecord(join, other));
    CHECK_OK(cudaStreamWaitEvent(s, join, 0));
  }
  CHECK_OK(cudaStreamEndCapture(s, &graph));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaEventDestroy(fork));
  CHECK_OK(cudaEventDestroy(join));
  CHECK_OK(cudaStreamDestroy(s));
  CHECK_OK(cudaStreamDestroy(other));
}

static void capture_says_what_is_wrong(void) {
  cudaStream s, other;
  cudaEvent e;
  cudaGraph graph;
  CHECK_OK(cudaStreamCreateWithFlags(&s, NON_BLOCKING));
  CHECK_OK(cudaStreamCreateWithFlags(&other, NON_BLOCKING));
  CHECK_OK(cudaEventCreate(&e));
  CHECK(cudaStreamBeginCapture(NULL, THREAD_LOCAL_CAPTURE) == CUDA_CAPTURE_UNSUPPORTED);
  CHECK(cudaStreamEndCapture(s, &graph) == CUDA_ILLEGAL_STATE);

  CHECK_OK(cudaStreamBeginCapture(s, THREAD_LOCAL_CAPTURE));
  CHECK(cudaStreamSynchronize(s) == CUDA_CAPTURE_UNSUPPORTED);
  CHECK(cudaStreamEndCapture(s, &graph) == CUDA_CAPTURE_INVALIDATED && !graph);

  CHECK_OK(cudaStreamBeginCapture(s, THREAD_LOCAL_CAPTURE));
  say(s, "a");
  CHECK_OK(cudaEventRecord(e, s));
  CHECK_OK(cudaStreamWaitEvent(other, e, 0));
  say(other, "b");
  CHECK(cudaStreamEndCapture(other, &graph) == CUDA_CAPTURE_UNMATCHED);
  CHECK(cudaStreamEndCapture(s, &graph) == CUDA_CAPTURE_UNJOINED);
  CHECK(cudaStreamWaitEvent(other, e, 0) == CUDA_CAPTURED_EVENT);

  CHECK_OK(cudaEventRecord(e, other));
  CHECK_OK(cudaStreamBeginCapture(s, THREAD_LOCAL_CAPTURE));
  CHECK(cudaStreamWaitEvent(s, e, 0) == CUDA_CAPTURE_ISOLATION);
  CHECK(cudaStreamEndCapture(s, &graph) == CUDA_CAPTURE_INVALIDATED);
  CHECK_OK(cudaEventDestroy(e));
  CHECK_OK(cudaStreamDestroy(s));
  CHECK_OK(cudaStreamDestroy(other));
}

static void many_streams_leave_no_threads(void) {
  for (int i = 0; i < 2000; i++) {
    cudaStream s;
    CHECK_OK(cudaStreamCreate(&s));
    if (i % 2) CHECK_OK(fakegpu_compute(s, 0));
    CHECK_OK(cudaStreamDestroy(s));
  }
  for (int i = 0, threads = 100; threads > 20; i++) {
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) sscanf(line, "Threads: %d", &threads);
    fclose(file);
    CHECK(i < 1000);
    usleep(10000);
  }
}

static void load_says_what_is_missing(void) {
  char why[256] = "";
  CHECK(!fakegpu_load_nccl("/no/such/libnccl.so.2", "/no/such/layout", why, sizeof why));
  CHECK(strstr(why, "/no/such/libnccl.so.2"));
  CHECK(!fakegpu_load_nccl("libm.so.6", "/no/such/layout", why, sizeof why));
  CHECK(strstr(why, "symbol table"));
}

int main(void) {
  char path[128];
  CHECK(mkdtemp(directory));
  setenv("FAKEGPU_DIR", directory, 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  snprintf(path, sizeof path, "%s/node", directory);
  FILE *file = fopen(path, "w");
  fputs("name test\ngpus 2\n", file);
  fclose(file);
  RUN(stream_keeps_order);
  RUN(stream_tells_whether_it_is_done);
  RUN(destroyed_stream_does_its_work);
  RUN(stream_waits_for_event_of_another);
  RUN(event_measures_time);
  RUN(default_stream_waits_for_blocking_streams);
  RUN(priorities_are_kept_within_the_range);
  RUN(copies_and_sets);
  RUN(pageable_memory_is_read_at_once);
  RUN(memory_of_another_process);
  RUN(devices_are_a_threads_own);
  RUN(state_counts_memory_and_time);
  RUN(faults_strike_and_heal);
  RUN(lost_gpu_fails_what_runs_and_what_is_asked);
  RUN(graph_runs_its_branches_side_by_side);
  RUN(graph_keeps_user_objects);
  RUN(graph_records_and_waits_for_events_outside);
  RUN(capture_of_streams_that_part_and_meet_a_hundred_times);
  RUN(capture_says_what_is_wrong);
  RUN(many_streams_leave_no_threads);
  RUN(load_says_what_is_missing);
  const char *files[] = {"node", "gpu0.control", "gpu1.control", "gpu0.state", "gpu1.state"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(path, sizeof path, "%s/%s", directory, files[i]);
    unlink(path);
  }
  CHECK(rmdir(directory) == 0);
  return 0;
}
