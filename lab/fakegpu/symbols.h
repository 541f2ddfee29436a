// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The symbols of the loaded libnccl.so.2, local ones too, by its file's symbol table.

#ifndef FAKEGPU_SYMBOLS_H
#define FAKEGPU_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

// Reads the table of the library behind the dlopen handle; false and a reason when it has none.
bool symbols_open(void *handle, char *why, size_t size);

// The address of a symbol, NULL if the library has none of that name; its size in bytes if size is given.
void *symbol_find(const char *name, size_t *size);

// The first function whose name begins with prefix, as that of a C++ function does: _Z18ncclNetSocketIsend. NULL: none.
void *symbol_find_function(const char *prefix);

// The name of the symbol at this address, "?" if there is none.
const char *symbol_name(const void *address);

// Calls visit with each function whose name begins with prefix.
void symbols_each_function(const char *prefix, void (*visit)(const char *name, void *address, size_t size, void *context), void *context);

#endif
