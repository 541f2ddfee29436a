#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""Step time of an all-reduce loop on real NCCL: plugin off, on without network steps, on with them.

    overhead.py bin/libnccl-profiler-culprit.so

Two ranks share the GPU over NCCL's socket transport. Each setting is measured in turn, several times over, so that the
machine's drift hits all alike; the medians and their ratio to "off" are printed.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile

SIZES = [8 << 10, 1 << 20, 64 << 20]
SETTINGS = {"off": None, "without steps": "-proxyop,-proxystep", "with steps": "default"}
ROUNDS = 5


def rank_main():
    """Time all-reduces of one size and print the median in microseconds on rank 0."""
    import time

    import torch
    import torch.distributed as dist

    size = int(sys.argv[2])
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    buffer = torch.ones(size // 4, device="cuda")
    times = []
    for i in range(120):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        dist.all_reduce(buffer)
        torch.cuda.synchronize()
        if i >= 20:
            times.append((time.perf_counter_ns() - begin) / 1000)
    if dist.get_rank() == 0:
        print(statistics.median(times))
    dist.destroy_process_group()


def measure(plugin, events, size):
    """Run two ranks and give rank 0's median."""
    with socket.socket() as s, tempfile.TemporaryDirectory() as scratch:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
        s.close()
        ranks = []
        for rank in range(2):
            env = dict(
                os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                NCCL_HOSTID=f"rank{rank}", NCCL_NET="Socket", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo",
                NCCL_ALGO="Ring", NCCL_PROTO="Simple", NCCL_MAX_CTAS="2", NCCL_NVLS_ENABLE="0", CULPRIT_DIR=scratch,
                NCCL_PROFILER_PLUGIN=os.path.basename(plugin) if events else "none", CULPRIT_EVENTS=events or "",
                LD_LIBRARY_PATH=":".join(filter(None, [os.path.dirname(plugin), os.environ.get("LD_LIBRARY_PATH")])),
            )
            ranks.append(subprocess.Popen([sys.executable, __file__, "rank", str(size)], env=env, stdout=subprocess.PIPE))
        out = [r.communicate(timeout=300)[0] for r in ranks]
        return float(out[0].split()[-1])


def main():
    """Print the table."""
    if len(sys.argv) > 2 and sys.argv[1] == "rank":
        rank_main()
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    plugin = os.path.abspath(sys.argv[1])
    print(f"{'bytes':>10} {'setting':<16} {'median us':>10} {'to off':>8}")
    for size in SIZES:
        samples = {name: [] for name in SETTINGS}
        for _ in range(ROUNDS):
            for name, events in SETTINGS.items():
                samples[name].append(measure(plugin, events, size))
        off = statistics.median(samples["off"])
        for name, values in samples.items():
            median = statistics.median(values)
            print(f"{size:>10} {name:<16} {median:>10.1f} {median / off:>8.4f}")


if __name__ == "__main__":
    main()
