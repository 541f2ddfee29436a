// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The parts that need no NCCL: words, settings, clock, handles, pools, identity.

#include "../clock.h"
#include "../flow_state.h"
#include "../gpu.h"
#include "../handle.h"
#include "../identity.h"
#include "../mask.h"
#include "../names.h"
#include "../settings.h"
#include "../shim.h"
#include "harness.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void names(void) {
  CHECK_EQ(name_func("AllReduce"), CULPRIT_FUNC_ALLREDUCE);
  CHECK_EQ(name_func("AlltoAll"), CULPRIT_FUNC_ALLTOALL);
  CHECK_EQ(name_func("AllToAll"), CULPRIT_FUNC_ALLTOALL);
  CHECK_EQ(name_func("ReduceScatter"), CULPRIT_FUNC_REDUCESCATTER);
  CHECK_EQ(name_func("PutSignal"), CULPRIT_FUNC_UNKNOWN);
  CHECK_EQ(name_func(""), CULPRIT_FUNC_UNKNOWN);
  CHECK_EQ(name_func(NULL), CULPRIT_FUNC_UNKNOWN);
  CHECK_EQ(name_algo("NVLS_TREE"), CULPRIT_ALGO_NVLS_TREE);
  CHECK_EQ(name_algo(NULL), CULPRIT_ALGO_UNKNOWN);
  CHECK_EQ(name_proto("LL128"), CULPRIT_PROTO_LL128);
  CHECK_EQ(name_proto("Simple"), CULPRIT_PROTO_SIMPLE);
  for (uint16_t f = 1; f <= CULPRIT_FUNC_RECV; f++) CHECK_EQ(name_func(func_text(f)), f);
}

// Figure 6 of CCL-D: eight changes within two milliseconds are found by two probes, spread over seven by seven.
static void probes(void) {
  const struct {
    uint32_t found;
    uint64_t at[8];  // In eighths of a probe.
  } cases[] = {
      {2, {8, 9, 10, 11, 16, 17, 18, 23}},
      {7, {8, 16, 24, 32, 40, 48, 56, 63}},
      {8, {8, 24, 40, 56, 72, 88, 104, 120}},  // A probe that finds no change does not count.
      {1, {15, 15, 14, 15, 15, 15, 15, 15}},   // Nor does time that runs back.
      {1, {16, 15, 16, 16, 16, 16, 16, 16}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct flow_ctl f = {0};
    for (int k = 0; k < 8; k++) flow_probed(&f, (uint64_t)CULPRIT_PROBE_NS / 8 * cases[i].at[k]);
    CHECK_EQ(f.probes, cases[i].found);
  }
}

static void datatypes(void) {
  const struct {
    const char *name;
    int bytes;
  } cases[] = {
      {"ncclInt8", 1},    {"ncclUint8", 1},   {"ncclInt32", 4},    {"ncclUint32", 4},      {"ncclInt64", 8},
      {"ncclUint64", 8},  {"ncclFloat16", 2}, {"ncclFloat32", 4},  {"ncclFloat64", 8},     {"ncclBfloat16", 2},
      {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}, {"Unknown", 0}, {"ncclWeird7", 0}, {"", 0}, {NULL, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) CHECK_EQ(name_datatype_bytes(cases[i].name), cases[i].bytes);
}

static void event_lists(void) {
  const uint32_t fallback = CULPRIT_NCCL_COLL | CULPRIT_NCCL_P2P;
  const struct {
    const char *list;
    uint32_t mask;
    const char *unknown;
  } cases[] = {
      {NULL, fallback, NULL},
      {"none", 0, NULL},
      {"", 0, NULL},
      {"default", fallback, NULL},
      {"coll", CULPRIT_NCCL_COLL, NULL},
      {"coll,kernelch", CULPRIT_NCCL_COLL | CULPRIT_NCCL_KERNEL_CH, NULL},
      {"+kernelch", fallback | CULPRIT_NCCL_KERNEL_CH, NULL},
      {"-p2p", CULPRIT_NCCL_COLL, NULL},
      {"-p2p,+proxyop", CULPRIT_NCCL_COLL | CULPRIT_NCCL_PROXY_OP, NULL},
      {"default,-coll", CULPRIT_NCCL_P2P, NULL},
      {",,coll,,", CULPRIT_NCCL_COLL, NULL},
      {"+", fallback, NULL},
      {"colls", 0, "colls"},
      {"coll,bad,worse", CULPRIT_NCCL_COLL, "bad,worse"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *unknown = NULL;
    size_t length = 0;
    CHECK_EQ(settings_events(cases[i].list, fallback, &unknown, &length), cases[i].mask);
    if (cases[i].unknown == NULL) {
      CHECK(unknown == NULL);
    } else {
      CHECK_TEXT(unknown, cases[i].unknown);
      CHECK_EQ(length, strcspn(cases[i].unknown, ","));
    }
  }
}

static void environment(void) {
  struct settings s;
  unsetenv("CULPRIT_DIR");
  CHECK(settings_read(&s) == NULL);
  CHECK_TEXT(s.directory, "/dev/shm/culprit");
  CHECK_EQ(s.file_bytes, 8 << 20);
  CHECK_EQ(s.mode, 0644);
  CHECK_EQ(s.keep_seconds, 600);
  CHECK(!s.disabled);
  const char *const bad[] = {"0", "-1", "1e3", "300", "99999999999999999999", " "};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    setenv("CULPRIT_SIZE_MB", bad[i], 1);
    const char *variable = settings_read(&s);
    CHECK(variable != NULL);
    CHECK_TEXT(variable, "CULPRIT_SIZE_MB");
    CHECK_EQ(s.file_bytes, 8 << 20);
  }
  setenv("CULPRIT_SIZE_MB", "16", 1);
  setenv("CULPRIT_MODE", "0040", 1);
  setenv("CULPRIT_DISABLE", "0", 1);
  CHECK(settings_read(&s) == NULL);
  CHECK_EQ(s.file_bytes, 16 << 20);
  CHECK_EQ(s.mode, 0640);
  CHECK(!s.disabled);
}

static void handles(void) {
  const handle h = handle_make(HANDLE_PROXY_OP, 0xb, 0xfabcde, 0x3ffff, 0x2aaaa);
  CHECK_EQ(handle_kind_of(h), HANDLE_PROXY_OP);
  CHECK_EQ(handle_cookie(h), 0xb);
  CHECK_EQ(handle_generation(h), 0xabcde);
  CHECK_EQ(handle_index(h), 0x3ffff);
  CHECK_EQ(handle_aux(h), 0x2aaaa);
  const handle s = handle_as(h, HANDLE_STEP, 7);
  CHECK_EQ(handle_kind_of(s), HANDLE_STEP);
  CHECK_EQ(handle_cookie(s), 0xb);
  CHECK_EQ(handle_generation(s), 0xabcde);
  CHECK_EQ(handle_index(s), 0x3ffff);
  CHECK_EQ(handle_aux(s), 7);
}

static void clock_agrees(const char *source) {
  struct clock c;
  clock_init(&c, source);
  uint64_t last = 0;
  for (int i = 0; i < 2000; i++) {
    const uint64_t before = clock_monotonic();
    const uint64_t now = clock_now(&c);
    const uint64_t after = clock_monotonic();
    // 1% of the time since the first calibration, which lasts a millisecond, and no more than that.
    const uint64_t slack = 100000;
    CHECK(now + slack >= before && now <= after + slack);
    CHECK(now + slack >= last);
    last = now;
    clock_refresh(&c, c.next_refresh_ns + (uint64_t)i);  // Again and again: more anchors than there is room for.
  }
}

static void clock_counter(void) { clock_agrees(NULL); }
static void clock_monotonic_only(void) {
  struct clock c;
  clock_init(&c, "monotonic");
  CHECK(clock_anchored(&c) == NULL);
  clock_agrees("monotonic");
}

static void clock_refresh_is_rare(void) {
  struct clock c;
  clock_init(&c, "counter");
  const uint64_t due = c.next_refresh_ns;
  CHECK(!clock_refresh(&c, due - 1));
  CHECK(clock_refresh(&c, due));
  CHECK(!clock_refresh(&c, due + 1));
  CHECK(clock_refresh(&c, due + 100000000));
  CHECK(!clock_refresh(&c, due + 200000000));
  CHECK(clock_refresh(&c, due + 1100000000));
}

static void pools(void) {
  static uint32_t next[4];
  struct pool p = {.capacity = 4, .next = next};
  uint32_t high = 0, got[4];
  for (uint32_t i = 0; i < 4; i++) {
    got[i] = pool_take(&p, &high);
    CHECK_EQ(got[i], i);
    CHECK_EQ(high, i + 1);
  }
  CHECK_EQ(pool_take(&p, &high), NONE);
  pool_give(&p, 2);
  pool_give(&p, 0);
  CHECK_EQ(pool_take(&p, &high), 0);  // The slot freed last is the warmest.
  CHECK_EQ(pool_take(&p, &high), 2);
  CHECK_EQ(pool_take(&p, &high), NONE);
  CHECK_EQ(high, 4);
}

static void own_start_time(void) {
  CHECK(identity_start_ticks((uint32_t)getpid()) > 0);
  CHECK_EQ(identity_start_ticks(0), 0);
}

static void long_texts_are_cut(void) {
  char text[400];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  setenv("CULPRIT_JOB_ID", text, 1);
  setenv("POD_NAME", text, 1);
  setenv("CULPRIT_HOSTNAME", text, 1);
  struct culprit_header h;
  memset(&h, 0xff, sizeof h);
  identity_fill(&h);
  CHECK_EQ(strlen(h.job_id), sizeof h.job_id - 1);
  CHECK_EQ(strlen(h.pod_name), sizeof h.pod_name - 1);
  CHECK_EQ(strlen(h.hostname), sizeof h.hostname - 1);
  CHECK_TEXT(h.pod_namespace, "");
}

// The address is the one given, else one of an interface that NCCL's sockets may use.
static void addresses(void) {
  struct culprit_header any, h;
  memset(&any, 0xff, sizeof any);
  identity_fill(&any);  // Empty where there is no interface but lo.
  CHECK(strncmp(any.address, "127.", 4) != 0);
  const struct {
    const char *interfaces, *given, *address;
  } rows[] = {
      {"=nosuch", NULL, ""}, {"nosuch,neither:1", NULL, ""}, {"^nosuch", NULL, any.address}, {"=nosuch", "10.9.8.7", "10.9.8.7"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    setenv("NCCL_SOCKET_IFNAME", rows[i].interfaces, 1);
    if (rows[i].given != NULL) setenv("CULPRIT_ADDRESS", rows[i].given, 1);
    memset(&h, 0xff, sizeof h);
    identity_fill(&h);
    CHECK_TEXT(h.address, rows[i].address);
  }
}

// Variables as launchers set them, and the job that they give.
static void job_ids(void) {
  char host[256] = {0}, here[300];
  CHECK(gethostname(host, sizeof host - 1) == 0);
  snprintf(here, sizeof here, "%s:29500", host);
  const struct {
    const char *variables, *job;
  } rows[] = {
      {"", ""},
      {"CULPRIT_JOB_ID=mine SLURM_JOB_ID=7 TORCHELASTIC_RUN_ID=x", "mine"},
      // Slurm: a step that holds the whole job is the job, so two steps of an allocation are two.
      {"SLURM_JOB_ID=7", "7"},
      {"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=4", "7"},
      {"SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4", "7.1"},
      {"SLURM_JOB_ID=7 SLURM_STEP_ID=2 SLURM_STEP_NUM_TASKS=2 RANK=9 WORLD_SIZE=16 GROUP_WORLD_SIZE=2", "7.2"},
      // One step a node, started in a loop: they are one job.
      {"SLURM_JOB_ID=7 SLURM_STEP_ID=3 SLURM_STEP_NUM_TASKS=1 RANK=9 WORLD_SIZE=16 GROUP_WORLD_SIZE=2", "7"},
      {"SLURM_JOB_ID=7 SLURM_STEP_ID=3 SLURM_STEP_NUM_TASKS=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=16", "7"},
      {"SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291 SLURM_NTASKS=8 SLURM_PROCID=0", "7"},
      {"SLURM_JOB_ID=7 TORCHELASTIC_RUN_ID=100", "7"},
      // torchrun: the default of --rdzv-id is none, and an empty one is none either.
      {"TORCHELASTIC_RUN_ID=run-5", "run-5"},
      {"TORCHELASTIC_RUN_ID=none MASTER_ADDR=node1 MASTER_PORT=29500", "node1:29500"},
      {"TORCHELASTIC_RUN_ID=none MASTER_ADDR=node1 MASTER_PORT=29501", "node1:29501"},
      {"TORCHELASTIC_RUN_ID= PET_RDZV_ID=trial-3", "trial-3"},
      {"TORCHELASTIC_RUN_ID=none PET_RDZV_ID=trial-3", "trial-3"},
      {"TORCHELASTIC_RUN_ID=None PET_RDZV_ID=none", ""},
      {"MASTER_ADDR=localhost MASTER_PORT=29500", here},
      {"MASTER_ADDR=127.0.0.1 MASTER_PORT=29500", here},
      {"MASTER_ADDR=10.1.2.3 MASTER_PORT=29500", "10.1.2.3:29500"},
      {"PBS_JOBID=12.server", "12.server"},
      // Kubeflow without an elastic policy gives the address of the first pod, Volcano's plugin the same.
      {"MASTER_ADDR=llm-master-0 MASTER_PORT=23456 POD_NAMESPACE=ml", "ml/llm-master-0:23456"},
      {"MASTER_ADDR=llm-0.llm.ml.svc.cluster.local MASTER_PORT=1", "llm-0:1"},
      {"JOB_NAME=llm POD_NAMESPACE=ml", "ml/llm"},
      {"JOB_NAME=llm", "llm"},
      {"RAY_JOB_ID=01000000 RAY_CLUSTER_NAME=rc POD_NAMESPACE=ml MASTER_ADDR=10.0.0.1 MASTER_PORT=9", "ml/rc/01000000"},
      // Ray 2.60 gives its workers the nil number.
      {"RAY_JOB_ID=ffffffff RAY_CLUSTER_NAME=rc POD_NAMESPACE=ml MASTER_ADDR=10.0.0.1 MASTER_PORT=9 POD_NAME=rc-gpu-worker-x7k2p", "ml/rc/10.0.0.1:9"},
      {"RAY_JOB_ID=ffffffff RAY_CLUSTER_NAME=rc POD_NAMESPACE=ml POD_NAME=rc-gpu-worker-x7k2p", "ml/rc"},
      {"RAY_JOB_ID=ffffffff MASTER_ADDR=10.0.0.1 MASTER_PORT=9", "10.0.0.1:9"},
      {"LWS_LEADER_ADDRESS=llm-0.llm.ml POD_NAMESPACE=ml", "ml/llm-0"},
      // mpirun, and pods that say nothing else.
      {"PMIX_NAMESPACE=prterun-host-91@1", "prterun-host-91@1"},
      {"POD_NAME=llm-worker-12 POD_NAMESPACE=ml", "ml/llm-worker"},
      {"POD_NAME=llm-3-x7k2p POD_NAMESPACE=ml JOB_COMPLETION_INDEX=3", "ml/llm"},
      {"POD_NAME=llm-13 JOB_COMPLETION_INDEX=13", "llm"},
      {"POD_NAME=trainer", "trainer"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[400], *rest = text;
    snprintf(text, sizeof text, "%s", rows[i].variables);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
      char *value = strchr(word, '=');
      *value++ = '\0';
      setenv(word, value, 1);
    }
    struct culprit_header h;
    identity_fill(&h);
    if (strcmp(h.job_id, rows[i].job) != 0) harness_fail(__FILE__, __LINE__, "%s: job is \"%s\", want \"%s\"", rows[i].variables, h.job_id, rows[i].job);
    snprintf(text, sizeof text, "%s", rows[i].variables);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
      *strchr(word, '=') = '\0';
      unsetenv(word);
    }
  }
}

static void gpu_from_driver(void) {
  char uuid[48] = "before", pci[24] = "before";
  CHECK_EQ(gpu_current(), -1);  // No driver in the process: it is not loaded for our sake.
  gpu_describe(3, uuid, sizeof uuid, pci, sizeof pci);
  CHECK_TEXT(uuid, "before");
  const char *path = getenv("FAKECUDA");
  CHECK(path != NULL);
  void *cuda = dlopen(path, RTLD_NOW);
  CHECK(cuda != NULL);
  setenv("CULPRIT_CUDA", "0", 1);
  CHECK_EQ(gpu_current(), -1);
  gpu_describe(3, uuid, sizeof uuid, pci, sizeof pci);
  CHECK_TEXT(uuid, "before");
  unsetenv("CULPRIT_CUDA");
  CHECK_EQ(gpu_current(), 3);
  gpu_describe(-1, uuid, sizeof uuid, pci, sizeof pci);
  CHECK_TEXT(uuid, "before");
  gpu_describe(3, uuid, sizeof uuid, pci, sizeof pci);
  CHECK_TEXT(uuid, "GPU-a3a3a3a3-a3a3-a3a3-a3a3-a3a3a3a3a3a3");
  CHECK_TEXT(pci, "0000:1B:00.0");
  dlclose(cuda);
}

static void gpu_numbers(void) {
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK_EQ(identity_gpu_index(2), 2);
  CHECK_EQ(identity_gpu_index(-1), -1);
  setenv("CUDA_VISIBLE_DEVICES", "4,6,GPU-1111", 1);
  CHECK_EQ(identity_gpu_index(1), 6);
  CHECK_EQ(identity_gpu_index(2), -1);
  CHECK_EQ(identity_gpu_index(3), -1);
}

static void masks(void) {
  const char *why = NULL;
  for (uint32_t abi = 2; abi <= 7; abi++) {
    const uint32_t known = mask_known(abi), standard = mask_default(abi, &why);
    CHECK_EQ(standard & ~known, 0);
    CHECK_EQ((standard & CULPRIT_NCCL_KERNEL_CH) == 0, why != NULL);
    if (abi < 5) CHECK_EQ(standard & CULPRIT_NCCL_KERNEL_CH, 0);
    CHECK_EQ((known & CULPRIT_NCCL_COLL_API) != 0, abi >= 5);
  }
  CHECK((mask_capabilities(3, CULPRIT_NCCL_PROXY_STEP) & CULPRIT_CAP_PEER_WAIT) == 0);
  CHECK((mask_capabilities(4, CULPRIT_NCCL_PROXY_STEP) & CULPRIT_CAP_PEER_WAIT) != 0);
  CHECK((mask_capabilities(3, CULPRIT_NCCL_KERNEL_CH) & CULPRIT_CAP_KERNEL_TIMER) == 0);
  CHECK_EQ(mask_capabilities(6, 0), CULPRIT_CAP_COMM_IDENTITY);
}

static const struct test_case cases[] = {
    {"probes", probes},
    {"names", names},
    {"datatypes", datatypes},
    {"event_lists", event_lists},
    {"environment", environment},
    {"handles", handles},
    {"clock_counter", clock_counter},
    {"clock_monotonic_only", clock_monotonic_only},
    {"clock_refresh_is_rare", clock_refresh_is_rare},
    {"pools", pools},
    {"own_start_time", own_start_time},
    {"job_ids", job_ids},
    {"long_texts_are_cut", long_texts_are_cut},
    {"addresses", addresses},
    {"gpu_from_driver", gpu_from_driver},
    {"gpu_numbers", gpu_numbers},
    {"masks", masks},
};

TEST_MAIN(cases)
