// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Puts functions of ours in the place of those of the loaded library, in the memory of this process alone.

#ifndef FAKEGPU_DIVERT_H
#define FAKEGPU_DIVERT_H

#include <stdbool.h>
#include <stddef.h>

enum { DIVERT_BYTES = 14 };  // of a function that are replaced

// Lets the function at this address jump to another.
bool divert_function(void *address, void *to);

// A function that says once that name is not played, and returns not-supported.
void *divert_stub(const char *name);

// Lets the library behind the dlopen handle call another function where it imports one; returns how many places changed. choose gets
// the name of each import and returns what to call, NULL to leave it.
int divert_imports(void *handle, void *(*choose)(const char *name, void *context), void *context);

// The same for one name.
int divert_import(void *handle, const char *name, void *to);

#endif
