#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""A small data-parallel training job on real NCCL, with ringjob's command line and events.

    train.py launch --ranks=4 --hosts=2 --dir=DIR --job=ID -- --steps=0 --fault=stop --fault-rank=2

starts one process a rank, all on the machine's GPUs in turn; several may share one. SIGUSR1 to a rank starts its fault.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time


def emit(event, **fields):
    fields.update(event=event, realtime_ns=time.time_ns())
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def launch(args, rank_args):
    """Start all ranks, pass their events on, and end when they have ended or on SIGTERM."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    per_host = args.ranks // args.hosts
    children = []
    for rank in range(args.ranks):
        host = f"node{rank // per_host}"
        env = dict(
            os.environ,
            RANK=str(rank), WORLD_SIZE=str(args.ranks), LOCAL_RANK=str(rank % per_host),
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
            CULPRIT_JOB_ID=args.job, CULPRIT_HOSTNAME=host, CULPRIT_GPU=str(rank % per_host),
            CULPRIT_DIR=os.path.join(args.dir, host),
            NCCL_HOSTID=f"rank{rank}", NCCL_NET="Socket", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo",
            NCCL_ALGO="Ring", NCCL_PROTO="Simple", NCCL_MAX_CTAS="2", NCCL_NVLS_ENABLE="0",
        )
        children.append(subprocess.Popen([sys.executable, __file__, "rank", *rank_args], env=env))

    def end(_signal, _frame):
        for child in children:
            child.kill()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    for child in children:
        child.wait()


def train(args):
    """One rank: matrix products and gradient all-reduces until it is told to stop."""
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    fault = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: fault.set())
    emit("rank_start", rank=rank, pid=os.getpid())
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl")
    weights = torch.randn(1024, 1024, device="cuda")
    gradient = torch.ones(args.bytes // 4, device="cuda")
    step = 0
    while args.steps == 0 or step < args.steps:
        if fault.is_set() and rank == args.fault_rank:
            emit("fault", rank=rank, pid=os.getpid(), detail=args.fault)
            if args.fault == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            elif args.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif args.fault == "op-not-entered":
                while True:
                    time.sleep(1)
        for _ in range(4):
            weights = torch.tanh(weights @ weights)
        gradient.fill_(1)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if gradient[0].item() != dist.get_world_size():
            emit("wrong_sum", rank=rank, step=step)
            sys.exit(3)
        if rank == 0:
            emit("step", rank=rank, step=step)
        step += 1
        time.sleep(args.compute_ms / 1000)
    dist.destroy_process_group()
    emit("rank_exit", rank=rank)


def main():
    """Parse ringjob's flags; those that mean nothing here are taken and ignored."""
    if len(sys.argv) < 2 or sys.argv[1] not in ("launch", "rank"):
        sys.exit(__doc__)
    own, rank_args = sys.argv[2:], []
    if "--" in own:
        cut = own.index("--")
        own, rank_args = own[:cut], own[cut + 1:]
    p = argparse.ArgumentParser()
    if sys.argv[1] == "launch":
        p.add_argument("--ranks", type=int, required=True)
        p.add_argument("--hosts", type=int, default=1)
        p.add_argument("--dir", required=True)
        p.add_argument("--job", required=True)
        launch(p.parse_args(own), rank_args)
        return
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--bytes", type=int, default=4 << 20)
    p.add_argument("--compute-ms", type=float, default=50)
    p.add_argument("--fault", default="none", choices=["none", "stop", "kill", "op-not-entered"])
    p.add_argument("--fault-rank", type=int, default=-1)
    p.add_argument("--layout", help="ignored: always data parallel")
    train(p.parse_args(own))


if __name__ == "__main__":
    main()
