// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Device memory of other processes: a handle names the file in memory that the other process keeps it in.

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cudart.h"
#include "memory.h"

struct ipc_handle {  // as CUDA's cudaIpcMemHandle_t, by its size
  int32_t pid, fd;
  uint64_t inode, size;  // bytes
  char reserved[40];
};
_Static_assert(sizeof(struct ipc_handle) == 64, "CUDA's handle has 64 bytes");

int cudaIpcGetMemHandle(struct ipc_handle *handle, void *address) {
  struct memory_range range;
  struct stat st;
  int error = memory_share(address, &range);
  if (error) return error;
  if (fstat(range.fd, &st)) return CUDA_UNKNOWN;
  *handle = (struct ipc_handle){getpid(), range.fd, st.st_ino, range.size, {0}};
  return CUDA_OK;
}

// The owner may be gone, or its descriptor may be another file's by now.
static int open_file(const struct ipc_handle *handle) {
  char path[64];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0 || (fstat(fd, &st) == 0 && st.st_ino == handle->inode)) return fd;
  close(fd);
  return -1;
}

int cudaIpcOpenMemHandle(void **address, struct ipc_handle handle, unsigned flags) {
  (void)flags;
  int fd = open_file(&handle);
  if (fd < 0) return CUDA_INVALID_HANDLE;
  void *base = mmap(NULL, handle.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (base == MAP_FAILED) return CUDA_OUT_OF_MEMORY;
  memory_add(base, handle.size, MEMORY_IMPORTED);
  return *address = base, CUDA_OK;
}

int cudaIpcCloseMemHandle(void *address) {
  if (memory_of(address).kind != MEMORY_IMPORTED) return CUDA_INVALID_VALUE;
  struct memory_range range = memory_forget(address);
  if (range.kind == MEMORY_NONE) return CUDA_INVALID_VALUE;
  munmap(range.base, range.size);
  return CUDA_OK;
}
