// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Events: a record of one is a point that a stream comes to.

#ifndef FAKEGPU_EVENT_H
#define FAKEGPU_EVENT_H

struct event;

// Events live until their handle and all graphs let go of them.
struct event *event_reference(struct event *event);
void event_release(struct event *event);

// A point: reached once, at a time.
struct point;
struct point *point_new(void);
struct point *point_reference(struct point *point);
void point_release(struct point *point);  // NULL is allowed
void point_reach(struct point *point);
void point_wait(struct point *point);     // NULL has been reached

// The point of the event's last record, with a reference; NULL: never recorded. Setting it takes over the caller's reference.
struct point *event_point(struct event *event);
void event_set_point(struct event *event, struct point *point);

#endif
