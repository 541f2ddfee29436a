// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
  char *base;
  const Elf64_Sym *symbols;
  size_t count;
  const char *names;
} table;

static const char *map_file(const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  void *file = MAP_FAILED;
  if (fd >= 0 && fstat(fd, &st) == 0) file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (fd >= 0) close(fd);
  return file == MAP_FAILED ? NULL : file;
}

bool symbols_open(void *handle, char *why, size_t size) {
  struct link_map *map;
  const char *file = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map_file(map->l_name) : NULL;
  if (!file) return snprintf(why, size, "the library's file cannot be read again"), false;
  table.base = (char *)map->l_addr;
  const Elf64_Ehdr *header = (const void *)file;
  const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
  for (int i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    table.symbols = (const void *)(file + sections[i].sh_offset);
    table.count = sections[i].sh_size / sizeof(Elf64_Sym);
    table.names = file + sections[sections[i].sh_link].sh_offset;
  }
  if (!table.count) snprintf(why, size, "%s has no symbol table (.symtab): it is stripped", map->l_name);
  return table.count > 0;
}

void *symbol_find(const char *name, size_t *size) {
  for (size_t i = 0; i < table.count; i++) {
    const Elf64_Sym *s = &table.symbols[i];
    if (s->st_value == 0 || strcmp(table.names + s->st_name, name)) continue;
    if (size) *size = s->st_size;
    return table.base + s->st_value;
  }
  return NULL;
}

void *symbol_find_function(const char *prefix) {
  size_t length = strlen(prefix);
  for (size_t i = 0; i < table.count; i++) {
    const Elf64_Sym *s = &table.symbols[i];
    if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_value && !strncmp(table.names + s->st_name, prefix, length)) return table.base + s->st_value;
  }
  return NULL;
}

const char *symbol_name(const void *address) {
  for (size_t i = 0; i < table.count; i++) {
    if (table.symbols[i].st_value && table.base + table.symbols[i].st_value == address) return table.names + table.symbols[i].st_name;
  }
  return "?";
}

void symbols_each_function(const char *prefix, void (*visit)(const char *, void *, size_t, void *), void *context) {
  size_t length = strlen(prefix);
  for (size_t i = 0; i < table.count; i++) {
    const Elf64_Sym *s = &table.symbols[i];
    const char *name = table.names + s->st_name;
    if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_value == 0 || strncmp(name, prefix, length)) continue;
    visit(name, table.base + s->st_value, s->st_size, context);
  }
}
