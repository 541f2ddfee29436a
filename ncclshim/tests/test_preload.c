// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The preload hooks, in a program that was linked with a stand-in libnccl and is run with LD_PRELOAD.

#include "harness.h"
#include "traceview.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// run_program gives the program's output.
static void run_program(const char *preload, const char *argument, char *output, size_t bytes) {
  char command[1024];
  snprintf(command, sizeof command, "LD_PRELOAD=%s ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 %s %s 2>&1", preload,
           getenv("PRELOADED"), argument);
  FILE *f = popen(command, "r");
  CHECK(f != NULL);
  const size_t n = fread(output, 1, bytes - 1, f);
  output[n] = '\0';
  CHECK_EQ(pclose(f), 0);
}

static void calls_are_noted(void) {
  char output[256];
  run_program(getenv("PRELOAD"), "", output, sizeof output);
  CHECK_TEXT(output, "4021 311 1 4\n");
  struct view v = view_open();
  CHECK_EQ(v.header->writer_abi, 0);
  CHECK_EQ(v.header->capabilities, 0);
  const struct {
    uint32_t kind;
    const char *text;
    uint32_t result;
  } want[] = {
      {CULPRIT_LIFE_PROCESS_START, NULL, 0},
      {CULPRIT_LIFE_CALL_BEGIN, "ncclCommInitRank", 0},
      {CULPRIT_LIFE_CALL_END, "ncclCommInitRank", 4021},
      {CULPRIT_LIFE_CALL_BEGIN, "ncclCommSplit", 0},
      {CULPRIT_LIFE_CALL_END, "ncclCommSplit", 311},
      {CULPRIT_LIFE_CALL_BEGIN, "ncclCommDestroy", 0},
      {CULPRIT_LIFE_CALL_END, "ncclCommDestroy", 4},
      {CULPRIT_LIFE_PROCESS_END, NULL, 0},
  };
  const uint64_t count = sizeof want / sizeof want[0];
  CHECK_EQ(VIEW_HEAD(&v, lifecycle_head), count);
  for (uint64_t i = 0; i < count; i++) {
    struct culprit_lifecycle l;
    CHECK(view_lifecycle(&v, i, &l));
    CHECK_EQ(l.kind, want[i].kind);
    if (want[i].text != NULL) CHECK_TEXT(l.text, want[i].text);
    if (l.kind == CULPRIT_LIFE_CALL_BEGIN) CHECK(l.arg0 > 1);
    if (l.kind == CULPRIT_LIFE_CALL_END) {
      CHECK_EQ((uint32_t)l.arg0, want[i].result);
      CHECK(l.arg0 >> 32 != 0);
    }
  }
}

static void disabled(void) {
  setenv("CULPRIT_DISABLE", "1", 1);
  char output[256];
  run_program(getenv("PRELOAD"), "", output, sizeof output);
  CHECK_TEXT(output, "4021 311 1 4\n");
  CHECK_EQ(view_files(), 0);
}

// Preloaded, the verbs interposer is what "libibverbs.so" opens, and passes on what it does not define.
static void verbs_by_preload(void) {
  char output[256];
  run_program(getenv("VERBS"), "verbs", output, sizeof output);
  CHECK_TEXT(output, "create libculprit-ibverbs.so\nopen libibverbs.so.1\n");
}

static const struct test_case cases[] = {
    {"calls_are_noted", calls_are_noted},
    {"disabled", disabled},
    {"verbs_by_preload", verbs_by_preload},
};

TEST_MAIN(cases)
