// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The part of the CUDA runtime's interface that programs on a played GPU call. Codes and signatures are those of CUDA 12's
// public documentation; the library exports more functions of the runtime than are declared here.

#ifndef FAKEGPU_CUDART_H
#define FAKEGPU_CUDART_H

#include <stddef.h>

// Results of runtime and driver functions; both number these alike.
enum cuda_error {
  CUDA_OK = 0,
  CUDA_INVALID_VALUE = 1,
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_DEVICES_UNAVAILABLE = 46,
  CUDA_NO_DEVICE = 100,
  CUDA_INVALID_DEVICE = 101,
  CUDA_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_INVALID_HANDLE = 400,
  CUDA_ILLEGAL_STATE = 401,
  CUDA_NOT_FOUND = 500,
  CUDA_NOT_READY = 600,
  CUDA_PEER_ACCESS_ALREADY = 704,
  CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_LAUNCH_FAILURE = 719,
  CUDA_NOT_SUPPORTED = 801,
  CUDA_CAPTURE_UNSUPPORTED = 900,
  CUDA_CAPTURE_INVALIDATED = 901,
  CUDA_CAPTURE_MERGE = 902,
  CUDA_CAPTURE_UNMATCHED = 903,
  CUDA_CAPTURE_UNJOINED = 904,
  CUDA_CAPTURE_ISOLATION = 905,
  CUDA_CAPTURED_EVENT = 907,
  CUDA_CAPTURE_WRONG_THREAD = 908,
  CUDA_UNKNOWN = 999,
};

typedef struct stream *cudaStream;
typedef struct event *cudaEvent;
typedef struct graph *cudaGraph;
typedef struct graph *cudaGraphExec;

// Directions of cudaMemcpy; the played GPU finds them by the addresses.
enum { CUDA_MEMCPY_DEFAULT = 4 };

int cudaGetDeviceCount(int *count);
int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaDeviceSynchronize(void);
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
int cudaMalloc(void **pointer, size_t bytes);
int cudaFree(void *pointer);
int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
int cudaFreeHost(void *pointer);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream stream);
int cudaMemset(void *to, int value, size_t bytes);
int cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream stream);
int cudaStreamCreate(cudaStream *stream);
int cudaStreamCreateWithPriority(cudaStream *stream, unsigned flags, int priority);
int cudaStreamDestroy(cudaStream stream);
int cudaStreamSynchronize(cudaStream stream);
int cudaStreamQuery(cudaStream stream);
int cudaStreamWaitEvent(cudaStream stream, cudaEvent event, unsigned flags);
int cudaLaunchHostFunc(cudaStream stream, void (*function)(void *), void *arg);
int cudaEventCreate(cudaEvent *event);
int cudaEventCreateWithFlags(cudaEvent *event, unsigned flags);
int cudaEventDestroy(cudaEvent event);
int cudaEventRecord(cudaEvent event, cudaStream stream);
int cudaEventQuery(cudaEvent event);
int cudaEventSynchronize(cudaEvent event);
int cudaEventElapsedTime(float *ms, cudaEvent from, cudaEvent to);
int cudaStreamBeginCapture(cudaStream stream, int mode);  // 0 global, 1 of this thread, 2 relaxed
int cudaStreamEndCapture(cudaStream stream, cudaGraph *graph);
int cudaGraphInstantiate(cudaGraphExec *exec, cudaGraph graph, unsigned long long flags);
int cudaGraphLaunch(cudaGraphExec exec, cudaStream stream);
int cudaGraphExecDestroy(cudaGraphExec exec);
int cudaGraphDestroy(cudaGraph graph);
const char *cudaGetErrorString(int error);

#endif
