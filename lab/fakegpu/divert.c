// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "divert.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cudart.h"
#include "log.h"

enum { PAGE = 4096 };

static bool writable(void *address, size_t size, int protection) {
  uintptr_t begin = (uintptr_t)address & ~(uintptr_t)(PAGE - 1);
  return mprotect((void *)begin, (uintptr_t)address + size - begin, protection) == 0;
}

bool divert_function(void *address, void *to) {
  uint8_t *code = address;
  if (!writable(code, DIVERT_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC)) return false;
  memcpy(code, "\xff\x25\0\0\0\0", 6);  // jmp [rip]
  memcpy(code + 6, &to, sizeof to);
  return writable(code, DIVERT_BYTES, PROT_READ | PROT_EXEC);
}

static struct stub {
  struct stub *next;
  const char *name;
  bool said;
} *stubs;

static int missing(struct stub *stub) {
  if (!__atomic_exchange_n(&stub->said, true, __ATOMIC_RELAXED)) log_error("%s is not played", stub->name);
  return CUDA_NOT_SUPPORTED;
}

void *divert_stub(const char *name) {
  enum { SIZE = 24 };
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static uint8_t *page;
  static size_t used = PAGE;
  struct stub *stub = calloc(1, sizeof *stub);
  stub->name = strdup(name);
  int (*to)(struct stub *) = missing;
  pthread_mutex_lock(&lock);
  if (used + SIZE > PAGE) {
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) abort();
    used = 0;
  }
  stub->next = stubs;
  stubs = stub;
  uint8_t *code = page + used;
  used += SIZE;
  memcpy(code, "\x48\xbf", 2);  // mov rdi, stub
  memcpy(code + 2, &stub, sizeof stub);
  memcpy(code + 10, "\x48\xb8", 2);  // mov rax, missing
  memcpy(code + 12, &to, sizeof to);
  memcpy(code + 20, "\xff\xe0", 2);  // jmp rax
  pthread_mutex_unlock(&lock);
  return code;
}

struct imports {
  const Elf64_Sym *symbols;
  const char *names;
  const Elf64_Rela *relocations[2];
  size_t bytes[2];
};

static struct imports imports_of(const struct link_map *map) {
  struct imports in = {0};
  for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++) {
    switch (d->d_tag) {
      case DT_SYMTAB: in.symbols = (const void *)d->d_un.d_ptr; break;
      case DT_STRTAB: in.names = (const void *)d->d_un.d_ptr; break;
      case DT_JMPREL: in.relocations[0] = (const void *)d->d_un.d_ptr; break;
      case DT_PLTRELSZ: in.bytes[0] = d->d_un.d_val; break;
      case DT_RELA: in.relocations[1] = (const void *)d->d_un.d_ptr; break;
      case DT_RELASZ: in.bytes[1] = d->d_un.d_val; break;
      default: break;
    }
  }
  return in;
}

static bool set_import(void **slot, void *to) {
  if (!to || !writable(slot, sizeof *slot, PROT_READ | PROT_WRITE)) return false;
  *slot = to;
  return true;
}

int divert_imports(void *handle, void *(*choose)(const char *, void *), void *context) {
  struct link_map *map;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map)) return 0;
  struct imports in = imports_of(map);
  int changed = 0;
  for (int part = 0; part < 2; part++) {
    for (size_t i = 0; in.relocations[part] && i < in.bytes[part] / sizeof(Elf64_Rela); i++) {
      const Elf64_Rela *r = &in.relocations[part][i];
      uint64_t type = ELF64_R_TYPE(r->r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const Elf64_Sym *symbol = &in.symbols[ELF64_R_SYM(r->r_info)];
      if (symbol->st_shndx != SHN_UNDEF) continue;
      changed += set_import((void **)(map->l_addr + r->r_offset), choose(in.names + symbol->st_name, context));
    }
  }
  return changed;
}

struct one {
  const char *name;
  void *to;
};

static void *choose_one(const char *name, void *context) {
  const struct one *one = context;
  return strcmp(name, one->name) ? NULL : one->to;
}

int divert_import(void *handle, const char *name, void *to) { return divert_imports(handle, choose_one, &(struct one){name, to}); }
