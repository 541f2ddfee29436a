// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A program that uses NCCL and verbs, run by test_preload with our libraries in LD_PRELOAD. It does not know of them.
// Prints what it found, for the test to compare.

#include "../preload/nccl_api.h"
#include "../verbs/verbs_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int ncclCommInitRank(void **comm, int nranks, struct nccl_unique_id id, int rank);
int ncclCommSplit(void *comm, int color, int key, void **child, void *config);
int ncclCommDestroy(void *comm);

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "verbs") == 0) {
    // As NCCL before 2.30.3 does it.
    void *library = dlopen("libibverbs.so", RTLD_NOW);
    if (library == NULL) {
      printf("%s\n", dlerror());
      return 1;
    }
    Dl_info where;
    void *create = dlvsym(library, "ibv_create_qp", VERBS_VERSION);
    if (create == NULL || dladdr(create, &where) == 0) return 1;
    const char *name = strrchr(where.dli_fname, '/');
    printf("create %s\n", name == NULL ? where.dli_fname : name + 1);
    void *open_device = dlvsym(library, "ibv_open_device", VERBS_VERSION);
    if (open_device == NULL || dladdr(open_device, &where) == 0) return 1;
    name = strrchr(where.dli_fname, '/');
    printf("open %s\n", name == NULL ? where.dli_fname : name + 1);
    return 0;
  }
  struct nccl_unique_id id;
  memset(&id, 'z', sizeof id);
  void *comm = NULL, *child = NULL;
  const int init = ncclCommInitRank(&comm, 4, id, 2);
  const int split = ncclCommSplit(comm, 3, 1, &child, &id);
  printf("%d %d %d %d\n", init, split, child == comm, ncclCommDestroy(NULL));
  return 0;
}
