// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "control.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "node.h"

enum { LOOK_EVERY_NS = 20 * 1000 * 1000, TEXT_MAX = 8192 };

// Faults are read in loops that wait, so they are kept parsed and are read without a lock.
static struct control {
  pthread_mutex_t lock;
  uint64_t look_at;  // monotonic ns
  char text[TEXT_MAX];
  bool frozen, held, lost, link_stalled;
  double speed, link_rate, proxy_delay;
} controls[NODE_GPUS_MAX] = {[0 ... NODE_GPUS_MAX - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER, .speed = 1}};

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// The rest of the line that begins with key and a blank.
static bool find(const char *text, const char *key, char *value, size_t size) {
  size_t length = strlen(key);
  for (const char *line = text; *line;) {
    size_t end = strcspn(line, "\n");
    if (!strncmp(line, key, length) && (line[length] == ' ' || line[length] == '\t')) {
      size_t skip = length + strspn(line + length, " \t");
      size_t n = end > skip ? end - skip : 0;
      if (n >= size) n = size - 1;
      memcpy(value, line + skip, n);
      value[n] = 0;
      return true;
    }
    line += end + (line[end] == '\n');
  }
  return false;
}

static double number(const char *text, const char *key, double otherwise) {
  char value[64], *end;
  if (!find(text, key, value, sizeof value)) return otherwise;
  double d = strtod(value, &end);
  return end == value ? otherwise : d;
}

static void read_file(int gpu, char text[TEXT_MAX]) {
  char path[4096];
  size_t have = 0;
  int fd = node_path(gpu, "control", path, sizeof path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  for (ssize_t n = 1; fd >= 0 && n > 0 && have < TEXT_MAX - 1; have += n > 0 ? (size_t)n : 0) {
    n = read(fd, text + have, TEXT_MAX - 1 - have);
  }
  text[have] = 0;
  if (fd >= 0) close(fd);
}

#define SET(field, value) __atomic_store(&c->field, &(__typeof__(c->field)){value}, __ATOMIC_RELAXED)

static void parse(struct control *c) {
  double speed = number(c->text, "speed", 1);
  SET(speed, speed > 0 ? speed : 1);
  SET(frozen, number(c->text, "freeze", 0) != 0);
  SET(held, number(c->text, "hold", 0) != 0);
  SET(lost, number(c->text, "lost", 0) != 0);
  SET(link_stalled, number(c->text, "link.stall", 0) != 0);
  SET(link_rate, number(c->text, "link.rate", 0));
  SET(proxy_delay, number(c->text, "proxy.delay_ms", 0));
}

static struct control *look(int gpu) {
  struct control *c = &controls[gpu >= 0 && gpu < NODE_GPUS_MAX ? gpu : 0];
  uint64_t t = now(), due = __atomic_load_n(&c->look_at, __ATOMIC_ACQUIRE);
  if (t < due) return c;
  pthread_mutex_lock(&c->lock);
  if (t >= c->look_at) {
    char text[TEXT_MAX];
    read_file(gpu, text);
    if (strcmp(text, c->text)) {
      strcpy(c->text, text);
      parse(c);
    }
    __atomic_store_n(&c->look_at, t + LOOK_EVERY_NS, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&c->lock);
  return c;
}

#define GET(field)                                              \
  struct control *c = look(gpu);                                \
  __typeof__(c->field) value;                                   \
  __atomic_load(&c->field, &value, __ATOMIC_RELAXED);           \
  return value

bool control_frozen(int gpu) { GET(frozen); }
bool control_held(int gpu) { GET(held); }
bool control_lost(int gpu) { GET(lost); }
double control_speed(int gpu) { GET(speed); }
bool control_link_stalled(int gpu) { GET(link_stalled); }
double control_link_rate(int gpu) { GET(link_rate); }
double control_proxy_delay(int gpu) { GET(proxy_delay); }

bool control_text(int gpu, const char *key, char *value, size_t size) {
  struct control *c = look(gpu);
  pthread_mutex_lock(&c->lock);
  bool found = find(c->text, key, value, size);
  pthread_mutex_unlock(&c->lock);
  return found;
}

double control_number(int gpu, const char *key, double otherwise) {
  struct control *c = look(gpu);
  pthread_mutex_lock(&c->lock);
  double d = number(c->text, key, otherwise);
  pthread_mutex_unlock(&c->lock);
  return d;
}
