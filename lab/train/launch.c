// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "event.h"
#include "program.h"

#define PATH_BYTES 512
#define HOST_BYTES 64
// How often the launcher looks at its deadlines.
#define LOOK_NS (50 * NS_PER_MS)

// A process: of `per_process` ranks from `process * per_process` on.
struct child {
  pid_t pid;     // 0 once reaped.
  bool stopped;  // By SIGSTOP: it cannot answer SIGTERM.
};

struct launch {
  int ranks, hosts, per_process;
  int processes;
  const char *dir, *job, *host_prefix;
  const char *other;    // The program of the ranks instead of this one; NULL: this one.
  uint64_t grace_ns;    // From SIGTERM to SIGKILL.
  uint64_t timeout_ns;  // Of the whole run; 0 none.
  char rendezvous[PATH_BYTES];
  struct child *children;
  int running;
  bool ending;  // SIGTERM has been sent.
  bool killed;  // SIGKILL has been sent.
  uint64_t kill_ns;
  int exit_code;
};

static uint64_t whole(const char *name, const char *text) {
  char *end;
  unsigned long long v = strtoull(text, &end, 10);
  if (end == text || *end || *text == '-') die(EXIT_USAGE, "--%s wants a number, not \"%s\"", name, text);
  return v;
}

static int parse(struct launch *l, int argc, char **argv) {
  static const struct option flags[] = {
      {"ranks", required_argument, NULL, 'r'},  {"hosts", required_argument, NULL, 'h'},
      {"dir", required_argument, NULL, 'd'},    {"job", required_argument, NULL, 'j'},
      {"grace", required_argument, NULL, 'g'},  {"timeout", required_argument, NULL, 't'},
      {"host-prefix", required_argument, NULL, 'p'}, {"ranks-per-process", required_argument, NULL, 'n'},
      {"program", required_argument, NULL, 'o'}, {"help", no_argument, NULL, '?'},
      {0},
  };
  *l = (struct launch){.ranks = 2, .hosts = 1, .per_process = 1, .job = program.name, .host_prefix = "node", .grace_ns = 10 * NS_PER_S};
  for (int flag; (flag = getopt_long(argc, argv, "+", flags, NULL)) >= 0;) {
    switch (flag) {
      case 'r': l->ranks = (int)whole("ranks", optarg); break;
      case 'h': l->hosts = (int)whole("hosts", optarg); break;
      case 'd': l->dir = optarg; break;
      case 'j': l->job = optarg; break;
      case 'p': l->host_prefix = optarg; break;
      case 'o': l->other = optarg; break;
      case 'n': l->per_process = (int)whole("ranks-per-process", optarg); break;
      case 'g': l->grace_ns = whole("grace", optarg) * NS_PER_S; break;
      case 't': l->timeout_ns = whole("timeout", optarg) * NS_PER_S; break;
      default: program.usage(); exit(EXIT_USAGE);
    }
  }
  if (!l->dir) die(EXIT_USAGE, "launch: --dir is missing");
  if (l->ranks < 1 || l->hosts < 1 || l->ranks % l->hosts != 0) die(EXIT_USAGE, "launch: --ranks must be a multiple of --hosts");
  if (l->per_process < 1 || l->ranks / l->hosts % l->per_process != 0) {
    die(EXIT_USAGE, "launch: the ranks of a host must be a multiple of --ranks-per-process");
  }
  if (l->per_process > 1 && !program.prepare_rank) die(EXIT_USAGE, "launch: %s runs one rank a process", program.name);
  l->processes = l->ranks / l->per_process;
  return optind;
}

static void make_dir(const char *path) {
  if (mkdir(path, 0755) != 0 && errno != EEXIST) die(EXIT_SYSTEM, "making %s: %s", path, strerror(errno));
}

static void path_join(char *path, const char *dir, const char *name) {
  if (snprintf(path, PATH_BYTES, "%s/%s", dir, name) >= PATH_BYTES) die(EXIT_SYSTEM, "path too long: %s/%s", dir, name);
}

// Writes the name of a host into `name`, HOST_BYTES long.
static const char *host_of(const struct launch *l, int host, char *name) {
  if (snprintf(name, HOST_BYTES, "%s%d", l->host_prefix, host) >= HOST_BYTES) die(EXIT_USAGE, "launch: --host-prefix is too long");
  return name;
}

// An empty rendezvous directory of this launch's own: jobs may start side by side, and what an earlier one left must not be met.
static void prepare(struct launch *l) {
  make_dir(l->dir);
  char own[32];
  snprintf(own, sizeof own, "rendezvous-%ld", (long)getpid());
  path_join(l->rendezvous, l->dir, own);
  make_dir(l->rendezvous);
  DIR *dir = opendir(l->rendezvous);
  if (!dir) die(EXIT_SYSTEM, "opening %s: %s", l->rendezvous, strerror(errno));
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char path[PATH_BYTES];
    path_join(path, l->rendezvous, entry->d_name);
    unlink(path);
  }
  closedir(dir);
  for (int h = 0; h < l->hosts; h++) {
    char name[32], path[PATH_BYTES];
    snprintf(name, sizeof name, "host%d", h);
    path_join(path, l->dir, name);
    make_dir(path);
    char host_name[HOST_BYTES];
    if (program.prepare_host) program.prepare_host(l->dir, host_of(l, h, host_name), h, l->ranks / l->hosts);
  }
}

static void set_number(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

static _Noreturn void run_process(const struct launch *l, int process, char **rank_argv, pid_t launcher) {
  // No rank outlives the launcher, however that ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(EXIT_SYSTEM);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  int per_host = l->processes / l->hosts, host = process / per_host, local = process % per_host;
  char text[PATH_BYTES], name[HOST_BYTES];
  // As launchers count: processes.
  set_number("RANK", process);
  set_number("WORLD_SIZE", l->processes);
  set_number("LOCAL_RANK", local);
  set_number("LOCAL_WORLD_SIZE", per_host);
  set_number("NODE_RANK", host);
  set_number("CULPRIT_GPU", local * l->per_process);
  setenv("CULPRIT_HOSTNAME", host_of(l, host, name), 1);
  if (program.prepare_rank) program.prepare_rank(l->dir, name, host, local * l->per_process, l->per_process);
  setenv("CULPRIT_JOB_ID", l->job, 1);
  snprintf(name, sizeof name, "host%d", host);
  path_join(text, l->dir, name);
  setenv("CULPRIT_DIR", text, 1);
  if (l->other) {
    execv(l->other, rank_argv);
    die(EXIT_SYSTEM, "starting %s: %s", l->other, strerror(errno));
  }
  // By its real path, so that the process has the program's name.
  char self[PATH_BYTES];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) {
    self[n] = 0;
    execv(self, rank_argv);
  }
  die(EXIT_SYSTEM, "starting process %d: %s", process, strerror(errno));
}

static void start(struct launch *l, const char *argv0, int argc, char **argv) {
  // The rank's own flags behind the rendezvous.
  char **rank_argv = must_calloc((size_t)argc + 4, sizeof *rank_argv);
  int n = 0;
  rank_argv[n++] = (char *)(uintptr_t)argv0;
  rank_argv[n++] = (char *)(uintptr_t) "--rendezvous";
  rank_argv[n++] = l->rendezvous;
  for (int i = 0; i < argc; i++) rank_argv[n++] = argv[i];
  l->children = must_calloc((size_t)l->processes, sizeof *l->children);
  pid_t launcher = getpid();
  int per_host = l->ranks / l->hosts;
  for (int p = 0; p < l->processes; p++) {
    pid_t pid = fork();
    if (pid < 0) die(EXIT_SYSTEM, "fork: %s", strerror(errno));
    if (pid == 0) run_process(l, p, rank_argv, launcher);
    l->children[p].pid = pid;
    l->running++;
    for (int r = p * l->per_process; r < (p + 1) * l->per_process; r++) {
      char host[HOST_BYTES];
      event_emit_of(r, "rank_start", ",\"pid\":%ld,\"host\":\"%s\",\"gpu\":%d", (long)pid, host_of(l, r / per_host, host), r % per_host);
    }
  }
  free(rank_argv);
}

static void send_signal(pid_t pid, int number) {
  if (number == SIGKILL && program.before_kill) program.before_kill(pid);
  kill(pid, number);
}

static void signal_all(const struct launch *l, int number) {
  for (int p = 0; p < l->processes; p++) {
    const struct child *c = &l->children[p];
    if (c->pid > 0) send_signal(c->pid, c->stopped ? SIGKILL : number);
  }
}

static void end_all(struct launch *l, uint64_t grace_ns) {
  if (l->ending) return;
  l->ending = true;
  l->kill_ns = now_ns() + grace_ns;
  signal_all(l, SIGTERM);
}

// The worst news wins: wrong sums, then broken runs, lost ranks, aborts.
static int severity(int code) {
  switch (code) {
    case EXIT_OK: return 0;
    case EXIT_ABORTED: return 1;
    case EXIT_RANK_LOST: return 2;
    case EXIT_WRONG_SUM: return 4;
    default: return 3;
  }
}

static void reap(struct launch *l) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0;) {
    int process = 0;
    while (process < l->processes && l->children[process].pid != pid) process++;
    if (process == l->processes) continue;
    int first = process * l->per_process, after = first + l->per_process;
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
      l->children[process].stopped = WIFSTOPPED(status);
      const char *event = WIFSTOPPED(status) ? "rank_stopped" : "rank_continued";
      for (int r = first; r < after; r++) event_emit_of(r, event, ",\"pid\":%ld", (long)pid);
      if (l->ending && WIFSTOPPED(status)) send_signal(pid, SIGKILL);
      continue;
    }
    l->children[process].pid = 0;
    l->running--;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : l->ending ? EXIT_ABORTED : EXIT_RANK_LOST;
    for (int r = first; r < after; r++) {
      event_emit_of(r, "rank_exit", ",\"pid\":%ld,\"code\":%d,\"signal\":%d", (long)pid, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                    WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    if (severity(code) > severity(l->exit_code)) l->exit_code = code;
    // Others hang on a rank that was killed, as they would; but a run that is broken is over.
    if (code != EXIT_OK && code != EXIT_RANK_LOST) end_all(l, l->grace_ns);
  }
}

static void supervise(struct launch *l) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGCHLD);
  uint64_t deadline = l->timeout_ns ? now_ns() + l->timeout_ns : UINT64_MAX;
  while (l->running > 0) {
    struct timespec t = {.tv_nsec = (long)LOOK_NS};
    int got = sigtimedwait(&set, NULL, &t);
    if (got == SIGTERM || got == SIGINT || got == SIGHUP) end_all(l, l->grace_ns);
    reap(l);
    uint64_t now = now_ns();
    if (now > deadline) end_all(l, l->grace_ns);
    if (l->ending && !l->killed && now > l->kill_ns) {
      l->killed = true;
      signal_all(l, SIGKILL);
    }
  }
}

int launch_main(int argc, char **argv, const char *argv0) {
  struct launch l;
  int rest = parse(&l, argc, argv);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, NULL);
  prepare(&l);
  event_emit("launch", ",\"pid\":%ld,\"ranks\":%d,\"hosts\":%d,\"job\":\"%s\"", (long)getpid(), l.ranks, l.hosts, l.job);
  start(&l, argv0, argc - rest, argv + rest);
  supervise(&l);
  event_emit("end", ",\"code\":%d", l.exit_code);
  free(l.children);
  return l.exit_code;
}
