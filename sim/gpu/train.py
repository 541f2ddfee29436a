#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""One rank of a small data-parallel training job on real NCCL, with the flags and events of ringjob's ranks.

    ringjob launch --ranks=4 --hosts=2 --dir=DIR --program=sim/gpu/train.py -- --steps=0 --fault=stop --fault-rank=2

Ranks may share a GPU: each is a host of its own to NCCL. SIGUSR1 to the rank starts its fault.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time


def emit(event, **fields):
    """Print an event as the launcher and the other ranks do."""
    fields.update(event=event, realtime_ns=time.time_ns())
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def share_gpus(rank):
    """Set what NCCL needs where ranks share a GPU: distinct hosts, sockets, and few blocks, as all must fit on it."""
    os.environ.update(
        NCCL_HOSTID=f"rank{rank}", NCCL_NET="Socket", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo", NCCL_ALGO="Ring",
        NCCL_PROTO="Simple", NCCL_MAX_CTAS="2", NCCL_NVLS_ENABLE="0",
    )


class Fault:
    """The fault that this rank is armed with; it begins at the first step after SIGUSR1."""

    def __init__(self, spec):
        self.kind, _, value = spec.partition("=")
        self.value = float(value or 0)
        self.asked, self.on = threading.Event(), False
        signal.signal(signal.SIGUSR1, lambda *_: self.asked.set())

    def is_on(self, kind):
        """Say whether a fault of this kind has begun."""
        return self.on and self.kind == kind

    def begin(self, rank):
        """Begin, if it was asked for. A process that is stopped or killed does not come back."""
        if self.on or not self.asked.is_set():
            return
        self.on = True
        emit("fault", rank=rank, pid=os.getpid(), detail=self.kind)
        if self.kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.kind == "op-not-entered":
            while True:
                time.sleep(1)
        elif self.kind == "checkpoint":
            time.sleep(self.value)


def train(args):
    """Do matrix products and gradient all-reduces until told to stop."""
    import torch
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    fault = Fault(args.fault if rank == args.fault_rank else "none")
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", init_method=f"file://{args.rendezvous}/torch", rank=rank, world_size=size)
    weights = torch.randn(args.width, args.width, device="cuda")
    gradient = torch.ones(args.bytes // 4, device="cuda")
    tokens = torch.ones(args.bytes // 4, device="cuda") if "ep" in args.layout else None
    experts = dist.new_group(list(range(size)))
    step = 0
    while args.steps == 0 or step < args.steps:
        fault.begin(rank)
        if fault.is_on("data-late"):
            time.sleep(fault.value)
        if fault.is_on("kernel-stall"):
            torch.cuda._sleep(1 << 50)  # Days: nothing behind it on this stream starts.
        for _ in range(round(args.products * (fault.value if fault.is_on("gpu-slow") else 1))):
            weights = torch.tanh(weights @ weights)
        if tokens is not None:
            dist.all_to_all_single(tokens, tokens.clone(), group=experts)
        gradient.fill_(1)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if gradient[0].item() != size:
            emit("wrong_sum", rank=rank, step=step)
            sys.exit(3)
        if rank == 0:
            emit("step", rank=rank, step=step)
        step += 1
    dist.destroy_process_group()


def main():
    """Parse a rank's flags."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rendezvous", required=True, help="directory in which the ranks meet")
    p.add_argument("--steps", type=int, default=0, help="0: until ended")
    p.add_argument("--bytes", type=int, default=4 << 20, help="of the gradient")
    p.add_argument("--width", type=int, default=4096, help="of the square matrices")
    p.add_argument("--products", type=int, default=5, help="matrix products a step")
    p.add_argument("--fault", default="none", help="KIND[=VALUE], see Fault")
    p.add_argument("--fault-rank", type=int, default=-1)
    p.add_argument("--layout", default="", help="with ep in it, tokens are exchanged in every step; else data parallel alone")
    share_gpus(os.environ["RANK"])
    train(p.parse_args())


if __name__ == "__main__":
    main()
