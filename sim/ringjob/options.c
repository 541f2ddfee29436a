// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "comm.h"
#include "event.h"
#include "fault.h"
#include "parse.h"

enum {
  OPT_LAYOUT = 256,
  OPT_STEPS,
  OPT_COMPUTE,
  OPT_BYTES,
  OPT_TP_BYTES,
  OPT_PP_BYTES,
  OPT_MICROBATCHES,
  OPT_BUCKETS,
  OPT_DP_OP,
  OPT_SCHEDULE,
  OPT_BARRIER,
  OPT_REPORT,
  OPT_ALGO,
  OPT_CHECK,
  OPT_ABI,
  OPT_CHANNELS,
  OPT_P2P_CHANNELS,
  OPT_STEP_BYTES,
  OPT_SHARED_PROXY,
  OPT_CONNECT,
  OPT_COMM_NAMES,
  OPT_NET,
  OPT_INTRA,
  OPT_LINK_MBPS,
  OPT_LINK_LATENCY,
  OPT_POLL,
  OPT_RENDEZVOUS,
  OPT_RENDEZVOUS_TIMEOUT,
  OPT_GRACE,
  OPT_SELFTEST,
  OPT_FAULT,
  OPT_FAULT_RANK,
  OPT_FAULT_PEER,
  OPT_FAULT_CHANNEL,
  OPT_FAULT_COMM,
  OPT_FAULT_STEP,
  OPT_FAULT_AFTER,
  OPT_FAULT_FOR,
  OPT_HELP,
};

static const struct option flags[] = {
    {"layout", required_argument, NULL, OPT_LAYOUT},
    {"steps", required_argument, NULL, OPT_STEPS},
    {"compute-ms", required_argument, NULL, OPT_COMPUTE},
    {"bytes", required_argument, NULL, OPT_BYTES},
    {"tp-bytes", required_argument, NULL, OPT_TP_BYTES},
    {"pp-bytes", required_argument, NULL, OPT_PP_BYTES},
    {"microbatches", required_argument, NULL, OPT_MICROBATCHES},
    {"dp-buckets", required_argument, NULL, OPT_BUCKETS},
    {"dp-op", required_argument, NULL, OPT_DP_OP},
    {"schedule", required_argument, NULL, OPT_SCHEDULE},
    {"barrier-every", required_argument, NULL, OPT_BARRIER},
    {"report-every", required_argument, NULL, OPT_REPORT},
    {"algo", required_argument, NULL, OPT_ALGO},
    {"check", required_argument, NULL, OPT_CHECK},
    {"abi", required_argument, NULL, OPT_ABI},
    {"channels", required_argument, NULL, OPT_CHANNELS},
    {"p2p-channels", required_argument, NULL, OPT_P2P_CHANNELS},
    {"step-bytes", required_argument, NULL, OPT_STEP_BYTES},
    {"shared-proxy", no_argument, NULL, OPT_SHARED_PROXY},
    {"connect-ms", required_argument, NULL, OPT_CONNECT},
    {"comm-names", required_argument, NULL, OPT_COMM_NAMES},
    {"net", required_argument, NULL, OPT_NET},
    {"intra", required_argument, NULL, OPT_INTRA},
    {"link-mbps", required_argument, NULL, OPT_LINK_MBPS},
    {"link-latency-us", required_argument, NULL, OPT_LINK_LATENCY},
    {"poll-us", required_argument, NULL, OPT_POLL},
    {"rendezvous", required_argument, NULL, OPT_RENDEZVOUS},
    {"rendezvous-timeout", required_argument, NULL, OPT_RENDEZVOUS_TIMEOUT},
    {"grace", required_argument, NULL, OPT_GRACE},
    {"selftest", required_argument, NULL, OPT_SELFTEST},
    {"fault", required_argument, NULL, OPT_FAULT},
    {"fault-rank", required_argument, NULL, OPT_FAULT_RANK},
    {"fault-peer", required_argument, NULL, OPT_FAULT_PEER},
    {"fault-channel", required_argument, NULL, OPT_FAULT_CHANNEL},
    {"fault-comm", required_argument, NULL, OPT_FAULT_COMM},
    {"fault-at-step", required_argument, NULL, OPT_FAULT_STEP},
    {"fault-after", required_argument, NULL, OPT_FAULT_AFTER},
    {"fault-for", required_argument, NULL, OPT_FAULT_FOR},
    {"help", no_argument, NULL, OPT_HELP},
    {0},
};

void options_usage(void) {
  puts(
      "ringjob launch --ranks N --hosts H --dir DIR [launch flags] -- [rank flags]\n"
      "ringjob [rank flags]     with RANK, WORLD_SIZE, LOCAL_WORLD_SIZE in the environment, or Open MPI's variables\n"
      "\n"
      "Shape of the job:\n"
      "  --layout dpN,ppN,tpN     world size is the product; rank = tp_i + tp*(dp_i + dp*pp_i)   [dp = world size]\n"
      "  --steps N                training steps; 0: until SIGTERM                              [0]\n"
      "  --compute-ms MS          one forward or backward pass of one microbatch                [10]\n"
      "  --microbatches M         in a step                                                     [2]\n"
      "  --bytes B                gradient of a step; K, M, G allowed                           [256K]\n"
      "  --tp-bytes, --pp-bytes B  of one tensor- or pipeline-parallel operation                 [bytes/4]\n"
      "  --dp-buckets N           gradient operations in a step                                 [1]\n"
      "  --dp-op allreduce|rs-ag  gradient operation                                            [allreduce]\n"
      "  --schedule 1f1b|gpipe    pipeline schedule                                             [1f1b]\n"
      "  --barrier-every STEPS    AllReduce of one element on all ranks; 0 never                [10]\n"
      "  --report-every STEPS     step events; 0 never                                          [1]\n"
      "  --algo ring|tree         of AllReduce                                                  [ring]\n"
      "  --check on|off           verify every result                                           [on]\n"
      "Communication:\n"
      "  --abi 3|4|5|6|7          profiler ABI; 3: as NCCL 2.26 natively; default: 6, 5 or 4, the newest the plugin has\n"
      "  --channels N             of collectives                                                [2]\n"
      "  --p2p-channels N         of send/recv                                                  [2]\n"
      "  --step-bytes B           one of the 8 buffers of a connection                          [16K]\n"
      "  --shared-proxy           one progress thread for all communicators\n"
      "  --connect-ms MS          first operation of a kind on a communicator, inside ncclGroupEnd [150]\n"
      "  --comm-names on|off      name communicators, as recent PyTorch does                    [on]\n"
      "  --net ib|socket          what accepted and done mean for a send                        [ib]\n"
      "  --intra net|shm          edges inside a host                                           [net]\n"
      "  --link-mbps MB/S         of one connection; 0 unlimited                                [500]\n"
      "  --link-latency-us US                                                                   [20]\n"
      "  --poll-us US             longest sleep of a working progress thread                    [1000]\n"
      "Running:\n"
      "  --rendezvous DIR         empty directory shared by all ranks\n"
      "  --rendezvous-timeout S                                                                 [60]\n"
      "  --grace S                from SIGTERM to abort                                         [5]\n"
      "  --selftest ops|soak      operations of all kinds and sizes; or --steps of them on each of 16 communicators\n"
      "Faults:\n"
      "  --fault KIND[=VALUE][:rank=R|all][:step=N][:after=S][:for=S][:every=N][:peer=R][:channel=C][:comm=NAME|any]\n"
      "  --fault-rank, --fault-at-step, --fault-after, --fault-for, --fault-peer, --fault-channel, --fault-comm\n"
      "                           keys of the last --fault; without step and after it begins on SIGUSR1\n");
  fault_usage();
}

static void parse_flag(struct options *o, int flag, const char *name, const char *arg) {
  switch (flag) {
    case OPT_LAYOUT: parse_layout(arg, &o->dp, &o->pp, &o->tp, NULL, NULL); break;
    case OPT_STEPS: o->steps = parse_whole(name, arg); break;
    case OPT_COMPUTE: o->compute_ns = parse_scaled(name, arg, NS_PER_MS); break;
    case OPT_BYTES: o->bytes = parse_whole(name, arg); break;
    case OPT_TP_BYTES: o->tp_bytes = parse_whole(name, arg); break;
    case OPT_PP_BYTES: o->pp_bytes = parse_whole(name, arg); break;
    case OPT_MICROBATCHES: o->microbatches = (int)parse_whole(name, arg); break;
    case OPT_BUCKETS: o->dp_buckets = (int)parse_whole(name, arg); break;
    case OPT_DP_OP: o->dp_op = parse_choice(name, arg, "allreduce", "rs-ag") ? DP_RS_AG : DP_ALLREDUCE; break;
    case OPT_SCHEDULE: o->schedule = parse_choice(name, arg, "1f1b", "gpipe") ? SCHEDULE_GPIPE : SCHEDULE_1F1B; break;
    case OPT_BARRIER: o->barrier_every = (int)parse_whole(name, arg); break;
    case OPT_REPORT: o->report_every = (int)parse_whole(name, arg); break;
    case OPT_ALGO: o->tree = parse_choice(name, arg, "ring", "tree") == 1; break;
    case OPT_CHECK: o->check = parse_choice(name, arg, "on", "off") == 0; break;
    case OPT_ABI: o->abi = (int)parse_whole(name, arg); break;
    case OPT_CHANNELS: o->channels = (int)parse_whole(name, arg); break;
    case OPT_P2P_CHANNELS: o->p2p_channels = (int)parse_whole(name, arg); break;
    case OPT_STEP_BYTES: o->step_bytes = parse_whole(name, arg); break;
    case OPT_SHARED_PROXY: o->shared_proxy = true; break;
    case OPT_CONNECT: o->connect_ns = parse_scaled(name, arg, 1e6); break;
    case OPT_COMM_NAMES: o->comm_names = parse_choice(name, arg, "on", "off") == 0; break;
    case OPT_NET: o->net = parse_choice(name, arg, "ib", "socket") ? NET_SOCKET : NET_IB; break;
    case OPT_INTRA: o->intra = parse_choice(name, arg, "net", "shm") ? INTRA_SHM : INTRA_NET; break;
    case OPT_LINK_MBPS: o->link_bytes_per_s = parse_scaled(name, arg, 1e6); break;
    case OPT_LINK_LATENCY: o->link_latency_ns = parse_scaled(name, arg, 1e3); break;
    case OPT_POLL: o->poll_ns = parse_scaled(name, arg, 1e3); break;
    case OPT_RENDEZVOUS: o->rendezvous = arg; break;
    case OPT_RENDEZVOUS_TIMEOUT: o->rendezvous_ns = parse_scaled(name, arg, NS_PER_S); break;
    case OPT_GRACE: o->grace_ns = parse_scaled(name, arg, NS_PER_S); break;
    case OPT_SELFTEST: o->selftest = arg; break;
    case OPT_FAULT: fault_add(arg); break;
    case OPT_FAULT_RANK: fault_modify("rank", arg); break;
    case OPT_FAULT_PEER: fault_modify("peer", arg); break;
    case OPT_FAULT_CHANNEL: fault_modify("channel", arg); break;
    case OPT_FAULT_COMM: fault_modify("comm", arg); break;
    case OPT_FAULT_STEP: fault_modify("step", arg); break;
    case OPT_FAULT_AFTER: fault_modify("after", arg); break;
    case OPT_FAULT_FOR: fault_modify("for", arg); break;
    case OPT_HELP:
      options_usage();
      exit(EXIT_OK);
    default: die(EXIT_USAGE, "see ringjob --help");
  }
}

static void validate(struct options *o) {
  if (o->world_size < 1 || o->rank < 0 || o->rank >= o->world_size) die(EXIT_USAGE, "RANK does not fit WORLD_SIZE");
  if (o->tp == 0 && o->dp == 0 && o->pp == 0) o->dp = o->world_size;
  if (o->tp == 0) o->tp = 1;
  if (o->dp == 0) o->dp = 1;
  if (o->pp == 0) o->pp = 1;
  if (o->tp * o->dp * o->pp != o->world_size) {
    die(EXIT_USAGE, "layout dp%d,pp%d,tp%d needs %d ranks, there are %d", o->dp, o->pp, o->tp, o->tp * o->dp * o->pp, o->world_size);
  }
  if (o->channels < 1 || o->channels > MAX_CHANNELS) die(EXIT_USAGE, "--channels: 1 to %d", MAX_CHANNELS);
  if (o->p2p_channels < 1 || o->p2p_channels > MAX_CHANNELS) die(EXIT_USAGE, "--p2p-channels: 1 to %d", MAX_CHANNELS);
  if (o->step_bytes < 64 || o->step_bytes % 64 != 0 || o->step_bytes > 64u << 20) die(EXIT_USAGE, "--step-bytes: a multiple of 64, at most 64M");
  if (o->abi != 0 && (o->abi < 3 || o->abi > 7)) die(EXIT_USAGE, "--abi: 3 to 7");
  if (o->microbatches < 1 || o->dp_buckets < 1) die(EXIT_USAGE, "--microbatches and --dp-buckets are at least 1");
  if (o->poll_ns < 10000) die(EXIT_USAGE, "--poll-us: at least 10");
  if (!o->rendezvous) die(EXIT_USAGE, "--rendezvous is missing");
  if (o->bytes < sizeof(float)) die(EXIT_USAGE, "--bytes: at least 4");
  if (o->tp_bytes == 0) o->tp_bytes = o->bytes / 4 < sizeof(float) ? sizeof(float) : o->bytes / 4;
  if (o->pp_bytes == 0) o->pp_bytes = o->bytes / 4 < sizeof(float) ? sizeof(float) : o->bytes / 4;
  if (o->selftest && strcmp(o->selftest, "ops") != 0 && strcmp(o->selftest, "soak") != 0) die(EXIT_USAGE, "--selftest: ops, soak");
}

void options_parse(struct options *o, int argc, char **argv) {
  *o = (struct options){.compute_ns = 10 * NS_PER_MS,
                        .bytes = 256u << 10,
                        .microbatches = 2,
                        .dp_buckets = 1,
                        .barrier_every = 10,
                        .report_every = 1,
                        .check = true,
                        .connect_ns = 150 * NS_PER_MS,
                        .comm_names = true,
                        .channels = 2,
                        .p2p_channels = 2,
                        .step_bytes = 16u << 10,
                        .link_bytes_per_s = 500u * 1000 * 1000,
                        .link_latency_ns = 20000,
                        .poll_ns = NS_PER_MS,
                        .rendezvous_ns = 60 * NS_PER_S,
                        .grace_ns = 5 * NS_PER_S};
  for (;;) {
    int index = 0;
    int flag = getopt_long(argc, argv, "", flags, &index);
    if (flag < 0) break;
    parse_flag(o, flag, flags[index].name, optarg);
  }
  if (optind < argc) die(EXIT_USAGE, "unexpected argument \"%s\"", argv[optind]);
  const bool mpi = getenv("RANK") == NULL && getenv("OMPI_COMM_WORLD_RANK") != NULL;
  const char *const local_size = mpi ? "OMPI_COMM_WORLD_LOCAL_SIZE" : "LOCAL_WORLD_SIZE";
  o->rank = parse_env(mpi ? "OMPI_COMM_WORLD_RANK" : "RANK");
  o->world_size = parse_env(mpi ? "OMPI_COMM_WORLD_SIZE" : "WORLD_SIZE");
  o->ranks_per_host = getenv(local_size) ? parse_env(local_size) : 1;
  if (o->ranks_per_host < 1) die(EXIT_USAGE, "LOCAL_WORLD_SIZE is at least 1");
  validate(o);
}
