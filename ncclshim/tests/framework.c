// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Runs test_preload's program from a library that brings NCCL along in a scope of its own, as Python loads PyTorch.

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *library = dlopen("libframework.so", RTLD_NOW | RTLD_LOCAL);
  int (*run)(int, char **) = NULL;
  if (library != NULL) *(void **)&run = dlsym(library, "framework_main");
  if (run == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  return run(argc, argv);
}
