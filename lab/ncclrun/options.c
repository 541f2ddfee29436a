// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "parse.h"

enum { PATH_BYTES = 4096 };

enum kind {
  HEADING,   // Of the flags below it, in the help.
  COUNT,     // int
  WHOLE,     // uint64_t
  SCALED,    // uint64_t, in units
  NUMBER,    // double, in units
  CHOICE,    // enum of two words
  ON_OFF,    // bool
  SET,       // bool, without a value
  TEXT,      // const char *
  SHAPE,
  FAULT,
  FAULT_KEY,
  HELP,
};

struct flag {
  const char *name, *value, *help;
  enum kind kind;
  void *into;
  double unit;
  const char *words[4];
};

static struct options o;

static const struct flag flags[] = {
    {.help = "Shape of the job:"},
    {"layout", "dpN,ppN,tpN[,epN][,cpN]", "world size is dp*pp*tp; ep and cp divide dp         [dp = world size]", SHAPE, NULL, 0, {0}},
    {"cliques", "NAME,…", "make these of world, dp, pp, tp, ep, cp alone, each by itself, as JAX [world and its splits]", TEXT, &o.cliques, 0, {0}},
    {"shrink", NULL, "shrink world to all ranks but the last, for an AllReduce a step beside the others", SET, &o.shrink, 0, {0}},
    {"steps", "N", "training steps; 0: until SIGTERM                           [0]", WHOLE, &o.steps, 0, {0}},
    {"compute-ms", "MS", "one forward or backward pass of one microbatch             [10]", SCALED, &o.compute_ns, NS_PER_MS, {0}},
    {"jitter", "SHARE", "a pass takes up to this share less or more                 [0]", NUMBER, &o.jitter, 1, {0}},
    {"microbatches", "M", "in a step                                                  [2]", COUNT, &o.microbatches, 0, {0}},
    {"bytes", "B", "gradient of a step; K, M, G allowed                        [256K]", WHOLE, &o.bytes, 0, {0}},
    {"tp-bytes", "B", "one tensor-parallel operation                              [bytes/4]", WHOLE, &o.tp_bytes, 0, {0}},
    {"pp-bytes", "B", "one pipeline transfer                                      [bytes/4]", WHOLE, &o.pp_bytes, 0, {0}},
    {"ep-bytes", "B", "one all-to-all of a rank's tokens                          [bytes/4]", WHOLE, &o.ep_bytes, 0, {0}},
    {"cp-bytes", "B", "one transfer of a ring of context parallelism              [bytes/4]", WHOLE, &o.cp_bytes, 0, {0}},
    {"ep-skew", "SHARE", "an all-to-all sends to a member up to this more or less    [0]", NUMBER, &o.ep_skew, 1, {0}},
    {"dp-buckets", "N", "gradient operations in a step                              [1]", COUNT, &o.dp_buckets, 0, {0}},
    {"dp-op", "allreduce|rs-ag|fsdp", "gradient; fsdp also divides the parameters       [allreduce]", CHOICE, &o.dp_op, 0, {"allreduce", "rs-ag", "fsdp"}},
    {"schedule", "1f1b|gpipe|interleaved", "pipeline schedule                              [1f1b]", CHOICE, &o.schedule, 0, {"1f1b", "gpipe", "interleaved"}},
    {"chunks", "N", "of a stage, interleaved                                    [2]", COUNT, &o.chunks, 0, {0}},
    {"norm-every", "STEPS", "AllReduce of two floats on all ranks; 0 never              [1]", COUNT, &o.norm_every, 0, {0}},
    {"barrier-every", "STEPS", "AllReduce of one element on all ranks; 0 never             [10]", COUNT, &o.barrier_every, 0, {0}},
    {"broadcast-every", "STEPS", "Broadcast of a batch on tp, or dp; 0 never                 [10]", COUNT, &o.broadcast_every, 0, {0}},
    {"graphs", NULL, "capture the passes of a step and replay them; implies --check off", SET, &o.graphs, 0, {0}},
    {"ahead", "STEPS", "that the CPU may be ahead of the GPU                       [0]", COUNT, &o.ahead, 0, {0}},
    {"report-rank", "R", "whose steps are reported                                   [0]", COUNT, &o.report_rank, 0, {0}},
    {"report-every", "STEPS", "step events; 0 never                                       [1]", COUNT, &o.report_every, 0, {0}},
    {"check", "on|off", "verify every result                                        [on]", ON_OFF, &o.check, 0, {0}},
    {.help = "Communication:"},
    {"nccl", "PATH", "libnccl.so.2                                               [$NCCL_LIB]", TEXT, &o.library, 0, {0}},
    {"nccl-layout", "PATH", "of its structs             [$NCCL_LAYOUT, or \"layout\" beside the library]", TEXT, &o.layout, 0, {0}},
    {"intra", "net|shm", "between ranks of a host                                    [net]", CHOICE, &o.intra, 0, {"net", "shm"}},
    {"algo", "NAME", "NCCL_ALGO                                                  [NCCL's choice]", TEXT, &o.algo, 0, {0}},
    {"proto", "NAME", "NCCL_PROTO                                                 [NCCL's choice]", TEXT, &o.proto, 0, {0}},
    {"channels", "N", "NCCL_MAX_CTAS, unless the environment has it; 0: NCCL's    [2]", COUNT, &o.channels, 0, {0}},
    {"link-mbps", "MB/S", "what link-slow takes a fraction of                         [500]", NUMBER, &o.link_bytes_per_s, 1e6, {0}},
    {"poll-us", "US", "that NCCL's threads sleep between two looks; 0: they poll      [0]", COUNT, &o.poll_us, 0, {0}},
    {"ras", NULL, "RAS on a free port, named by rank_ready; without it RAS is off", SET, &o.ras, 0, {0}},
    {.help = "Running:"},
    {"ranks-per-process", "N", "each with a GPU and a thread of its own; also of launch    [1]", COUNT, &o.per_process, 0, {0}},
    {"rendezvous", "DIR", "empty directory shared by all ranks", TEXT, &o.rendezvous, 0, {0}},
    {"rendezvous-timeout", "S", "                                                           [120]", SCALED, &o.rendezvous_ns, NS_PER_S, {0}},
    {"grace", "S", "from SIGTERM to abort                                      [5]", SCALED, &o.grace_ns, NS_PER_S, {0}},
    {"selftest", "ops|OP[:BYTES],…", "operations instead of training, --steps times (1); see README.md", TEXT, &o.selftest, 0, {0}},
    {.help = "Faults:"},
    {"fault", "KIND[=VALUE]", "and [:rank=R|all][:step=N][:after=S][:for=S][:moment=SHARE][:every=N][:comm=NAME|any]", FAULT, NULL, 0, {0}},
    {"fault-rank", "R", "these set keys of the last --fault; without step and after it begins on SIGUSR1", FAULT_KEY, NULL, 0, {"rank"}},
    {"fault-at-step", "N", "", FAULT_KEY, NULL, 0, {"step"}},
    {"fault-after", "S", "", FAULT_KEY, NULL, 0, {"after"}},
    {"fault-for", "S", "", FAULT_KEY, NULL, 0, {"for"}},
    {"fault-moment", "SHARE", "", FAULT_KEY, NULL, 0, {"moment"}},
    {"fault-every", "STEPS", "", FAULT_KEY, NULL, 0, {"every"}},
    {"fault-comm", "NAME", "", FAULT_KEY, NULL, 0, {"comm"}},
    {"help", NULL, "", HELP, NULL, 0, {0}},
};

enum { FLAG_COUNT = sizeof flags / sizeof *flags };

void options_usage(void) {
  puts("ncclrun launch --ranks N --hosts H --dir DIR [launch flags] -- [rank flags]\n"
       "ncclrun [rank flags]     with RANK, WORLD_SIZE, LOCAL_WORLD_SIZE in the environment\n");
  for (int i = 0; i < FLAG_COUNT; i++) {
    char head[64];
    if (flags[i].kind == HEADING) {
      puts(flags[i].help);
      continue;
    }
    snprintf(head, sizeof head, "--%s %s", flags[i].name, flags[i].value ? flags[i].value : "");
    printf("  %-28s%s\n", head, flags[i].help);
  }
  fault_usage();
}

static void parse_flag(const struct flag *f, const char *arg) {
  switch (f->kind) {
    case HEADING: break;
    case COUNT: *(int *)f->into = (int)parse_whole(f->name, arg); break;
    case WHOLE: *(uint64_t *)f->into = parse_whole(f->name, arg); break;
    case SCALED: *(uint64_t *)f->into = parse_scaled(f->name, arg, f->unit); break;
    case NUMBER: *(double *)f->into = (double)parse_scaled(f->name, arg, 1e6) / 1e6 * f->unit; break;
    case CHOICE: *(unsigned *)f->into = (unsigned)parse_word(f->name, arg, f->words); break;
    case ON_OFF: *(bool *)f->into = parse_choice(f->name, arg, "on", "off") == 0; break;
    case SET: *(bool *)f->into = true; break;
    case TEXT: *(const char **)f->into = arg; break;
    case SHAPE: parse_layout(arg, &o.dp, &o.pp, &o.tp, &o.ep, &o.cp); break;
    case FAULT: fault_add(arg); break;
    case FAULT_KEY: fault_modify(f->words[0], arg); break;
    case HELP:
      options_usage();
      exit(EXIT_OK);
  }
}

// A layout is found beside its library.
static const char *layout_beside(const char *library) {
  static char path[PATH_BYTES];
  const char *slash = strrchr(library, '/');
  snprintf(path, sizeof path, "%.*slayout", slash ? (int)(slash - library) + 1 : 0, library);
  return path;
}

static void find_library(void) {
  if (!o.library) o.library = getenv("NCCL_LIB");
  if (!o.library || !*o.library) die(EXIT_USAGE, "no NCCL library: give --nccl PATH or NCCL_LIB");
  if (access(o.library, R_OK) != 0) die(EXIT_USAGE, "the NCCL library %s cannot be read", o.library);
  if (!o.layout) o.layout = getenv("NCCL_LAYOUT");
  if (!o.layout || !*o.layout) o.layout = layout_beside(o.library);
  if (access(o.layout, R_OK) != 0) die(EXIT_USAGE, "no layout of the NCCL library at %s: make it with nccl-layout", o.layout);
}

static void validate_shape(void) {
  if (o.per_process < 1 || o.world_size < 1) die(EXIT_USAGE, "a job has at least one rank");
  if (o.first_rank < 0 || o.first_rank + o.per_process > o.world_size) die(EXIT_USAGE, "RANK does not fit WORLD_SIZE");
  if (o.tp == 0 && o.dp == 0 && o.pp == 0) o.dp = o.world_size;
  if (o.tp == 0) o.tp = 1;
  if (o.dp == 0) o.dp = 1;
  if (o.pp == 0) o.pp = 1;
  if (o.ep == 0) o.ep = 1;
  if (o.cp == 0) o.cp = 1;
  if (o.tp * o.dp * o.pp != o.world_size) {
    die(EXIT_USAGE, "layout dp%d,pp%d,tp%d needs %d ranks, there are %d", o.dp, o.pp, o.tp, o.tp * o.dp * o.pp, o.world_size);
  }
  if (o.dp % o.ep != 0) die(EXIT_USAGE, "layout: ep%d does not divide dp%d", o.ep, o.dp);
  if (o.dp % o.cp != 0) die(EXIT_USAGE, "layout: cp%d does not divide dp%d", o.cp, o.dp);
  if (o.schedule == SCHEDULE_INTERLEAVED && (o.pp < 3 || o.chunks < 1 || o.microbatches % o.pp != 0)) {
    die(EXIT_USAGE, "--schedule interleaved: three stages or more, and microbatches that they divide");
  }
}

static void validate_cliques(void) {
  char names[64], *rest = names;
  if (!o.cliques) return;
  if (snprintf(names, sizeof names, "%s", o.cliques) >= (int)sizeof names) die(EXIT_USAGE, "--cliques is too long");
  for (const char *name; (name = strsep(&rest, ",")) != NULL;) {
    bool known = strlen(name) == 2 && strstr("dp pp tp ep cp", name);
    if (!known && strcmp(name, "world") != 0) die(EXIT_USAGE, "--cliques: no communicator is called \"%s\"", name);
  }
  if (o.pp > 1 && !strstr(o.cliques, "pp")) die(EXIT_USAGE, "--cliques: a pipeline needs pp");
  if (o.shrink) die(EXIT_USAGE, "--shrink needs world and its splits, not --cliques");
  if (o.selftest) die(EXIT_USAGE, "--selftest needs world and its splits, not --cliques");
}

static void part_of_gradient(uint64_t *bytes) {
  if (*bytes == 0) *bytes = o.bytes / 4;
  if (*bytes < sizeof(float)) *bytes = sizeof(float);
}

static void validate(void) {
  validate_shape();
  validate_cliques();
  if (o.microbatches < 1 || o.dp_buckets < 1) die(EXIT_USAGE, "--microbatches and --dp-buckets are at least 1");
  if (o.jitter >= 1 || o.ep_skew >= 1) die(EXIT_USAGE, "--jitter and --ep-skew are less than 1");
  if (o.bytes < sizeof(float)) die(EXIT_USAGE, "--bytes: at least 4");
  if (o.link_bytes_per_s <= 0) die(EXIT_USAGE, "--link-mbps: more than 0");
  if (!o.rendezvous) die(EXIT_USAGE, "--rendezvous is missing");
  if (o.shrink && o.world_size < 3) die(EXIT_USAGE, "--shrink: two ranks have to be left");
  if (o.graphs) o.check = false;
  part_of_gradient(&o.tp_bytes);
  part_of_gradient(&o.pp_bytes);
  part_of_gradient(&o.ep_bytes);
  part_of_gradient(&o.cp_bytes);
  find_library();
}

static void parse_all(int argc, char **argv) {
  struct option long_flags[FLAG_COUNT + 1] = {0};
  int count = 0;
  for (int i = 0; i < FLAG_COUNT; i++) {
    if (flags[i].kind == HEADING) continue;
    bool bare = flags[i].kind == SET || flags[i].kind == HELP;
    long_flags[count++] = (struct option){flags[i].name, bare ? no_argument : required_argument, NULL, i};
  }
  int flag;
  while ((flag = getopt_long(argc, argv, "", long_flags, NULL)) >= 0) {
    if (flag == '?') die(EXIT_USAGE, "see ncclrun --help");
    parse_flag(&flags[flag], optarg);
  }
  if (optind < argc) die(EXIT_USAGE, "unexpected argument \"%s\"", argv[optind]);
}

_Static_assert((int)FLAG_COUNT < '?', "a flag's index is what getopt returns");

void options_parse(struct options *options, int argc, char **argv) {
  o = (struct options){.per_process = 1,
                       .compute_ns = 10 * NS_PER_MS,
                       .bytes = 256u << 10,
                       .microbatches = 2,
                       .chunks = 2,
                       .dp_buckets = 1,
                       .norm_every = 1,
                       .barrier_every = 10,
                       .broadcast_every = 10,
                       .report_every = 1,
                       .check = true,
                       .channels = 2,
                       .link_bytes_per_s = 500e6,
                       .rendezvous_ns = 120 * NS_PER_S,
                       .grace_ns = 5 * NS_PER_S};
  if (getenv("NCCLRUN_RANKS_PER_PROCESS")) o.per_process = parse_env("NCCLRUN_RANKS_PER_PROCESS");
  parse_all(argc, argv);
  o.first_rank = parse_env("RANK") * o.per_process;
  o.world_size = parse_env("WORLD_SIZE") * o.per_process;
  o.ranks_per_host = (getenv("LOCAL_WORLD_SIZE") ? parse_env("LOCAL_WORLD_SIZE") : 1) * o.per_process;
  validate();
  *options = o;
}
