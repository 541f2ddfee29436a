// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Where the file is made, and what of other users is in the way there.

#include "harness.h"
#include "nccl.h"
#include "traceview.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRANGER 1001

static char path_text[256];

static const char *in_root(const char *name) {
  snprintf(path_text, sizeof path_text, "%s/%s", harness_directory(), name);
  return path_text;
}

static const char *usual(void) {
  char name[32];
  snprintf(name, sizeof name, "u%u", geteuid());
  return in_root(name);
}

static void check_refused(const char *why) {
  nccl_load(6);
  CHECK(nccl_init(1, NULL, 2, 4, 0) == NULL);
  CHECK_EQ(nccl_mask, 0);
  CHECK(strstr(nccl_log, why) != NULL);
  CHECK(strstr(nccl_log, "the job runs on") != NULL);
  CHECK_EQ(view_files(), 0);
}

static struct view check_made(void) {
  nccl_load(6);
  CHECK(nccl_init(1, NULL, 2, 4, 0) != NULL);
  CHECK(nccl_mask != 0);
  return view_open();
}

static void directory_of_the_user(void) {
  umask(077);
  struct view v = check_made();
  CHECK(strncmp(v.path, usual(), strlen(usual())) == 0 && v.path[strlen(usual())] == '/');
  struct stat st;
  CHECK(lstat(usual(), &st) == 0 && S_ISDIR(st.st_mode));
  CHECK_EQ(st.st_uid, geteuid());
  CHECK_EQ(st.st_mode & 07777, 0755);
}

static void open_to_all_is_closed(void) {
  umask(0);
  CHECK(mkdir(usual(), 0777) == 0);
  check_made();
  struct stat st;
  CHECK(lstat(usual(), &st) == 0);
  CHECK_EQ(st.st_mode & 07777, 0755);
}

static void root_is_a_link(void) {
  char real[300];
  snprintf(real, sizeof real, "%s", in_root("real"));
  CHECK(mkdir(real, 0755) == 0);
  CHECK(symlink(real, in_root("link")) == 0);
  setenv("CULPRIT_DIR", path_text, 1);
  check_refused("opening the trace directory");
  CHECK(rmdir(real) == 0);  // Nothing was made behind the link.
}

static void root_is_not_sticky(void) {
  CHECK(chmod(harness_directory(), 0777) == 0);
  check_refused("is sticky");
}

static void root_is_sticky(void) {
  CHECK(chmod(harness_directory(), 01777) == 0);
  check_made();
}

// Only root can play another user here; a user's own run of these tests leaves it out.
static void root_is_a_strangers(void) {
  if (geteuid() != 0) return;
  CHECK(chmod(harness_directory(), 01777) == 0);
  CHECK(chown(harness_directory(), STRANGER, STRANGER) == 0);
  check_refused("checking that root or this user owns the trace directory");
}

static void root_of_root_serves_users(void) {
  if (geteuid() != 0) return;
  CHECK(chmod(harness_directory(), 01777) == 0);
  CHECK(seteuid(STRANGER) == 0);
  check_made();
  struct stat st;
  CHECK(lstat(usual(), &st) == 0);
  CHECK_EQ(st.st_uid, STRANGER);
  CHECK(seteuid(0) == 0);
}

// check_evaded: what lies under the usual name is not used, and all processes of this user use one other directory.
static void check_evaded(void) {
  const pid_t child = fork();
  if (child == 0) {
    check_made();
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  struct view first = view_open();
  CHECK(strncmp(first.path, usual(), strlen(usual())) == 0 && first.path[strlen(usual())] == '-');
  CHECK(unlink(first.path) == 0);
  struct view second = check_made();
  const size_t folder = (size_t)(strrchr(first.path, '/') - first.path);
  CHECK(strncmp(first.path, second.path, folder + 1) == 0);
}

static void name_is_a_link(void) {
  char real[300];
  snprintf(real, sizeof real, "%s", in_root("real"));
  CHECK(mkdir(real, 0755) == 0);
  CHECK(symlink(real, usual()) == 0);
  check_evaded();
  CHECK(rmdir(real) == 0);
}

static void name_is_a_file(void) {
  CHECK(close(open(usual(), O_CREAT | O_WRONLY, 0644)) == 0);
  check_evaded();
}

static void name_is_a_strangers(void) {
  if (geteuid() != 0) return;
  CHECK(mkdir(usual(), 0777) == 0);
  CHECK(chown(usual(), STRANGER, STRANGER) == 0);
  check_evaded();
  CHECK(rmdir(usual()) == 0);
}

// A stranger fills the root with more than anybody would list, and takes the usual name.
static void root_is_full(void) {
  CHECK(close(open(usual(), O_CREAT | O_WRONLY, 0644)) == 0);
  char name[32];
  for (unsigned i = 0; i < 9000; i++) {
    snprintf(name, sizeof name, "%u.trace", i);
    CHECK(close(open(in_root(name), O_CREAT | O_WRONLY, 0644)) == 0);
  }
  nccl_load(6);
  CHECK(nccl_init(1, NULL, 2, 4, 0) != NULL);
  char second[300], entry[400];
  snprintf(second, sizeof second, "%s-1", usual());
  struct stat st;
  CHECK(lstat(second, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid());
  snprintf(entry, sizeof entry, "%s-2", usual());
  CHECK(lstat(entry, &st) != 0);
  for (unsigned i = 0; i < 9000; i++) {
    snprintf(name, sizeof name, "%u.trace", i);
    CHECK(unlink(in_root(name)) == 0);
  }
}

// A stranger has taken all names that are known before: another one serves.
static void all_names_are_taken(void) {
  char name[300];
  CHECK(close(open(usual(), O_CREAT | O_WRONLY, 0644)) == 0);
  for (unsigned i = 1; i < 16; i++) {
    snprintf(name, sizeof name, "%s-%u", usual(), i);
    CHECK(close(open(name, O_CREAT | O_WRONLY, 0644)) == 0);
  }
  struct view v = check_made();
  CHECK(strncmp(v.path, usual(), strlen(usual())) == 0 && v.path[strlen(usual())] == '-');
  CHECK((size_t)(strrchr(v.path, '/') - v.path) == strlen(usual()) + 17);
}

static const struct test_case cases[] = {
    {"root_is_full", root_is_full},
    {"all_names_are_taken", all_names_are_taken},
    {"directory_of_the_user", directory_of_the_user},
    {"open_to_all_is_closed", open_to_all_is_closed},
    {"root_is_a_link", root_is_a_link},
    {"root_is_not_sticky", root_is_not_sticky},
    {"root_is_sticky", root_is_sticky},
    {"root_is_a_strangers", root_is_a_strangers},
    {"root_of_root_serves_users", root_of_root_serves_users},
    {"name_is_a_link", name_is_a_link},
    {"name_is_a_file", name_is_a_file},
    {"name_is_a_strangers", name_is_a_strangers},
};

TEST_MAIN(cases)
