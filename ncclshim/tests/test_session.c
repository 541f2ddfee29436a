// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The file's life: where and how it is made, what it says about the process, what happens when it cannot be made, and what
// is left after a kill, a fork, an exit.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void *init_one(void) { return nccl_init(1, NULL, 2, 4, 0); }

// works says whether tracing runs, by an operation showing up.
static void check_traced(void *comm) {
  struct view v = view_open();
  nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  struct culprit_op o;
  CHECK(view_find_op(&v, 1, 0, &o));
}

// check_untraced: the job runs on, every event is taken and nothing happens.
static void check_untraced(void *comm) {
  CHECK_EQ(nccl_mask, 0);
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  void *p = nccl_proxy(comm, op, 0, 1, 1, 1);
  CHECK(op == NULL && p == NULL);
  nccl_send_steps(comm, p, 0, 1, 1);
  nccl_stop(p);
  nccl_finalize(comm);
}

static void header(void) {
  setenv("RANK", "5", 1);
  setenv("WORLD_SIZE", "16", 1);
  setenv("LOCAL_RANK", "1", 1);
  setenv("GROUP_RANK", "2", 1);
  setenv("SLURM_PROCID", "99", 1);
  setenv("SLURM_JOB_ID", "4711", 1);
  setenv("SLURM_STEP_ID", "0", 1);
  setenv("POD_NAME", "trainer-5", 1);
  setenv("POD_NAMESPACE", "ml", 1);
  setenv("POD_UID", "of the pod's author", 1);
  setenv("CULPRIT_POD_UID", "1d9b-uid", 1);
  setenv("CUDA_VISIBLE_DEVICES", "4,6,7", 1);
  setenv("CULPRIT_HOSTNAME", "node-a", 1);
  nccl_load(6);
  void *comm = init_one();
  struct view v = view_open();
  const struct culprit_header *h = v.header;
  CHECK_EQ(h->version_major, CULPRIT_TRACE_MAJOR);
  CHECK_EQ(h->header_bytes, 4096);
  CHECK_EQ(h->pid, getpid());
  CHECK_EQ(h->rank, 5);
  CHECK_EQ(h->world_size, 16);
  CHECK_EQ(h->local_rank, 1);
  CHECK_EQ(h->node_rank, 2);
  CHECK_EQ(h->gpu_index, 6);
  CHECK_TEXT(h->visible_devices, "4,6,7");
  CHECK_TEXT(h->job_id, "4711");
  CHECK_TEXT(h->slurm_job_id, "4711");
  CHECK_TEXT(h->slurm_step_id, "0");
  CHECK_TEXT(h->pod_name, "trainer-5");
  CHECK_TEXT(h->pod_namespace, "ml");
  CHECK_TEXT(h->pod_uid, "1d9b-uid");
  CHECK_TEXT(h->hostname, "node-a");
  CHECK_EQ(strlen(h->boot_id), 36);
  CHECK(h->process_name[0] != '\0');
  CHECK(h->shim_version[0] != '\0');
  struct stat ns;
  CHECK(stat("/proc/self/ns/pid", &ns) == 0);
  CHECK_EQ(h->pid_namespace, ns.st_ino);
  CHECK(h->start_ticks != 0);
  const int64_t drift = (int64_t)(h->created_real_ns - h->created_ns - VIEW_HEAD(&v, real_minus_mono_ns));
  CHECK(llabs(drift) < 1000000000);
  CHECK_EQ(h->event_mask, nccl_mask);
  CHECK(view_has_lifecycle(&v, CULPRIT_LIFE_PROCESS_START, 0));
  CHECK_EQ(h->writer_abi, 6);
  CHECK(view_has_lifecycle(&v, CULPRIT_LIFE_COMM_CREATED, 4));
  CHECK_EQ(h->closed_ns, 0);

  char name[128];
  snprintf(name, sizeof name, "/%d-%llu-", getpid(), (unsigned long long)h->start_ticks);
  CHECK(strstr(v.path, name) != NULL);
  struct stat st;
  CHECK(stat(v.path, &st) == 0);
  CHECK_EQ(st.st_mode & 07777, 0644);
  CHECK(st.st_size <= 8 << 20);
  CHECK(st.st_blocks * 512 >= st.st_size);  // Every page is claimed.
  nccl_finalize(comm);
}

static void sections(void) {
  nccl_load(6);
  init_one();
  struct view v = view_open();
  const uint32_t kinds[] = {CULPRIT_SECTION_COMMS, CULPRIT_SECTION_OPS, CULPRIT_SECTION_FLOWS, CULPRIT_SECTION_COMPLETIONS,
                            CULPRIT_SECTION_LIFECYCLE};
  const uint32_t least[] = {sizeof(struct culprit_comm), sizeof(struct culprit_op), sizeof(struct culprit_flow),
                            sizeof(struct culprit_completion), sizeof(struct culprit_lifecycle)};
  uint64_t end = v.header->header_bytes;
  for (int i = 0; i < 5; i++) {
    const struct culprit_section *s = view_section(&v, kinds[i]);
    CHECK(s->entry_bytes >= least[i] && s->entry_bytes % 8 == 0);
    CHECK_EQ(s->offset % 4096, 0);
    CHECK(s->offset >= end);
    end = s->offset + (uint64_t)s->entry_bytes * s->count;
  }
  CHECK(end <= v.header->file_bytes);
  CHECK_EQ(view_section(&v, CULPRIT_SECTION_COMMS)->count, 256);
}

static void slurm_ranks(void) {
  setenv("SLURM_PROCID", "7", 1);
  setenv("SLURM_NTASKS", "8", 1);
  setenv("SLURM_LOCALID", "3", 1);
  setenv("SLURM_NODEID", "1", 1);
  setenv("CULPRIT_JOB_ID", "llama", 1);
  setenv("SLURM_JOB_ID", "12", 1);
  setenv("CULPRIT_GPU", "2", 1);
  setenv("CULPRIT_GPU_UUID", "GPU-x", 1);
  nccl_load(5);
  init_one();
  struct view v = view_open();
  CHECK_EQ(v.header->rank, 7);
  CHECK_EQ(v.header->world_size, 8);
  CHECK_EQ(v.header->local_rank, 3);
  CHECK_EQ(v.header->node_rank, 1);
  CHECK_EQ(v.header->gpu_index, 2);
  CHECK_TEXT(v.header->gpu_uuid, "GPU-x");
  CHECK_TEXT(v.header->job_id, "llama");
}

static void unknown_ranks(void) {
  setenv("RANK", "not a number", 1);
  setenv("CUDA_VISIBLE_DEVICES", "GPU-11112222-3333-4444-5555-666677778888", 1);
  nccl_load(4);
  init_one();
  struct view v = view_open();
  CHECK_EQ(v.header->rank, -1);
  CHECK_EQ(v.header->world_size, -1);
  CHECK_EQ(v.header->gpu_index, -1);
  CHECK_TEXT(v.header->gpu_uuid, "GPU-11112222-3333-4444-5555-666677778888");
}

// Two ranks of one communicator in one process: the GPU tells them apart.
static void ranks_in_one_process(void) {
  CHECK(dlopen(getenv("FAKECUDA"), RTLD_NOW) != NULL);
  setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7", 1);
  nccl_load(6);
  for (int rank = 0; rank < 2; rank++) {
    setenv("FAKECUDA_DEVICE", rank == 0 ? "2" : "0", 1);
    nccl_init(0x11, "world", 1, 2, rank);
  }
  struct view v = view_open();
  static const struct {
    int device, index;
    const char *uuid, *pci;
  } want[] = {{2, 6, "GPU-a2a2a2a2-a2a2-a2a2-a2a2-a2a2a2a2a2a2", "0000:1A:00.0"}, {0, 4, "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0", "0000:18:00.0"}};
  for (uint32_t i = 0; i < 2; i++) {
    struct culprit_comm c;
    CHECK(view_comm(&v, i, &c));
    CHECK_EQ(c.rank, (int)i);
    CHECK_EQ(c.device, want[i].device);
    CHECK_EQ(c.gpu_index, want[i].index);
    CHECK_TEXT(c.gpu_uuid, want[i].uuid);
    CHECK_TEXT(c.gpu_pci_bus_id, want[i].pci);
  }
}

static void disabled(void) {
  setenv("CULPRIT_DISABLE", "1", 1);
  nccl_load(6);
  check_untraced(init_one());
  CHECK_EQ(view_files(), 0);
}

static void mode_and_size(void) {
  setenv("CULPRIT_MODE", "0640", 1);
  setenv("CULPRIT_SIZE_MB", "2", 1);
  umask(077);
  nccl_load(6);
  init_one();
  struct view v = view_open();
  struct stat st;
  CHECK(stat(v.path, &st) == 0);
  CHECK_EQ(st.st_mode & 07777, 0640);
  CHECK(st.st_size <= 2 << 20 && st.st_size > 1 << 20);
}

static void bad_settings_fall_back(void) {
  setenv("CULPRIT_SIZE_MB", "huge", 1);
  setenv("CULPRIT_EVENTS", "coll,nosuch,proxyop", 1);
  nccl_load(6);
  void *comm = init_one();
  CHECK(strstr(nccl_log, "CULPRIT_SIZE_MB") != NULL);
  CHECK(strstr(nccl_log, "nosuch") != NULL);
  CHECK_EQ(nccl_mask, CULPRIT_NCCL_COLL | CULPRIT_NCCL_PROXY_OP);
  check_traced(comm);
}

static void default_masks(void) {
  nccl_load(4);
  init_one();
  const int operations = CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P | CULPRIT_NCCL_PROXY_OP | CULPRIT_NCCL_PROXY_STEP;
  CHECK_EQ(nccl_mask, operations);
}

static void default_mask_v6(void) {
  nccl_load(6);
  init_one();
  const int wanted = CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P | CULPRIT_NCCL_PROXY_OP | CULPRIT_NCCL_PROXY_STEP |
                     CULPRIT_NCCL_GROUP_API | CULPRIT_NCCL_COLL_API | CULPRIT_NCCL_P2P_API | CULPRIT_NCCL_CE_COLL;
  CHECK_EQ(nccl_mask & ~CULPRIT_NCCL_KERNEL_CH, wanted);  // KernelCh depends on the room in /dev/shm.
  struct view v = view_open();
  CHECK_EQ((v.header->capabilities & CULPRIT_CAP_KERNEL_CH) != 0, (nccl_mask & CULPRIT_NCCL_KERNEL_CH) != 0);
  CHECK((v.header->capabilities & CULPRIT_CAP_PEER_WAIT) != 0);
  CHECK((v.header->capabilities & CULPRIT_CAP_API_EVENTS) != 0);
}

static void makes_directory(void) {
  char path[256];
  snprintf(path, sizeof path, "%s/sub", harness_directory());
  setenv("CULPRIT_DIR", path, 1);
  umask(077);
  nccl_load(6);
  init_one();
  struct stat st;
  CHECK(stat(path, &st) == 0);
  CHECK_EQ(st.st_mode & 07777, 01777);
}

static void missing_parent(void) {
  char path[256];
  snprintf(path, sizeof path, "%s/a/b", harness_directory());
  setenv("CULPRIT_DIR", path, 1);
  nccl_load(6);
  check_untraced(init_one());
  CHECK(strstr(nccl_log, "making the trace directory") != NULL);
  CHECK(strstr(nccl_log, "the job runs on") != NULL);
  nccl_log[0] = '\0';
  check_untraced(nccl_init(2, NULL, 1, 2, 0));
  CHECK_TEXT(nccl_log, "");  // Said once.
}

static void directory_is_a_file(void) {
  setenv("CULPRIT_DIR", "/dev/null", 1);
  nccl_load(6);
  check_untraced(init_one());
  CHECK(strstr(nccl_log, "opening the trace directory in /dev/null") != NULL);
}

static void unwritable_directory(void) {
  CHECK(chmod(harness_directory(), 0555) == 0);
  const uid_t self = geteuid();
  if (self == 0) CHECK(seteuid(65534) == 0);  // Root may write anywhere.
  nccl_load(6);
  check_untraced(init_one());
  CHECK(strstr(nccl_log, "making this user's trace directory") != NULL);
  CHECK(seteuid(self) == 0);
}

// Room that cannot be had is found out at the start and not as a SIGBUS later. RLIMIT_FSIZE stands in for a full disk.
static void no_room(void) {
  signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {.rlim_cur = 64 << 10, .rlim_max = 64 << 10};
  CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  nccl_load(6);
  check_untraced(init_one());
  CHECK(strstr(nccl_log, "reserving room for the trace file") != NULL);
  CHECK_EQ(view_files(), 0);  // Nothing half made is left.
}

static void without_logger(void) {
  setenv("CULPRIT_DIR", "/dev/null", 1);
  nccl_logger = NULL;
  nccl_load(6);
  fclose(stderr);  // The line goes there; it must not matter whether anybody listens.
  check_untraced(init_one());
}

// The process is killed in the middle of an operation: the file tells where it was.
static void survives_kill(void) {
  int ready[2];
  CHECK(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    nccl_load(6);
    void *comm = nccl_init(1, NULL, 2, 4, 0);
    void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1, .seq = 3});
    void *p = nccl_proxy(comm, op, 0, 1, 4, 1);
    nccl_send_steps(comm, p, 0, 1, 10);
    nccl_state(nccl_step(comm, p, 1), CULPRIT_NCCL_SEND_GPU_WAIT, 0);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char c;
  CHECK(read(ready[0], &c, 1) == 1);
  struct view v = view_open();
  const int fd = open(v.path, O_RDONLY);
  CHECK(flock(fd, LOCK_EX | LOCK_NB) != 0);  // Held while it lives.
  kill(child, SIGKILL);
  CHECK(waitpid(child, NULL, 0) == child);
  CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
  struct culprit_flow f;
  CHECK(view_find_flow(&v, 1, 0, 1, 1, &f));
  CHECK_EQ(f.state, CULPRIT_FLOW_SEND_GPU);
  CHECK_EQ(f.done, 1);
  CHECK_EQ(f.op_seq, 3);
  CHECK_EQ(v.header->closed_ns, 0);
  CHECK(!view_has_lifecycle(&v, CULPRIT_LIFE_PROCESS_END, 0));
}

// A job closes descriptors that it does not know. The mapping keeps the file and its lock, and events go on arriving.
static void descriptors_are_closed(void) {
  nccl_load(6);
  void *comm = init_one();
  for (int fd = 3; fd < 1024; fd++) close(fd);
  struct view v = view_open();
  const int another = open(v.path, O_RDONLY);
  CHECK(flock(another, LOCK_EX | LOCK_NB) != 0);
  CHECK(nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1}) != NULL);
  struct culprit_op o;
  CHECK(view_find_op(&v, 1, 0, &o));
}

// A child of a fork shares the mapping. Nothing that it does reaches the file.
static void fork_writes_nothing(void) {
  nccl_load(6);
  void *comm = init_one();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  void *p = nccl_proxy(comm, op, 0, 1, 4, 1);
  void *s = nccl_step(comm, p, 0);
  struct view v = view_open();
  unsigned char *before = malloc(v.bytes);
  memcpy(before, v.base, v.bytes);
  const pid_t child = fork();
  if (child == 0) {
    nccl_state(s, CULPRIT_NCCL_SEND_GPU_WAIT, 0);
    nccl_state(s, CULPRIT_NCCL_SEND_PEER_WAIT, 0);
    nccl_stop(s);
    nccl_stop(p);
    nccl_send_steps(comm, p, 0, 2, 1);
    nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
    nccl_kernels(comm, op, 1, 1);
    nccl_proxy(comm, op, 1, 1, 1, 1);
    void *other = nccl_init(9, NULL, 1, 2, 0);
    if (other != NULL) _exit(1);
    nccl_finalize(comm);
    exit(0);  // With its exit handlers.
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_EQ(status, 0);
  CHECK(memcmp(before, v.base, v.bytes) == 0);
  free(before);
  nccl_mask = 1;
  nccl_send_steps(comm, p, 0, 1, 1);  // The parent goes on.
  struct culprit_flow f;
  CHECK(view_find_flow(&v, 1, 0, 1, 1, &f));
  CHECK_EQ(f.done, 1);
}

static void exit_is_noted(void) {
  const pid_t child = fork();
  if (child == 0) {
    nccl_load(6);
    init_one();
    exit(0);
  }
  CHECK(waitpid(child, NULL, 0) == child);
  struct view v = view_open();
  CHECK(v.header->closed_ns != 0);
  CHECK(view_has_lifecycle(&v, CULPRIT_LIFE_PROCESS_END, 0));
}

// A copy of the plugin at another path is another instance: it finds the process traced, and stays out.
static void copy_of_the_plugin(void) {
  nccl_load(6);
  void *comm = nccl_init(1, NULL, 2, 2, 0);
  char copy[256], command[600];
  snprintf(copy, sizeof copy, "%s/copy.so", harness_directory());
  snprintf(command, sizeof command, "cp %s %s", getenv("PLUGIN"), copy);
  CHECK_EQ(system(command), 0);
  setenv("PLUGIN", copy, 1);
  nccl_load(6);
  CHECK(nccl_init(1, NULL, 2, 2, 0) == NULL);
  CHECK_EQ(nccl_mask, 0);
  CHECK(strstr(nccl_log, "another copy") != NULL);
  struct view v = view_open();  // One file.
  CHECK_EQ(v.header->comms_high, 1);
  (void)comm;
}

// NCCL unmaps the plugin with its last communicator. It stays, handlers and threads may still run its code, and a new
// communicator goes on with the same file.
static void dlclose_and_again(void) {
  nccl_load(6);
  void *comm = init_one();
  void *op = nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
  nccl_finalize(comm);
  struct view v = view_open();
  CHECK(v.header->closed_ns != 0);
  nccl_unload();
  nccl_stop(op);  // Would crash if unmapped.
  nccl_load(6);
  comm = nccl_init(2, "second", 2, 4, 0);
  CHECK(comm != NULL);
  CHECK_EQ(view_files(), 1);
  CHECK_EQ(VIEW_HEAD(&v, closed_ns), 0);
  struct culprit_comm c;
  CHECK(view_comm(&v, 1, &c));
  CHECK_EQ(c.comm_id, 2);
  CHECK(view_comm(&v, 0, &c));
  CHECK_EQ(c.in_use, 0);
  CHECK_EQ(c.comm_id, 1);  // Still readable.
  CHECK(c.destroyed_ns != 0);
}

// leave_file makes a trace file by a process that has ended, and puts its times back by `seconds`.
static void leave_file(unsigned seconds) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("CULPRIT_KEEP_SECONDS", "100000", 1);
    nccl_load(6);
    init_one();
    _exit(0);
  }
  CHECK(waitpid(child, NULL, 0) == child);
  struct view v = view_open();
  const int fd = open(v.path, O_RDWR);
  struct culprit_header h = *v.header;
  const uint64_t back = seconds * UINT64_C(1000000000);
  // Boot may have been less long ago than that; then the file was made at boot.
  h.created_ns = h.created_ns > back ? h.created_ns - back : 1;
  h.heartbeat_ns = h.created_ns;
  CHECK(pwrite(fd, &h, sizeof h, 0) == (ssize_t)sizeof h);
  close(fd);
}

static void reaps_files_of_the_dead(void) {
  leave_file(100);
  setenv("CULPRIT_KEEP_SECONDS", "60", 1);
  nccl_load(6);
  init_one();
  CHECK_EQ(view_files(), 1);
  struct view v = view_open();
  CHECK_EQ(v.header->pid, getpid());
}

static void keeps_young_files(void) {
  leave_file(0);
  setenv("CULPRIT_KEEP_SECONDS", "60", 1);
  nccl_load(6);
  init_one();
  CHECK_EQ(view_files(), 2);
}

static void keeps_files_of_the_living(void) {
  leave_file(100);
  struct view v = view_open();
  const int fd = open(v.path, O_RDONLY);
  CHECK(flock(fd, LOCK_SH | LOCK_NB) == 0);  // As its writer would, from another pid namespace too.
  setenv("CULPRIT_KEEP_SECONDS", "0", 1);
  nccl_load(6);
  init_one();
  CHECK_EQ(view_files(), 2);
  close(fd);
}

static void leaves_other_files_alone(void) {
  char path[256];
  snprintf(path, sizeof path, "%s/notes.txt", harness_directory());
  CHECK(close(open(path, O_CREAT | O_WRONLY, 0644)) == 0);
  char link[256];
  snprintf(link, sizeof link, "%s/1-1-1.trace", harness_directory());
  CHECK(symlink("/etc/passwd", link) == 0);
  setenv("CULPRIT_KEEP_SECONDS", "0", 1);
  nccl_load(6);
  init_one();
  struct stat st;
  CHECK(stat(path, &st) == 0);
  CHECK(lstat(link, &st) == 0);
}

static void many_comms(void) {
  nccl_load(6);
  static void *comms[300];
  for (uint64_t i = 0; i < 300; i++) comms[i] = nccl_init(i + 1, NULL, 2, 2, 0);
  for (int i = 0; i < 256; i++) CHECK(comms[i] != NULL);
  for (int i = 256; i < 300; i++) CHECK(comms[i] == NULL);
  struct view v = view_open();
  CHECK_EQ(VIEW_HEAD(&v, dropped_comms), 44);
  CHECK(view_has_lifecycle(&v, CULPRIT_LIFE_DROPPED, CULPRIT_SECTION_COMMS));
  CHECK(nccl_mask != 0);  // The others are still traced.
  CHECK(nccl_op_simple(comms[299], &(struct nccl_op){.count = 8, .channels = 1}) == NULL);
  CHECK(nccl_op_simple(comms[255], &(struct nccl_op){.count = 8, .channels = 1}) != NULL);
  nccl_finalize(comms[7]);
  nccl_finalize(comms[7]);
  void *again = nccl_init(1000, "again", 2, 2, 0);
  CHECK(again != NULL && again != comms[7]);
  struct culprit_comm c;
  CHECK(view_comm(&v, 7, &c));
  CHECK_EQ(c.comm_id, 1000);
  CHECK_EQ(c.generation, 2);
  CHECK(nccl_op_simple(comms[7], &(struct nccl_op){.count = 8, .channels = 1}) == NULL);
}

static void write_control(const struct view *v, const char *line, mode_t mode) {
  char path[600];
  snprintf(path, sizeof path, "%s.ctl", v->path);
  unlink(path);
  if (line == NULL) return;
  const int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
  CHECK(fd >= 0);
  CHECK(write(fd, line, strlen(line)) == (ssize_t)strlen(line));
  CHECK(fchmod(fd, mode) == 0);
  close(fd);
}

// run_until_mask issues operations until NCCL's mask is as wanted; the file is looked at once a second.
static void run_until_mask(void *comm, int wanted) {
  while (__atomic_load_n(&nccl_mask, __ATOMIC_RELAXED) != wanted) {
    nccl_op_simple(comm, &(struct nccl_op){.count = 8, .channels = 1});
    usleep(1000);
  }
}

static void control_file(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = init_one();
  struct view v = view_open();
  const int first = nccl_mask;
  write_control(&v, "-proxystep,-cecoll\n", 0644);
  const int fewer = first & ~(CULPRIT_NCCL_PROXY_STEP | CULPRIT_NCCL_CE_COLL);
  run_until_mask(comm, fewer);
  CHECK_EQ(VIEW_HEAD(&v, event_mask), fewer);
  CHECK((v.header->capabilities & CULPRIT_CAP_PROXY_STEPS) == 0);
  CHECK(view_has_lifecycle(&v, CULPRIT_LIFE_MASK_CHANGED, (uint64_t)fewer));

  int second_mask = nccl_mask;
  void *second = nccl_init(2, NULL, 2, 4, 0);  // A new communicator does not undo it.
  CHECK_EQ(nccl_mask, second_mask);
  CHECK(second != NULL);

  write_control(&v, "none", 0600);  // Operations stay: without them nobody would look again.
  run_until_mask(comm, CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P);
  write_control(&v, "default,kernelch", 0600);  // NCCL is not prepared for it.
  run_until_mask(comm, first);
  write_control(&v, "coll,p2p", 0600);
  run_until_mask(comm, CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P);
  write_control(&v, NULL, 0);
  run_until_mask(comm, first);
}

// Orders of strangers are not followed, nor lines that make no sense: each of these leaves the first mask in place, which
// a good file has just brought away from it.
static void control_file_not_followed(void) {
  setenv("CULPRIT_EVENTS", "-kernelch", 1);
  nccl_load(6);
  void *comm = init_one();
  struct view v = view_open();
  const int first = nccl_mask, fewer = CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P;
  const struct {
    const char *line;
    mode_t mode;
  } bad[] = {{"coll", 0666}, {"coll", 0620}, {"coll,nonsense", 0600}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    write_control(&v, "coll,p2p", 0600);
    run_until_mask(comm, fewer);
    write_control(&v, bad[i].line, bad[i].mode);
    run_until_mask(comm, first);
  }
}

static const struct test_case cases[] = {
    {"header", header},
    {"sections", sections},
    {"slurm_ranks", slurm_ranks},
    {"unknown_ranks", unknown_ranks},
    {"ranks_in_one_process", ranks_in_one_process},
    {"disabled", disabled},
    {"mode_and_size", mode_and_size},
    {"bad_settings_fall_back", bad_settings_fall_back},
    {"default_masks", default_masks},
    {"default_mask_v6", default_mask_v6},
    {"makes_directory", makes_directory},
    {"missing_parent", missing_parent},
    {"directory_is_a_file", directory_is_a_file},
    {"unwritable_directory", unwritable_directory},
    {"no_room", no_room},
    {"without_logger", without_logger},
    {"survives_kill", survives_kill},
    {"descriptors_are_closed", descriptors_are_closed},
    {"fork_writes_nothing", fork_writes_nothing},
    {"exit_is_noted", exit_is_noted},
    {"copy_of_the_plugin", copy_of_the_plugin},
    {"dlclose_and_again", dlclose_and_again},
    {"reaps_files_of_the_dead", reaps_files_of_the_dead},
    {"keeps_young_files", keeps_young_files},
    {"keeps_files_of_the_living", keeps_files_of_the_living},
    {"leaves_other_files_alone", leaves_other_files_alone},
    {"many_comms", many_comms},
    {"control_file", control_file},
    {"control_file_not_followed", control_file_not_followed},
};

TEST_MAIN(cases)
