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
import re
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


class Layout:
    """Where a rank stands, and its groups: rank = (stage * dp + replica) * tp + shard; experts divide the replicas."""

    def __init__(self, text, rank, size, dist):
        sizes = dict(re.fullmatch(r"([a-z]+)(\d+)", part).groups() for part in text.split(","))
        self.tp, self.pp, self.ep = (int(sizes.get(k, 1)) for k in ("tp", "pp", "ep"))
        self.dp = size // self.tp // self.pp
        stage = rank // self.tp // self.dp
        ranks = [(s, d, t) for s in range(self.pp) for d in range(self.dp) for t in range(self.tp)]
        self.groups = {}
        # Every rank makes every group, in the same order.
        for name, key in {
            "dp": lambda s, d, t: (s, t),
            "pp": lambda s, d, t: (d, t),
            "tp": lambda s, d, t: (s, d),
            "ep": lambda s, d, t: (s, t, d // self.ep),
        }.items():
            for members in self.cliques(ranks, key):
                if len(members) > 1:
                    group = dist.new_group(members, group_desc=name)
                    if rank in members:
                        self.groups[name] = group
        apart = self.dp * self.tp
        self.before = rank - apart if stage > 0 else None
        self.after = rank + apart if stage < self.pp - 1 else None

    @staticmethod
    def cliques(ranks, key):
        """Give the lists of ranks with the same key."""
        found = {}
        for rank, place in enumerate(ranks):
            found.setdefault(key(*place), []).append(rank)
        return found.values()


class Step:
    """What a rank does in a training step: passes with exchanges between stages, shards and experts, then the gradient."""

    def __init__(self, args, layout, torch, dist):
        self.args, self.layout, self.torch, self.dist = args, layout, torch, dist
        ones = lambda n: torch.ones(n, device="cuda")
        self.weights = torch.randn(args.width, args.width, device="cuda")
        self.gradient = [ones(args.bytes // 8) for _ in range(2)]
        self.tokens, self.activations = ones(args.bytes // 4), ones(args.bytes // 16)

    def compute(self, times):
        """Multiply matrices."""
        for _ in range(round(self.args.products * times)):
            self.weights = self.torch.tanh(self.weights @ self.weights)

    def exchange(self):
        """Sum among shards, and send tokens to experts and back."""
        groups = self.layout.groups
        if "tp" in groups:
            self.dist.all_reduce(self.activations, op=self.dist.ReduceOp.MAX, group=groups["tp"])
        if "ep" in groups:
            sent = self.torch.empty_like(self.tokens)
            self.dist.all_to_all_single(sent, self.tokens, group=groups["ep"])
            self.dist.all_to_all_single(self.tokens, sent, group=groups["ep"])

    def transfer(self, source, target):
        """Receive activations from one stage, work on them, and send them to the next."""
        if source is not None:
            self.dist.recv(self.activations, source, group=self.layout.groups["pp"])
        yield
        if target is not None:
            self.dist.send(self.activations, target, group=self.layout.groups["pp"])

    def run(self, times):
        """Do the step and say whether the sums are right."""
        for source, target in ((self.layout.before, self.layout.after), (self.layout.after, self.layout.before)):
            for _ in self.transfer(source, target):
                self.compute(times / 2)
                self.exchange()
        works = []
        if "dp" in self.layout.groups:
            for bucket in self.gradient:
                bucket.fill_(1)
                works.append(self.dist.all_reduce(bucket, group=self.layout.groups["dp"], async_op=True))
        for work in works:
            work.wait()
        self.torch.cuda.synchronize()
        return not works or all(bucket[0].item() == self.layout.dp for bucket in self.gradient)


def train(args):
    """Take training steps until told to stop."""
    import torch
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    fault = Fault(args.fault if rank == args.fault_rank else "none")
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", init_method=f"file://{args.rendezvous}/torch", rank=rank, world_size=size)
    work = Step(args, Layout(args.layout or f"dp{size}", rank, size, dist), torch, dist)
    step = 0
    while args.steps == 0 or step < args.steps:
        fault.begin(rank)
        if fault.is_on("data-late"):
            time.sleep(fault.value)
        if fault.is_on("kernel-stall"):
            torch.cuda._sleep(1 << 50)  # Days: nothing behind it on this stream starts.
        if not work.run(fault.value if fault.is_on("gpu-slow") else 1):
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
    p.add_argument("--width", type=int, default=2048, help="of the square matrices")
    p.add_argument("--products", type=int, default=16, help="matrix products a step")
    p.add_argument("--fault", default="none", help="KIND[=VALUE], see Fault")
    p.add_argument("--fault-rank", type=int, default=-1)
    p.add_argument("--layout", default="", help="such as dp4,pp2,tp1,ep2; empty: data parallel alone")
    share_gpus(os.environ["RANK"])
    train(p.parse_args())


if __name__ == "__main__":
    main()
