// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"
#include "comm.h"
#include "event.h"
#include "fault_model.h"
#include "listener.h"

// How long an acknowledgement of the peer's process is waited for before the kernel is asked.
#define KERNEL_ACK_NS NS_PER_MS

struct conn *conn_new(struct comm *comm, int channel, int peer, bool is_send, bool p2p, bool net,
                      const struct options *options) {
  struct conn *conn = must_calloc(1, sizeof *conn);
  *conn = (struct conn){.comm = comm,
                        .channel = channel,
                        .peer = peer,
                        .is_send = is_send,
                        .p2p = p2p,
                        .net = net,
                        .step_bytes = options->step_bytes,
                        .options = options};
  conn->buffer = must_calloc(NCCL_STEPS, options->step_bytes);
  conn->link.fd = -1;
  // Send/recv offers buffers step by step, collectives all of them from the start.
  atomic_init(&conn->limit, p2p ? 0 : NCCL_STEPS);
  return conn;
}

void conn_free(struct conn *conn) {
  if (conn->link.fd >= 0) close(conn->link.fd);
  free(conn->buffer);
  free(conn);
}

static void link_lost(struct link *link) { link->dead = true; }

// The window of a link is at most this many bytes; the receiving kernel must be able to hold it, so that a sender sees
// its posted transfers delivered even while the receiving process is stopped, as with RDMA.
static int window_bytes(const struct conn *conn) { return (int)(2 * NCCL_STEPS * conn->step_bytes + (64u << 10)); }

void link_connect(struct conn *conn, uint16_t port) {
  struct link *link = &conn->link;
  int one = 1, size = window_bytes(conn);
  link->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (link->fd < 0) die(EXIT_SYSTEM, "socket: %s", strerror(errno));
  setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(link->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct listener_hello hello = {.magic = LISTENER_MAGIC,
                                 .channel = (uint32_t)conn->channel,
                                 .comm_id = conn->comm->id,
                                 .rank = (uint32_t)conn->comm->rank,
                                 .p2p = conn->p2p};
  if (connect(link->fd, (struct sockaddr *)&to, sizeof to) != 0 ||
      send(link->fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) {
    link_lost(link);
    return;
  }
  fcntl(link->fd, F_SETFL, O_NONBLOCK);
}

bool link_attach(struct conn *conn) {
  struct link *link = &conn->link;
  if (link->fd >= 0) return true;
  link->fd = listener_take(conn->comm->id, conn->channel, conn->peer, conn->p2p);
  if (link->fd < 0) return false;
  int one = 1, size = window_bytes(conn);
  setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(link->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  fcntl(link->fd, F_SETFL, O_NONBLOCK);
  return true;
}

bool link_isend(struct conn *conn, uint64_t tag, uint8_t *data, uint32_t bytes, uint64_t now) {
  struct link *link = &conn->link;
  if (conn->options->net == NET_IB && link->peer.posted <= link->posted) return false;
  struct transfer *t = &link->transfers[link->posted % NCCL_STEPS];
  *t = (struct transfer){.header = {.tag = tag, .bytes = bytes}, .data = data, .due_ns = now};
  uint64_t rate = conn->net ? conn->options->link_bytes_per_s : 0;
  if (rate > 0) {
    double share = fault_link_share(conn);
    if (link->free_ns < now) link->free_ns = now;
    link->free_ns += (uint64_t)((double)bytes * (double)NS_PER_S / ((double)rate * share));
    t->due_ns = link->free_ns + conn->options->link_latency_ns;
  }
  link->posted++;
  return true;
}

// Bytes that the peer's kernel has acknowledged: what a NIC's acknowledgement is to RDMA.
static uint64_t kernel_acknowledged(const struct link *link) {
  int queued = 0;
  if (ioctl(link->fd, SIOCOUTQ, &queued) != 0) return 0;
  return link->stream_offset - (uint64_t)queued;
}

bool link_test_send(struct conn *conn, uint64_t now) {
  struct link *link = &conn->link;
  if (link->finished >= link->moved) return false;
  const struct transfer *t = &link->transfers[link->finished % NCCL_STEPS];
  bool done = conn->options->net == NET_SOCKET || link->peer.received > link->finished;
  if (!done && !link->dead && now >= t->written_ns + KERNEL_ACK_NS) done = kernel_acknowledged(link) >= t->end_offset;
  if (done) link->finished++;
  return done;
}

void link_irecv(struct conn *conn, uint64_t tag, uint8_t *data) {
  struct link *link = &conn->link;
  link->transfers[link->posted % NCCL_STEPS] = (struct transfer){.header = {.tag = tag}, .data = data};
  link->posted++;
}

bool link_test_recv(struct conn *conn, uint32_t *bytes) {
  struct link *link = &conn->link;
  if (link->finished >= link->moved) return false;
  *bytes = link->transfers[link->finished % NCCL_STEPS].header.bytes;
  link->finished++;
  return true;
}

// A result of recv or send: bytes moved; 0 none now, or the link is lost.
static size_t moved_bytes(struct link *link, ssize_t n) {
  if (n > 0) return (size_t)n;
  if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) link_lost(link);
  return 0;
}

static void read_credits(struct link *link) {
  for (;;) {
    size_t want = sizeof link->credit_bytes - link->credit_have;
    size_t n = moved_bytes(link, recv(link->fd, link->credit_bytes + link->credit_have, want, MSG_DONTWAIT));
    if (n == 0) return;
    link->credit_have += n;
    if (link->credit_have < sizeof link->credit_bytes) continue;
    memcpy(&link->peer, link->credit_bytes, sizeof link->peer);
    link->credit_have = 0;
  }
}

static void write_transfers(struct link *link, uint64_t now) {
  while (link->moved < link->posted) {
    struct transfer *t = &link->transfers[link->moved % NCCL_STEPS];
    if (t->due_ns > now) return;
    size_t total = sizeof t->header + t->header.bytes;
    struct iovec parts[2] = {{0}};
    int count = 0;
    if (t->offset < sizeof t->header) {
      parts[count++] = (struct iovec){(uint8_t *)&t->header + t->offset, sizeof t->header - t->offset};
    }
    size_t data_done = t->offset > sizeof t->header ? t->offset - sizeof t->header : 0;
    if (t->header.bytes > data_done) parts[count++] = (struct iovec){t->data + data_done, t->header.bytes - data_done};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    size_t n = moved_bytes(link, sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (n == 0) return;
    t->offset += n;
    link->stream_offset += n;
    if (t->offset < total) return;
    t->written_ns = now;
    t->end_offset = link->stream_offset;
    link->moved++;
  }
}

static void read_transfers(const struct conn *conn, struct link *link) {
  link->mismatch = false;
  while (link->moved < link->posted) {
    struct transfer *t = &link->transfers[link->moved % NCCL_STEPS];
    if (t->offset == 0) {
      // Looked at first: a transfer of another operation stays where it is, and so does all behind it.
      struct wire_header header;
      ssize_t n = recv(link->fd, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
      if (moved_bytes(link, n) < sizeof header) return;
      if (header.tag != t->header.tag || header.bytes > NCCL_STEPS * conn->step_bytes) {
        link->mismatch = true;
        return;
      }
      if (moved_bytes(link, recv(link->fd, &t->header, sizeof t->header, MSG_DONTWAIT)) != sizeof t->header) return;
      t->offset = sizeof t->header;
    }
    while (t->offset < sizeof t->header + t->header.bytes) {
      size_t done = t->offset - sizeof t->header;
      size_t n = moved_bytes(link, recv(link->fd, t->data + done, t->header.bytes - done, MSG_DONTWAIT));
      if (n == 0) return;
      t->offset += n;
    }
    link->moved++;
  }
}

static void write_credits(struct link *link) {
  for (;;) {
    if (link->credit_left == 0) {
      struct wire_credit now = {.posted = link->posted, .received = link->moved};
      if (now.posted == link->told.posted && now.received == link->told.received) return;
      link->told = now;
      link->credit_left = sizeof now;
    }
    const uint8_t *bytes = (const uint8_t *)&link->told + sizeof link->told - link->credit_left;
    size_t n = moved_bytes(link, send(link->fd, bytes, link->credit_left, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (n == 0) return;
    link->credit_left -= n;
  }
}

void link_progress(struct conn *conn, uint64_t now, bool stalled) {
  struct link *link = &conn->link;
  if (!conn->is_send && link->fd < 0) link_attach(conn);
  if (link->fd < 0 || link->dead) return;
  if (conn->is_send) {
    read_credits(link);
    if (!stalled && !link->dead) write_transfers(link, now);
    return;
  }
  write_credits(link);
  read_transfers(conn, link);
  if (!link->dead) write_credits(link);
}

short link_events(const struct conn *conn, uint64_t now, bool stalled, uint64_t *due_ns) {
  const struct link *link = &conn->link;
  *due_ns = UINT64_MAX;
  if (link->fd < 0 || link->dead) return 0;
  if (!conn->is_send) return link->moved < link->posted && !link->mismatch ? POLLIN : 0;
  short events = POLLIN;
  if (link->moved < link->posted && !stalled) {
    uint64_t due = link->transfers[link->moved % NCCL_STEPS].due_ns;
    if (due <= now) events |= POLLOUT;
    else *due_ns = due;
  }
  return events;
}
