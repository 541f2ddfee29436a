// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A long run over many communicators: one operation on each in every step, and now and then a communicator that goes and one
// that comes in its place. For measuring what a plugin keeps growing.

#include "clock.h"
#include "event.h"
#include "gpu.h"
#include "rendezvous.h"
#include "train.h"
#include "verified.h"

enum { COMMS = 16, RENEW_STEPS = 5, SALT_STEP = 31 };

// renew gives communicator i of this rank a successor: with a neighbour, or with a rank half the job away.
static bool renew(const struct job *job, int i, struct comm **comm, struct buffers *buffers, size_t count) {
  const int rank = job->world->rank, half = job->world->nranks / 2;
  if (*comm != NULL) {
    if (!gpu_sync(job->gpu)) return false;
    buffers_free(buffers);
    comm_destroy(*comm);
  }
  *comm = comm_split(job->world, i % 2 == 0 || half == 0 ? rank / 2 : rank % half, rank, "soak");
  buffers_init(buffers, *comm, count);
  return true;
}

bool soak(const struct job *job) {
  const struct options *o = job->options;
  const size_t count = o->bytes / sizeof(float) + 1;
  struct comm *comms[COMMS] = {job->world};
  struct buffers buffers[COMMS];
  buffers_init(&buffers[0], job->world, count);
  bool going = true;
  for (int i = 1; i < COMMS; i++) renew(job, i, &comms[i], &buffers[i], count);
  for (uint64_t step = 0; going && (o->steps == 0 || step < o->steps) && control_step_begin(step); step++) {
    const uint64_t began = now_ns();
    for (int i = 0; i < COMMS; i++) verified_all_reduce(&buffers[i], count, ALGO_RING, step * SALT_STEP + (uint64_t)i);
    if ((step + 1) % RENEW_STEPS == 0) {
      const int i = 1 + (int)(step / RENEW_STEPS % (COMMS - 1));
      going = renew(job, i, &comms[i], &buffers[i], count);
    }
    going = going && gpu_sync(job->gpu);
    if (going && o->rank == 0 && o->report_every > 0 && (step + 1) % (uint64_t)o->report_every == 0) {
      event_emit("step", ",\"step\":%llu,\"seconds\":%.6f", (unsigned long long)step, (double)(now_ns() - began) / NS_PER_S);
    }
  }
  if (!going) return false;
  for (int i = 0; i < COMMS; i++) {
    buffers_free(&buffers[i]);
    if (i > 0) comm_destroy(comms[i]);
  }
  return true;
}
