// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The progress thread: moves the steps of queued operations between GPU buffers and the network, and tells the profiler,
// in the order and on the occasions of NCCL's net transport.

#ifndef RINGJOB_PROXY_H
#define RINGJOB_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct comm;
struct conn;
struct proxy;
struct proxy_args;

// Operations on one connection, or on connections that share buffers, run one after the other.
struct fifo {
  struct proxy_args *head, *tail;
  struct fifo *next;  // In the list of fifos with work.
};

// One thing for the progress thread to do, made at enqueueing.
struct proxy_op {
  struct comm *comm;
  struct conn *conn;       // NULL: report the start and end of the kernel on a channel (KernelCh).
  int channel;
  bool is_send;
  int nsteps;              // In units of buffer steps, before division by slice_steps.
  int slice_steps;
  int chunk_steps;
  uint64_t tag;            // Of its transfers.
  uint64_t group;          // Send/recv of the same group form one operation of the proxy; 0 stands alone.
  int mask;                // Activation mask at the time of the API call.
  int task;                // Index in the plan.
  void *task_handle;       // Coll or P2p event; known at launch.
  uint64_t work_counter;   // KernelCh: the work on the channel.
  struct proxy_op *next;
};

struct proxy *proxy_new(const char *name, uint64_t poll_ns);
// The one proxy of the process, for all communicators; freed by the last proxy_shared_free.
struct proxy *proxy_shared(uint64_t poll_ns);
void proxy_shared_free(void);
// Ends the thread: when all its work is done, or at once if the process is torn down.
void proxy_free(struct proxy *proxy);
// Waits until all its work is done.
void proxy_flush(struct proxy *proxy);

// Gives a list of operations to the thread, which then owns it.
void proxy_upload(struct proxy *proxy, struct proxy_op *first);
// There may be something new: a buffer filled or consumed, a connection.
void proxy_wake(struct proxy *proxy);
void proxy_wake_all(void);

#endif
