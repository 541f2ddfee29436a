// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "apicomm.h"

#include "session.h"
#include "shim.h"

#define PLACES 2048u  // Communicators at a time; a power of two.
#define KINDS 8u      // Kinds of children of one communicator that are counted apart.

enum { FREE = 0, LEFT = 1 };  // Keys that are no pointers: never used, given up.

struct known {
  uint64_t key;  // The communicator's address.
  handle slot;
  uint32_t decided;  // Whether it gets a slot here has been decided.
  int32_t nranks, rank, device;
  uint64_t serial;  // Tells one communicator from the next at its address.
  uint64_t id;
  uint64_t kinds[KINDS];  // What children have been made, and how many of each.
  uint32_t made[KINDS];
};

static struct {
  pthread_mutex_t lock;  // For all but apicomm_find's first look.
  uint64_t serial;
  struct known at[PLACES];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93u;
  return h ^ h >> 32;
}

// look gives a communicator's place, NULL when it has none.
static struct known *look(const void *comm) {
  const uint64_t key = (uintptr_t)comm;
  for (uint64_t i = 0, at = mix(0, key); i < PLACES; i++, at++) {
    struct known *k = &table.at[at % PLACES];
    const uint64_t found = __atomic_load_n(&k->key, __ATOMIC_ACQUIRE);
    if (found == key) return k;
    if (found == FREE) return NULL;
  }
  return NULL;
}

// place gives a communicator a place, NULL when there is none left. The caller holds the lock.
static struct known *place(const void *comm) {
  for (uint64_t i = 0, at = mix(0, (uintptr_t)comm); i < PLACES; i++, at++) {
    struct known *k = &table.at[at % PLACES];
    if (GET(k->key) == FREE || GET(k->key) == LEFT) return k;
  }
  return NULL;
}

// decide opens a slot for a communicator that nobody else reports. The caller holds the lock.
static void decide(struct known *k) {
  struct comm_info info = {.comm_id = k->id, .nnodes = -1, .nranks = k->nranks, .rank = k->rank,
                           .device = k->device};
  bool reported = false;
  PUT(k->slot, k->id == 0 ? 0 : session_open_called(&info, &reported));
  // Of a communicator without identity nothing can be said, but that it is missing.
  if (k->id == 0 && GET(shim.abi) == 0) COUNT(shim.file.header->dropped_comms, 1);
  __atomic_store_n(&k->decided, 1, __ATOMIC_RELEASE);
}

static struct known *note(const void *comm, uint64_t id, int nranks, int rank, int device) {
  struct known *k = look(comm);
  if (k != NULL) {  // An earlier one of that address has gone by a way that is not watched.
    if (GET(k->slot) != 0) session_close_called(GET(k->slot));
  } else {
    k = place(comm);
  }
  if (k == NULL) {
    COUNT(shim.file.header->dropped_comms, 1);
    return NULL;
  }
  PUT(k->slot, 0);
  PUT(k->decided, 0);
  k->serial = ++table.serial;
  k->id = id;
  k->nranks = nranks;
  k->rank = rank;
  k->device = device;
  for (unsigned i = 0; i < KINDS; i++) k->kinds[i] = k->made[i] = 0;
  __atomic_store_n(&k->key, (uintptr_t)comm, __ATOMIC_RELEASE);
  return k;
}

void apicomm_made(const void *comm, uint64_t id, int nranks, int rank, int device, bool ready) {
  if (!shim_active() || (uintptr_t)comm <= LEFT) return;
  pthread_mutex_lock(&table.lock);
  struct known *k = note(comm, id, nranks, rank, device);
  if (k != NULL && ready) decide(k);
  pthread_mutex_unlock(&table.lock);
}

handle apicomm_find(const void *comm) {
  if ((uintptr_t)comm <= LEFT) return 0;
  struct known *k = look(comm);
  if (k != NULL && __atomic_load_n(&k->decided, __ATOMIC_ACQUIRE) != 0) return GET(k->slot);
  if (k == NULL && GET(shim.abi) != 0) return 0;
  pthread_mutex_lock(&table.lock);
  k = look(comm);
  if (k == NULL) k = note(comm, 0, -1, -1, -1);
  if (k != NULL && GET(k->decided) == 0) decide(k);
  const handle slot = k == NULL ? 0 : GET(k->slot);
  pthread_mutex_unlock(&table.lock);
  return slot;
}

// A split is called by all ranks of the parent, a shrink only by those that stay: counted by who is left out, all that
// call it count the same.
uint64_t apicomm_child(const void *parent, const int *excluded, int count) {
  if (!shim_active() || (uintptr_t)parent <= LEFT) return 0;
  uint64_t kind = excluded == NULL ? 1 : 2, members = 0;
  for (int i = 0; excluded != NULL && i < count; i++) members += mix(2, (uint64_t)excluded[i]);  // In any order.
  kind = mix(kind, members);
  uint64_t id = 0;
  pthread_mutex_lock(&table.lock);
  struct known *k = look(parent);
  if (k != NULL && k->id != 0) {
    unsigned i = 0;
    while (i + 1 < KINDS && k->kinds[i] != kind && k->made[i] != 0) i++;
    if (k->made[i] == 0) k->kinds[i] = kind;
    if (k->kinds[i] == kind) id = mix(mix(k->id, kind), k->made[i]++);
  }
  pthread_mutex_unlock(&table.lock);
  return id;
}

struct apicomm_known apicomm_known(const void *comm) {
  struct apicomm_known known = {.nranks = -1};
  if (!shim_active() || (uintptr_t)comm <= LEFT) return known;
  pthread_mutex_lock(&table.lock);
  const struct known *k = look(comm);
  if (k != NULL) known = (struct apicomm_known){.id = k->id, .slot = GET(k->slot), .nranks = k->nranks};
  pthread_mutex_unlock(&table.lock);
  return known;
}

uint64_t apicomm_leaving(const void *comm) {
  if (!shim_active() || (uintptr_t)comm <= LEFT) return 0;
  pthread_mutex_lock(&table.lock);
  const struct known *k = look(comm);
  const uint64_t serial = k == NULL ? 0 : k->serial;
  pthread_mutex_unlock(&table.lock);
  return serial;
}

void apicomm_gone(const void *comm, uint64_t leaving) {
  if (!shim_active() || leaving == 0) return;
  pthread_mutex_lock(&table.lock);
  struct known *k = look(comm);
  if (k != NULL && k->serial == leaving) {
    if (GET(k->slot) != 0) session_close_called(GET(k->slot));
    PUT(k->slot, 0);
    __atomic_store_n(&k->key, LEFT, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&table.lock);
}
