// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A small test harness. Every case runs in a child process of its own, because the plugin lives once per process and reads
// its settings once. A failed check ends its case.

#ifndef CULPRIT_TESTS_HARNESS_H
#define CULPRIT_TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test_case {
  const char *name;
  void (*run)(void);
};

// harness_main runs the cases (those whose name contains the first argument, if there is one), prints
// "N passed, N failed", and gives the exit status.
int harness_main(int argc, char **argv, const struct test_case *cases, size_t count);

// harness_directory is a fresh directory for the running case, removed after it. CULPRIT_DIR points to it.
const char *harness_directory(void);

// harness_fork_and_wait runs f(a, b) in a child process with an empty directory, and fails when that fails.
void harness_fork_and_wait(int a, int b, void (*f)(int, int));

// harness_fail reports a failed check and ends the case.
_Noreturn void harness_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define CHECK(condition) \
  do { \
    if (!(condition)) harness_fail(__FILE__, __LINE__, "not so: %s", #condition); \
  } while (0)

#define CHECK_EQ(got, want) \
  do { \
    const long long got_ = (long long)(got), want_ = (long long)(want); \
    if (got_ != want_) harness_fail(__FILE__, __LINE__, "%s: got %lld, want %lld", #got, got_, want_); \
  } while (0)

#define CHECK_TEXT(got, want) \
  do { \
    if (strcmp((got), (want)) != 0) harness_fail(__FILE__, __LINE__, "%s: got \"%s\", want \"%s\"", #got, (got), (want)); \
  } while (0)

#define TEST_MAIN(cases) \
  int main(int argc, char **argv) { return harness_main(argc, argv, cases, sizeof(cases) / sizeof((cases)[0])); }

#endif
