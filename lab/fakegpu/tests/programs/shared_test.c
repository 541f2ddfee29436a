// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A library whose CUDA runtime is shared calls the played one: shared_test LIBRARY.

#include <dlfcn.h>
#include <string.h>

#include "../../fakegpu.h"
#include "check.h"

int main(int argc, char **argv) {
  char why[256] = "";
  CHECK(argc == 2);
  CHECK(!fakegpu_load_nccl(argv[1], "none", why, sizeof why));
  CHECK(strstr(why, "ncclNetSocket"));  // it got that far
  void *handle = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
  CHECK(handle);
  int (*allocate)(void **) = (int (*)(void **))dlsym(handle, "allocate");
  int (*not_played)(void) = (int (*)(void))dlsym(handle, "not_played");
  void *p = NULL;
  CHECK_OK(allocate(&p));
  CHECK(p);
  CHECK_OK(cudaFree(p));  // the library's memory is this library's
  CHECK(not_played() == CUDA_NOT_SUPPORTED);
  puts("ok shared");
  return 0;
}
