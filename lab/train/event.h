// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the world sees of a run: one JSON object a line on stdout, each in one write so that ranks sharing a pipe do not
// tear each other's lines, and the ends of a process.

#ifndef TRAIN_EVENT_H
#define TRAIN_EVENT_H

// Exit codes of a rank and of the launcher.
enum {
  EXIT_OK = 0,
  EXIT_USAGE = 2,
  EXIT_WRONG_SUM = 3,  // A collective gave a wrong result.
  EXIT_ABORTED = 4,    // SIGTERM came while an operation hung: torn down after the grace, as ncclCommAbort.
  EXIT_SYSTEM = 5,     // Rendezvous, sockets, memory, libraries.
  EXIT_RANK_LOST = 6,  // Of the launcher: a rank was lost to a signal that it did not send. Of a rank: lost by a fault.
};

// Sets the rank that events of this process carry; -1 (the launcher's) leaves it out.
void event_set_rank(int rank);

// Writes {"event":NAME,"rank":R,"realtime_ns":…,"monotonic_ns":…<rest>}. `format` gives the rest, beginning with a
// comma, or is "".
void event_emit(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

// As that, of this rank whatever the process's is.
void event_emit_of(int rank, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Says why on stderr and ends the process at once with `code`.
_Noreturn void die(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// As malloc of zeroed memory, but dies instead of returning NULL.
void *must_calloc(unsigned long count, unsigned long size);

#endif
