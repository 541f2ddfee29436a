#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""Time of an all-reduce on real NCCL: plugin off, on without network steps, on with all events.

    overhead.py bin [ROUNDS]

Two ranks that may share a GPU, over NCCL's socket transport. Each setting is measured in turn, several times over, so that
the machine's drift hits all alike; the medians and their ratio to "off" are printed.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from train import share_gpus

SIZES = [8 << 10, 1 << 20, 64 << 20]
SETTINGS = {"off": None, "without steps": "-proxyop,-proxystep", "with all": "all"}


def rank_main():
    """Time all-reduces of each size; rank 0 prints the medians in microseconds."""
    share_gpus(os.environ["RANK"])

    import torch
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", init_method=f"file://{sys.argv[sys.argv.index('--rendezvous') + 1]}/torch", rank=rank, world_size=size)
    medians = {}
    for nbytes in SIZES:
        buffer = torch.ones(nbytes // 4, device="cuda")
        times = []
        for i in range(120):
            torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            dist.all_reduce(buffer)
            torch.cuda.synchronize()
            if i >= 20:
                times.append((time.perf_counter_ns() - begin) / 1000)
        medians[nbytes] = statistics.median(times)
    if rank == 0:
        print(json.dumps(medians))
    dist.destroy_process_group()


def measure(bins, events):
    """Run two ranks and give rank 0's medians by size."""
    with tempfile.TemporaryDirectory() as scratch:
        path = ":".join(filter(None, [bins, os.environ.get("LD_LIBRARY_PATH")]))
        plugin = "libnccl-profiler-culprit.so" if events else "none"
        env = dict(os.environ, LD_LIBRARY_PATH=path, NCCL_PROFILER_PLUGIN=plugin, CULPRIT_EVENTS=events or "")
        launch = [os.path.join(bins, "ringjob"), "launch", "--ranks=2", "--hosts=2", f"--dir={scratch}", f"--program={os.path.abspath(__file__)}", "--"]
        out = subprocess.run(launch, env=env, stdout=subprocess.PIPE, timeout=300, check=True, text=True).stdout
        line = next(x for x in out.splitlines() if x.startswith('{"' + str(SIZES[0])))
        return {int(k): v for k, v in json.loads(line).items()}


def main():
    """Print the table."""
    if "--rendezvous" in sys.argv:
        rank_main()
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    bins, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    samples = {name: [] for name in SETTINGS}
    for _ in range(rounds):
        for name, events in SETTINGS.items():
            samples[name].append(measure(bins, events))
    print(f"{'bytes':>10} {'setting':<16} {'median us':>10} {'to off':>8}  each run")
    for size in SIZES:
        off = statistics.median(s[size] for s in samples["off"])
        for name, runs in samples.items():
            values = [r[size] for r in runs]
            median = statistics.median(values)
            print(f"{size:>10} {name:<16} {median:>10.1f} {median / off:>8.4f}  " + " ".join(f"{v:.1f}" for v in values))


if __name__ == "__main__":
    main()
