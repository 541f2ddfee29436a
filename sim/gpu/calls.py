#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""One rank that makes every kind of call on real NCCL, and says when: to compare with what a profiler plugin was told.

    NCCL_PROFILER_PLUGIN=libnccl-recorder.so RECORDER_DIR=DIR \\
        ringjob launch --ranks=2 --hosts=2 --dir=DIR --program=sim/gpu/calls.py --

Each rank writes DIR/calls.RANK.jsonl: for each call its kind, the wall clock (ns) before it and when all its
work was done, and the time in between on the GPU's stream (ms).
"""

import argparse
import json
import os
import time

from train import share_gpus

MIB = 1 << 20
LATE_S = 0.2  # By so much rank 1 comes late to one call.


class Calls:
    """The calls of a rank."""

    def __init__(self, path):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.out = torch, dist, open(path, "w")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.one, self.all = torch.ones(MIB, device="cuda"), torch.ones(MIB * self.size, device="cuda")

    def timed(self, kind, call, times=1):
        """Make a call and write down how long it took."""
        cuda = self.torch.cuda
        for _ in range(times):
            cuda.synchronize()
            begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            before = time.time_ns()
            begin.record()
            call()
            end.record()
            cuda.synchronize()
            line = {"kind": kind, "before_ns": before, "after_ns": time.time_ns(), "gpu_ms": begin.elapsed_time(end)}
            self.out.write(json.dumps(line) + "\n")

    def exchange(self):
        """Send to the next rank and receive from the one before."""
        op, to, of = self.dist.P2POp, (self.rank + 1) % self.size, (self.rank - 1) % self.size
        ops = [op(self.dist.isend, self.one, to), op(self.dist.irecv, self.all[:MIB], of)]
        for work in self.dist.batch_isend_irecv(ops):
            work.wait()

    def behind(self):
        """Call an operation of which one rank's kernel waits behind a long one."""
        if self.rank == 1:
            self.torch.cuda._sleep(200_000_000)
        self.dist.all_reduce(self.one)

    def late(self):
        """Call an operation to which one rank comes late."""
        if self.rank == 1:
            time.sleep(LATE_S)
        self.dist.all_reduce(self.one)

    def many(self):
        """Call ten operations, one behind the other."""
        for _ in range(10):
            self.dist.all_reduce(self.one)

    def graph(self):
        """Capture an operation into a CUDA graph and give the graph."""
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            self.dist.all_reduce(self.one)
        return graph

    def make(self):
        """Make all of them."""
        d = self.dist
        self.timed("first", lambda: d.all_reduce(self.one))
        self.timed("all_reduce", lambda: d.all_reduce(self.one), 5)
        self.timed("small", lambda: d.all_reduce(self.one[:256]), 5)
        self.timed("late", self.late, 2)
        self.timed("behind", self.behind, 2)
        self.timed("many", self.many, 2)
        self.timed("all_gather", lambda: d.all_gather_into_tensor(self.all, self.one), 3)
        self.timed("reduce_scatter", lambda: d.reduce_scatter_tensor(self.one, self.all), 3)
        self.timed("broadcast", lambda: d.broadcast(self.one, 0), 3)
        self.timed("all_reduce", lambda: d.all_reduce(self.one), 3)
        self.timed("exchange", self.exchange, 3)
        graph = self.graph()
        self.timed("replay", graph.replay, 4)
        self.timed("all_reduce", lambda: d.all_reduce(self.one), 3)
        # A send to oneself shifts the count of what the kernels have done: last.
        self.timed("all_to_all", lambda: d.all_to_all_single(self.all, self.all.clone()), 3)
        self.timed("all_reduce", lambda: d.all_reduce(self.one), 5)
        self.out.close()


def main():
    """Join the job and make the calls."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rendezvous", required=True, help="directory in which the ranks meet")
    args = p.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    share_gpus(rank)

    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", init_method=f"file://{args.rendezvous}/torch", rank=rank, world_size=size)
    Calls(os.path.join(os.path.dirname(args.rendezvous), f"calls.{rank}.jsonl")).make()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
