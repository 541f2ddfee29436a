// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Graphs: work with dependencies that is done as a whole, as often as it is launched.

#ifndef FAKEGPU_GRAPH_H
#define FAKEGPU_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "stream.h"

struct event;
struct graph;
struct graph_node;

struct graph *graph_new(void);
struct graph *graph_reference(struct graph *graph);
void graph_release(struct graph *graph);

// Adds a node after those given. Work is released with the graph. NULL: the graph was instantiated and cannot change any more.
struct graph_node *graph_add_work(struct graph *graph, struct graph_node *const *after, size_t count, struct op op);
struct graph_node *graph_add_record(struct graph *graph, struct graph_node *const *after, size_t count, struct event *event);
struct graph_node *graph_add_wait(struct graph *graph, struct graph_node *const *after, size_t count, struct event *event);

// True when node is one of those given or comes before one of them.
bool graph_is_before(const struct graph_node *node, struct graph_node *const *of, size_t count);

// True for nodes that a program added itself.
bool graph_is_manual(const struct graph_node *node);

#endif
