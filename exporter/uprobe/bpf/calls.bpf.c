// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The kernel's half of the collector uprobe: a record when a followed process enters one of NCCL's functions, and one when it
// returns. User space knows the functions: what lies in which argument comes with the probe's cookie, and where a communicator
// keeps its identity comes with the process. So one pair of programs serves all functions and all releases of NCCL.
//
// The programs use no kernel type beyond the registers that a probe is given, so they need no BTF.

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define RING_BYTES (8u << 20)  // At 20,000 calls a second on 8 ranks, 150 ms without a reader.
#define MAX_PROCESSES 1024
#define ID_BYTES 128  // sizeof(ncclUniqueId).
#define MAX_IDS 8     // Of ncclCommInitRankScalable that are told apart.
#define FUNCTIONS 5   // ncclFunc_t that NCCL counts: Broadcast, Reduce, AllGather, ReduceScatter, AllReduce.

// A probe's cookie: the kind in the low byte, then one hexadecimal digit each: 0 absent, else 1 + the argument's index.
enum place { COMM = 8, COUNT = 12, DATATYPE = 16, PEER = 20, STREAM = 24, NRANKS = 28, ID = 32, IDS = 36 };
#define ID_BY_VALUE (1ull << 40)

// Where a communicator of the process's NCCL keeps what; 0 unknown. And how many records of the process found no room.
struct process {
  __u32 identity;  // Of struct identity.
  __u32 called;    // Operations enqueued so far, per function.
  __u32 children;  // Communicators made from it so far.
  __u32 unused;
  __u64 lost;
};

struct identity {
  __u64 hash;
  __s32 rank, nranks, device, unused;
};

struct record {
  __u64 at_ns;  // CLOCK_MONOTONIC.
  __u32 pid, tid;
  __u16 kind, leave;
  __s32 result;  // Of a return.
};

struct enter {
  struct record head;
  __u64 comm, count, stream;
  __u64 id;  // FNV-1a of the unique ids.
  struct identity identity;
  __u64 called[FUNCTIONS];
  __s32 datatype, peer, nranks, children;
};

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, RING_BYTES);
} records SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, MAX_PROCESSES);
  __type(key, __u32);
  __type(value, struct process);
} processes SEC(".maps");

// Registers as the kernel lays them out for probes, in 64-bit words.
#if defined(ARCH_X86)
enum { RESULT = 10, STACK = 19 };
#define REGISTER_ARGUMENTS 6
#elif defined(ARCH_ARM64)
enum { RESULT = 0, STACK = 31 };
#define REGISTER_ARGUMENTS 8
#else
#error "ARCH_X86 or ARCH_ARM64"
#endif

static __always_inline __u64 on_stack(const __u64 *registers, unsigned slot) {
  __u64 value = 0;
#if defined(ARCH_X86)
  slot++;  // The return address.
#endif
  bpf_probe_read_user(&value, sizeof value, (const void *)(registers[STACK] + 8 * slot));
  return value;
}

// argument gives the one that a digit of the cookie names.
static __always_inline __u64 argument(const __u64 *registers, __u64 cookie, enum place place) {
  const unsigned digit = cookie >> place & 15;
#if defined(ARCH_X86)
  switch (digit) {
    case 0: return 0;
    case 1: return registers[14];
    case 2: return registers[13];
    case 3: return registers[12];
    case 4: return registers[11];
    case 5: return registers[9];
    case 6: return registers[8];
  }
#else
  switch (digit) {
    case 0: return 0;
    case 1: return registers[0];
    case 2: return registers[1];
    case 3: return registers[2];
    case 4: return registers[3];
    case 5: return registers[4];
    case 6: return registers[5];
    case 7: return registers[6];
    case 8: return registers[7];
  }
#endif
  return on_stack(registers, digit - 1 - REGISTER_ARGUMENTS);
}

static __always_inline __u64 hash_ids(__u64 at, __u64 count) {
  __u64 h = 0xcbf29ce484222325ull;
  for (unsigned i = 0; i < MAX_IDS && i < count; i++) {
    unsigned char id[ID_BYTES];
    if (bpf_probe_read_user(id, sizeof id, (const void *)(at + i * ID_BYTES)) != 0) return 0;
    for (unsigned b = 0; b < ID_BYTES; b++) h = (h ^ id[b]) * 0x100000001b3ull;
  }
  return h != 0 ? h : 1;
}

static __always_inline void fill(struct record *r, __u64 cookie, __u16 leave) {
  const __u64 both = bpf_get_current_pid_tgid();
  r->at_ns = bpf_ktime_get_ns();
  r->pid = both >> 32;
  r->tid = (__u32)both;
  r->kind = cookie & 0xff;
  r->leave = leave;
  r->result = 0;
}

static __always_inline struct process *current(void) {
  const __u32 pid = bpf_get_current_pid_tgid() >> 32;
  return bpf_map_lookup_elem(&processes, &pid);
}

static __always_inline int entered(void *context) {
  const __u64 *registers = context;
  struct process *p = current();
  if (p == 0) return 0;
  struct enter *e = bpf_ringbuf_reserve(&records, sizeof *e, 0);
  if (e == 0) {
    __sync_fetch_and_add(&p->lost, 1);
    return 0;
  }
  const __u64 cookie = bpf_get_attach_cookie(context);
  fill(&e->head, cookie, 0);
  e->comm = argument(registers, cookie, COMM);
  e->count = argument(registers, cookie, COUNT);
  e->stream = argument(registers, cookie, STREAM);
  e->datatype = (__s32)argument(registers, cookie, DATATYPE);
  e->peer = (__s32)argument(registers, cookie, PEER);
  e->nranks = (__s32)argument(registers, cookie, NRANKS);
  e->id = 0;
  if (cookie & ID_BY_VALUE) {
#if defined(ARCH_X86)
    e->id = hash_ids(registers[STACK] + 8, 1);  // Large structs are passed on the stack.
#else
    e->id = hash_ids(argument(registers, cookie, ID), 1);  // Large structs are passed by reference.
#endif
  } else if (cookie >> ID & 15) {
    e->id = hash_ids(argument(registers, cookie, ID), argument(registers, cookie, IDS));
  }
  // Memory that cannot be read is told as zeros.
  __builtin_memset(&e->identity, 0, sizeof e->identity);
  __builtin_memset(&e->called, 0, sizeof e->called);
  e->children = 0;
  if (e->comm != 0 && p->identity != 0) {
    bpf_probe_read_user(&e->identity, sizeof e->identity, (const void *)(e->comm + p->identity));
    bpf_probe_read_user(&e->called, sizeof e->called, (const void *)(e->comm + p->called));
    if (p->children != 0) bpf_probe_read_user(&e->children, sizeof e->children, (const void *)(e->comm + p->children));
  }
  bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);  // User space looks by itself: waking it costs the job more than the record does.
  return 0;
}

static __always_inline int left(void *context) {
  const __u64 *registers = context;
  struct process *p = current();
  if (p == 0) return 0;
  struct record *r = bpf_ringbuf_reserve(&records, sizeof *r, 0);
  if (r == 0) {
    __sync_fetch_and_add(&p->lost, 1);
    return 0;
  }
  fill(r, bpf_get_attach_cookie(context), 1);
  r->result = (__s32)registers[RESULT];
  bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
  return 0;
}

// Twice: Linux 6.6 and later take all functions of a process at once, earlier ones each by itself.
SEC("uprobe") int enter(void *context) { return entered(context); }
SEC("uretprobe") int leave(void *context) { return left(context); }
SEC("uprobe.multi") int enter_all(void *context) { return entered(context); }
SEC("uretprobe.multi") int leave_all(void *context) { return left(context); }

char LICENSE[] SEC("license") = "Dual MIT/GPL";
