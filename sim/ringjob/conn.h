// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// One connection: (communicator, channel, peer, direction). It has two faces.
//
// To the GPU it is a buffer of NCCL_STEPS slots with counters that only grow, as in NCCL: a slice of work takes one or
// more steps; step s lies in slot s % NCCL_STEPS.
//
// To the proxy thread it is a network with isend, irecv and test. A link is one TCP connection: sender to receiver flow
// transfers (header and payload), receiver to sender flow two running numbers: receives posted (credits) and transfers
// received (acknowledgements).

#ifndef RINGJOB_CONN_H
#define RINGJOB_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "proxy.h"

#define NCCL_STEPS 8

struct comm;

// Header of one transfer on the wire.
struct wire_header {
  uint64_t tag;  // Number of the operation; a transfer is only matched by a receive of the same operation.
  uint32_t bytes;
  uint32_t reserved;
};

// What the receiver tells the sender, cumulative.
struct wire_credit {
  uint64_t posted;
  uint64_t received;
};

struct transfer {
  struct wire_header header;
  uint8_t *data;
  uint64_t due_ns;       // When the simulated link has carried it.
  uint64_t written_ns;   // When the last byte was given to the kernel, 0 before.
  uint64_t end_offset;   // Position in the TCP stream behind it.
  size_t offset;         // Bytes moved, header included.
};

struct link {
  int fd;     // -1 while not connected.
  bool dead;  // The peer is gone. Nobody is told: everything just stays undelivered, as on a fabric.
  struct transfer transfers[NCCL_STEPS];  // Running number n is at n % NCCL_STEPS.
  uint64_t posted;    // Send: accepted from the proxy. Receive: receives posted.
  uint64_t moved;     // Send: given to the kernel. Receive: arrived.
  uint64_t finished;  // Reported as done to the proxy.
  // Send.
  struct wire_credit peer;
  uint8_t credit_bytes[sizeof(struct wire_credit)];
  size_t credit_have;
  uint64_t stream_offset;
  uint64_t free_ns;  // When the simulated link can take the next transfer.
  // Receive.
  bool mismatch;     // The transfer at the head of the stream belongs to another operation.
  struct wire_credit told;
  size_t credit_left;  // Bytes of `told` not written yet.
};

struct conn {
  struct comm *comm;
  int channel;
  int peer;      // Rank in the communicator.
  bool is_send;
  bool p2p;      // Connections of send/recv are separate from those of collectives.
  bool net;      // NET transport: has proxy events.
  size_t step_bytes;
  uint8_t *buffer;
  uint32_t sizes[NCCL_STEPS];  // Bytes of the slice that begins in the slot; written before tail.
  _Atomic uint64_t limit;      // Send: the GPU may fill steps below. Written by the proxy.
  _Atomic uint64_t tail;       // Steps filled. Send: by the GPU. Receive: by the proxy.
  _Atomic uint64_t head;       // Receive: steps consumed by the GPU.
  uint64_t gpu_step;           // GPU thread only.
  uint64_t proxy_step;         // Proxy thread only: base of the next operation.
  struct link link;            // Proxy thread only.
  struct fifo fifo;            // Proxy thread only: operations of collectives.
  const struct options *options;
  struct conn *next;
};

struct conn *conn_new(struct comm *comm, int channel, int peer, bool is_send, bool p2p, bool net,
                      const struct options *options);
void conn_free(struct conn *conn);

// Send: connects to the receiver's process. Receive: takes the connection that the sender has made, if it is there yet.
void link_connect(struct conn *conn, uint16_t port);
bool link_attach(struct conn *conn);

// Offers a transfer. False when the receiver has posted no buffer for it (never for NET_SOCKET).
bool link_isend(struct conn *conn, uint64_t tag, uint8_t *data, uint32_t bytes, uint64_t now);
// Whether the oldest transfer is done; asking again after true is about the next.
bool link_test_send(struct conn *conn, uint64_t now);
// Posts a receive of operation `tag` into `data`, which has room for any transfer of the operation.
void link_irecv(struct conn *conn, uint64_t tag, uint8_t *data);
// Whether the oldest receive is complete, and its size.
bool link_test_recv(struct conn *conn, uint32_t *bytes);
// Moves bytes. `stalled`: the link delivers nothing.
void link_progress(struct conn *conn, uint64_t now, bool stalled);
// What to wait for: poll events of link.fd, and the time at which a transfer is due (UINT64_MAX none).
short link_events(const struct conn *conn, uint64_t now, bool stalled, uint64_t *due_ns);

// The process-wide listening socket.

// Starts the thread that takes connections; returns the port. `arrived` is called after each, from that thread.
uint16_t listener_start(void (*arrived)(void));
void listener_stop(void);
// Takes the socket of a connection that was announced for (comm, channel, sender's rank, kind), -1 if none.
int listener_take(uint64_t comm_id, int channel, int peer, bool p2p);

#endif
