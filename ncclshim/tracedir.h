// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Where the trace file goes. The root, CULPRIT_DIR, is shared by all users of the host; in it each user has a directory that
// only it can write to. Everything is opened by descriptor and no symbolic link is followed.

#ifndef CULPRIT_TRACEDIR_H
#define CULPRIT_TRACEDIR_H

struct trace_directory {
  int root, own;   // Descriptors.
  char path[400];  // Of own.
};

// tracedir_open opens the root and this user's directory in it, and makes what is missing. Returns 0 or an errno; *doing then
// says in words what failed.
int tracedir_open(struct trace_directory *d, const char *root, const char **doing);

void tracedir_close(struct trace_directory *d);

#endif
