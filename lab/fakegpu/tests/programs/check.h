// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A test is a function; CHECK ends the program at the first thing that is wrong.

#ifndef FAKEGPU_TESTS_CHECK_H
#define FAKEGPU_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) printf("%s:%d: %s\n", __FILE__, __LINE__, #condition), exit(1);       \
  } while (0)

#define CHECK_OK(call)                                                                                    \
  do {                                                                                                    \
    int result_ = (call);                                                                                 \
    if (result_) printf("%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, result_), exit(1);            \
  } while (0)

#define RUN(test)                \
  do {                           \
    test();                      \
    printf("ok %s\n", #test);    \
    fflush(stdout);              \
  } while (0)

#endif
