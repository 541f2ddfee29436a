// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The preload hooks, in a program that was linked with a stand-in libnccl and is run with LD_PRELOAD.

#include "harness.h"
#include "traceview.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Two plugins in one process are two definitions of one name.
#define SANITIZED "verify_asan_link_order=0:detect_leaks=0:detect_odr_violation=0"

// run_program runs it to its end and gives the wait status.
static int run_program(const char *program, const char *deed, const char *rank) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("ASAN_OPTIONS", SANITIZED, 1);
    setenv("LD_PRELOAD", getenv("PRELOAD"), 1);
    execl(program, program, deed, rank, (char *)NULL);
    _exit(127);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  return status;
}

static struct view view_after(const char *deed) {
  CHECK_EQ(run_program(getenv("PRELOADED"), deed, "2"), 0);
  return view_open();
}

static struct culprit_comm comm_of(const struct view *v, uint32_t i) {
  struct culprit_comm c;
  CHECK(view_comm(v, i, &c));
  return c;
}

static void check_calls(const struct view *v, const char *const *calls, size_t count) {
  size_t seen = 0;
  for (uint64_t i = 0; i < VIEW_HEAD(v, lifecycle_head); i++) {
    struct culprit_lifecycle l;
    CHECK(view_lifecycle(v, i, &l));
    if (l.kind != CULPRIT_LIFE_CALL_BEGIN && l.kind != CULPRIT_LIFE_CALL_END) continue;
    CHECK(seen < count);
    CHECK_TEXT(l.text, calls[seen / 2]);
    CHECK_EQ(l.kind, seen % 2 == 0 ? CULPRIT_LIFE_CALL_BEGIN : CULPRIT_LIFE_CALL_END);
    CHECK((l.kind == CULPRIT_LIFE_CALL_BEGIN ? (uint32_t)l.arg0 : l.arg0 >> 32) > 1);
    seen++;
  }
  CHECK_EQ(seen, count);
}

// call_begun gives the n-th call that was noted to begin.
static struct culprit_lifecycle call_begun(const struct view *v, size_t n) {
  struct culprit_lifecycle l = {0};
  size_t seen = 0;
  for (uint64_t i = 0; i < VIEW_HEAD(v, lifecycle_head); i++) {
    CHECK(view_lifecycle(v, i, &l));
    if (l.kind == CULPRIT_LIFE_CALL_BEGIN && seen++ == n) return l;
  }
  CHECK(false);
  return l;
}

// Every operation shows with what the call said, in order.
static void every_operation(void) {
  static const struct {
    uint64_t seq;
    uint16_t func, size;
    uint64_t count;
    int root, peer;
    uint32_t flags;
  } want[] = {
      {0, CULPRIT_FUNC_ALLREDUCE, 4, 100, -1, -1, CULPRIT_OP_NO_COMPLETION},
      {0, CULPRIT_FUNC_REDUCE, 4, 10, 3, -1, CULPRIT_OP_NO_COMPLETION},
      {0, CULPRIT_FUNC_BROADCAST, 2, 11, 2, -1, CULPRIT_OP_NO_COMPLETION},
      {1, CULPRIT_FUNC_BROADCAST, 4, 12, 1, -1, CULPRIT_OP_NO_COMPLETION},  // ncclBcast, which calls ncclBroadcast.
      {0, CULPRIT_FUNC_REDUCESCATTER, 4, 13, -1, -1, CULPRIT_OP_NO_COMPLETION},
      {0, CULPRIT_FUNC_ALLGATHER, 4, 14, -1, -1, CULPRIT_OP_NO_COMPLETION},
      {0, CULPRIT_FUNC_ALLTOALL, 4, 15, -1, -1, CULPRIT_OP_NO_COMPLETION},
      {0, CULPRIT_FUNC_GATHER, 4, 16, 1, -1, CULPRIT_OP_NO_COMPLETION},
      {0, CULPRIT_FUNC_SCATTER, 4, 17, 0, -1, CULPRIT_OP_NO_COMPLETION},
      {0, CULPRIT_FUNC_SEND, 1, 18, -1, 2, CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_P2P},
      {0, CULPRIT_FUNC_RECV, 4, 19, -1, 3, CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_P2P},
      {1, CULPRIT_FUNC_ALLREDUCE, 4, 1, -1, -1, CULPRIT_OP_NO_COMPLETION | CULPRIT_OP_BARRIER},
      {2, CULPRIT_FUNC_ALLREDUCE, 4, 666, -1, -1, CULPRIT_OP_ABANDONED},  // Refused by NCCL.
  };
  const uint64_t count = sizeof want / sizeof want[0];
  struct view v = view_after("every");
  CHECK_EQ(v.header->writer_abi, 0);
  CHECK_EQ(v.header->capabilities, CULPRIT_CAP_COMM_IDENTITY | CULPRIT_CAP_API_EVENTS);
  const struct culprit_comm c = comm_of(&v, 0);
  CHECK_EQ(c.nranks, 4);
  CHECK_EQ(c.rank, 2);
  CHECK(c.comm_id != 0);
  CHECK_EQ(c.flags, CULPRIT_COMM_HAS_API | CULPRIT_COMM_FINALIZED);
  CHECK_EQ(c.ops_called, count);
  CHECK_EQ(c.ops_started, count - 1);
  CHECK_EQ(c.ops_in_flight, 0);
  CHECK_EQ(c.seq_started[CULPRIT_FUNC_ALLREDUCE], 2);
  CHECK_EQ(VIEW_HEAD(&v, completions_head), count);
  CHECK_EQ(v.header->dropped_comms + v.header->dropped_ops + v.header->stale_events + v.header->contended_events, 0);
  for (uint64_t i = 0; i < count; i++) {
    struct culprit_completion d;
    bool found = false;
    for (uint64_t n = 0; n < count && !found; n++) found = view_completion(&v, n, &d) && d.number == i;
    CHECK(found);
    CHECK_EQ(d.func, want[i].func);
    CHECK_EQ(d.seq, want[i].seq);
    CHECK_EQ(d.datatype_bytes, want[i].size);
    CHECK_EQ(d.count, want[i].count);
    CHECK_EQ(d.bytes, want[i].count * want[i].size);
    CHECK_EQ(d.root, want[i].root);
    CHECK_EQ(d.peer, want[i].peer);
    CHECK_EQ(d.flags & ~CULPRIT_OP_LEFT_INFERRED, want[i].flags);
    CHECK(d.called_ns != 0);
    CHECK_EQ(d.enqueued_ns != 0, (d.flags & CULPRIT_OP_ABANDONED) == 0);
    CHECK_EQ(d.comm_id, c.comm_id);
  }
  check_calls(&v, (const char *const[]){"ncclCommInitRank", "ncclCommDestroy", "ncclCommDestroy"}, 6);
  CHECK_EQ(v.header->group_open_since_ns, 0);
}

// Killed inside ncclGroupEnd: the file shows a thread in there, with the operations that it has called.
static void inside_group_end(void) {
  setenv("FAKENCCL_DIE", "GroupEnd", 1);
  const int status = run_program(getenv("PRELOADED"), "group", "2");
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  struct view v = view_open();
  CHECK(v.header->group_open_since_ns != 0);
  const struct culprit_comm c = comm_of(&v, 0);
  CHECK_EQ(c.ops_called, 7);
  CHECK_EQ(c.ops_started, 1);
  CHECK_EQ(c.ops_in_flight, 6);
  for (uint64_t number = 1; number < 7; number++) {
    struct culprit_op o;
    CHECK(view_find_op(&v, c.comm_id, number, &o));
    CHECK_EQ(o.state, CULPRIT_OP_CALLED);
    CHECK_EQ(o.peer, (number - 1) / 2);
    CHECK_EQ(o.flags, CULPRIT_OP_P2P);
  }
}

// Killed inside an operation that no group surrounds.
static void inside_operation(void) {
  setenv("FAKENCCL_DIE", "operation", 1);
  const int status = run_program(getenv("PRELOADED"), "every", "2");
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  struct view v = view_open();
  CHECK(v.header->group_open_since_ns != 0);
  const struct culprit_comm c = comm_of(&v, 0);
  CHECK_EQ(c.ops_in_flight, 1);
  struct culprit_op o;
  CHECK(view_find_op(&v, c.comm_id, 0, &o));
  CHECK_EQ(o.state, CULPRIT_OP_CALLED);
}

static void inside_init(void) {
  setenv("FAKENCCL_DIE", "CommInitRank", 1);
  const int status = run_program(getenv("PRELOADED"), "every", "2");
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  struct view v = view_open();
  CHECK_EQ(v.header->comms_high, 0);
  check_calls(&v, (const char *const[]){"ncclCommInitRank"}, 1);
  const struct culprit_lifecycle l = call_begun(&v, 0);
  CHECK_EQ(l.arg0 >> 32, 4);
  CHECK(l.comm_id != 0);
  CHECK_EQ(l.comm_index, UINT32_MAX);
}

// In a group the calls return at once: what blocks is its end, noted for each of them. A split's id is the same whatever the
// color, and is called on its parent.
static void inside_group_of_calls(void) {
  uint64_t ids[2][2];
  char first[128];
  snprintf(first, sizeof first, "%s", harness_directory());
  for (int rank = 0; rank < 2; rank++) {
    char directory[192];
    snprintf(directory, sizeof directory, "%s/%d", first, rank);
    setenv("CULPRIT_DIR", directory, 1);
    setenv("FAKENCCL_DIE", "GroupEnd", 1);
    const int status = run_program(getenv("PRELOADED"), "group_of_calls", (const char[]){(char)('0' + rank), 0});
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    struct view v = view_open_in(directory);
    for (int i = 0; i < 2; i++) {
      const struct culprit_lifecycle l = call_begun(&v, (size_t)i + 1);
      CHECK_TEXT(l.text, "ncclGroupEnd");
      CHECK_EQ(l.arg0 >> 32, i == 0 ? 3 : 4);
      CHECK_EQ(l.comm_index, i == 0 ? UINT32_MAX : 0);
      ids[rank][i] = l.comm_id;
    }
  }
  for (int i = 0; i < 2; i++) CHECK_EQ(ids[0][i], ids[1][i]);
  CHECK(ids[0][0] != 0 && ids[0][1] != 0 && ids[0][0] != ids[0][1]);
}

static void groups(void) {
  struct view v = view_after("group");
  const struct culprit_comm c = comm_of(&v, 0);
  CHECK_EQ(c.ops_called, 7);
  CHECK_EQ(c.ops_started, 7);
  CHECK_EQ(c.ops_in_flight, 0);
  CHECK_EQ(c.seq_started[CULPRIT_FUNC_SEND], 1);
  CHECK_EQ(v.header->group_count, 2);  // The first operation alone, and three groups in one.
  CHECK_EQ(v.header->group_open_since_ns, 0);
}

static void big_group(void) {
  struct view v = view_after("big_group");
  const struct culprit_comm c = comm_of(&v, 0);
  CHECK_EQ(c.nranks, 300);
  CHECK_EQ(c.ops_called, 1200);
  CHECK_EQ(c.ops_started, 1200);
  CHECK_EQ(c.seq_started[CULPRIT_FUNC_SEND], 2);
  CHECK_EQ(v.header->dropped_ops + v.header->stale_events, 0);
}

static void simulated(void) {
  struct view v = view_after("simulate");
  const struct culprit_comm c = comm_of(&v, 0);
  CHECK_EQ(c.ops_called, 2);
  CHECK_EQ(c.ops_started, 1);
  struct culprit_completion d;
  CHECK(view_completion(&v, 0, &d));
  CHECK_EQ(d.flags, CULPRIT_OP_ABANDONED);
}

// Four ranks make children of one communicator: members of a child agree on its id, others differ.
static struct culprit_comm relatives[4][6];
static uint32_t relative_count[4];

static void family(void) {
  char first[128];
  snprintf(first, sizeof first, "%s", harness_directory());
  for (int rank = 0; rank < 4; rank++) {
    char directory[192];
    snprintf(directory, sizeof directory, "%s/%d", first, rank);
    setenv("CULPRIT_DIR", directory, 1);
    CHECK_EQ(run_program(getenv("PRELOADED"), "family", (const char[]){(char)('0' + rank), 0}), 0);
    struct view v = view_open_in(directory);
    CHECK_EQ(v.header->dropped_comms, 0);
    relative_count[rank] = v.header->comms_high;
    CHECK(relative_count[rank] <= 6);
    for (uint32_t i = 0; i < relative_count[rank]; i++) relatives[rank][i] = comm_of(&v, i);
  }
  // world, half, [few], [quarter], [again], quarter of half.
  static const int index[4][6] = {{0, 1, 2, -1, 3, 4}, {0, 1, 2, 3, -1, 4}, {0, 1, 2, 3, 4, 5}, {0, 1, -1, 2, 3, 4}};
  static const int nranks[6] = {4, 2, 3, 2, 3, 1};
  for (int a = 0; a < 4; a++) {
    uint32_t children = 0;
    for (int kind = 0; kind < 6; kind++) {
      if (index[a][kind] < 0) continue;
      const struct culprit_comm *mine = &relatives[a][index[a][kind]];
      children++;
      CHECK_EQ(mine->nranks, nranks[kind]);
      CHECK(mine->rank >= 0);
      for (int b = 0; b < 4; b++) {
        for (int other = 0; other < 6; other++) {
          if (index[b][other] < 0) continue;
          const bool together = kind == other && ((kind != 1 && kind != 5) || a % 2 == b % 2);
          CHECK_EQ(relatives[b][index[b][other]].comm_id == mine->comm_id, together);
        }
      }
    }
    CHECK_EQ(children, relative_count[a]);
    if (index[a][2] >= 0) CHECK_EQ(relatives[a][index[a][2]].flags & CULPRIT_COMM_FINALIZED, CULPRIT_COMM_FINALIZED);
  }
}

static void in_process(void) {
  struct view v = view_after("in_process");
  CHECK_EQ(v.header->comms_high, 5);
  for (uint32_t i = 0; i < 5; i++) {
    const struct culprit_comm c = comm_of(&v, i);
    CHECK_EQ(c.nranks, i < 3 ? 3 : 2);
    CHECK_EQ(c.rank, i < 3 ? i : i - 3);
    CHECK_EQ(c.comm_id == comm_of(&v, 0).comm_id, i < 3);
    CHECK_EQ(c.ops_called, i == 1 || i == 4);
    CHECK_EQ(c.device, i < 3 ? i : 0);
  }
}

static void nonblocking(void) {
  setenv("FAKENCCL_NONBLOCKING", "1", 1);
  struct view v = view_after("nonblocking");
  CHECK_EQ(v.header->comms_high, 2);
  CHECK_EQ(comm_of(&v, 0).nranks + comm_of(&v, 1).nranks, 6);
  for (uint32_t i = 0; i < 2; i++) {
    CHECK(comm_of(&v, i).comm_id != 0);
    CHECK_EQ(comm_of(&v, i).ops_called, 1);
  }
  CHECK_EQ(v.header->dropped_comms, 0);
}

static void threads(void) {
  struct view v = view_after("threads");
  uint64_t called = 0, started = 0;
  uint32_t live = 0;
  for (uint32_t i = 0; i < v.header->comms_high; i++) {
    const struct culprit_comm c = comm_of(&v, i);
    called += c.ops_called;
    started += c.ops_started;
    live += c.in_use;
  }
  CHECK_EQ(live, 4);
  CHECK_EQ(called, 4 * 3 * 5000);
  CHECK_EQ(started, called);
  CHECK_EQ(v.header->dropped_comms + v.header->dropped_ops + v.header->stale_events + v.header->contended_events, 0);
  CHECK_EQ(v.header->group_open_since_ns, 0);
}

static void forked_child_is_silent(void) {
  struct view v = view_after("forked");
  CHECK_EQ(v.header->comms_high, 1);
  CHECK_EQ(comm_of(&v, 0).ops_called, 2);
  CHECK_EQ(comm_of(&v, 0).in_use, 1);
}

// The plugin is loaded by NCCL: it reports, the hooks only note the calls.
static void plugin_reports(void) {
  setenv("FAKENCCL_PLUGIN", getenv("PLUGIN"), 1);
  struct view v = view_after("every");
  CHECK_EQ(v.header->writer_abi, 6);
  CHECK_EQ(v.header->comms_high, 1);
  CHECK_EQ(comm_of(&v, 0).comm_id, 99);
  CHECK_EQ(comm_of(&v, 0).ops_called, 0);
  CHECK_EQ(v.header->group_count, 0);
  CHECK_EQ(VIEW_HEAD(&v, completions_head), 0);
  check_calls(&v, (const char *const[]){"ncclCommInitRank", "ncclCommDestroy", "ncclCommDestroy"}, 6);
}

static void old_plugin_reports(void) {
  setenv("FAKENCCL_ABI", "4", 1);
  setenv("FAKENCCL_PLUGIN", getenv("PLUGIN"), 1);
  struct view v = view_after("group");
  CHECK_EQ(v.header->writer_abi, 4);
  CHECK((v.header->capabilities & CULPRIT_CAP_API_EVENTS) == 0);
  CHECK_EQ(v.header->comms_high, 1);
  CHECK_EQ(comm_of(&v, 0).ops_called, 0);
}

// NCCL's one place for a plugin is taken by another: the hooks report.
static void slot_is_taken(void) {
  char other[512];
  snprintf(other, sizeof other, "%s/other_v6.so", getenv("OTHERS"));
  setenv("FAKENCCL_PLUGIN", other, 1);
  struct view v = view_after("group");
  CHECK_EQ(v.header->writer_abi, 0);
  CHECK_EQ(comm_of(&v, 0).ops_started, 7);
}

// An NCCL that has not got every function: who calls one nevertheless is refused, the rest works.
static void old_nccl(void) {
  setenv("LD_LIBRARY_PATH", getenv("OLD_NCCL"), 1);
  struct view v = view_after("old");
  CHECK_EQ(comm_of(&v, 0).ops_called, 1);
  CHECK_EQ(comm_of(&v, 0).ops_started, 1);
}

// NCCL inside the program: no function of ours is called, and nothing happens.
static void static_nccl(void) {
  CHECK_EQ(run_program(getenv("STATIC"), "every", "2"), 0);
  CHECK_EQ(view_files(), 0);
}

// NCCL in a scope of its own, behind a library that is loaded late: found all the same.
static void nccl_in_its_own_scope(void) {
  CHECK_EQ(run_program(getenv("FRAMEWORK"), "group", "2"), 0);
  struct view v = view_open();
  CHECK_EQ(comm_of(&v, 0).ops_started, 7);
}

static void disabled(void) {
  setenv("CULPRIT_DISABLE", "1", 1);
  static const char *const deeds[] = {"every", "group", "family", "in_process", "threads", "forked"};
  for (size_t i = 0; i < sizeof deeds / sizeof deeds[0]; i++) CHECK_EQ(run_program(getenv("PRELOADED"), deeds[i], "2"), 0);
  CHECK_EQ(view_files(), 0);
}

// Preloaded, the verbs interposer is what "libibverbs.so" opens, and passes on what it does not define.
static void verbs_by_preload(void) {
  char command[1024], output[256];
  snprintf(command, sizeof command, "LD_PRELOAD=%s ASAN_OPTIONS=" SANITIZED " %s verbs 2>&1", getenv("VERBS"),
           getenv("PRELOADED"));
  FILE *f = popen(command, "r");
  CHECK(f != NULL);
  const size_t n = fread(output, 1, sizeof output - 1, f);
  output[n] = '\0';
  CHECK_EQ(pclose(f), 0);
  CHECK_TEXT(output, "ibv_create_qp libculprit-ibverbs.so\nibv_open_device libibverbs.so.1\n"
                     "ibv_modify_qp libculprit-ibverbs.so\n");
}

static const struct test_case cases[] = {
    {"every_operation", every_operation},
    {"inside_group_end", inside_group_end},
    {"inside_operation", inside_operation},
    {"inside_init", inside_init},
    {"inside_group_of_calls", inside_group_of_calls},
    {"groups", groups},
    {"big_group", big_group},
    {"simulated", simulated},
    {"family", family},
    {"in_process", in_process},
    {"nonblocking", nonblocking},
    {"threads", threads},
    {"forked_child_is_silent", forked_child_is_silent},
    {"plugin_reports", plugin_reports},
    {"old_plugin_reports", old_plugin_reports},
    {"slot_is_taken", slot_is_taken},
    {"old_nccl", old_nccl},
    {"static_nccl", static_nccl},
    {"nccl_in_its_own_scope", nccl_in_its_own_scope},
    {"disabled", disabled},
    {"verbs_by_preload", verbs_by_preload},
};

TEST_MAIN(cases)
