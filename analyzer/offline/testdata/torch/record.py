#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""Records Flight Recorder dumps of real PyTorch jobs (gloo on CPUs) with injected faults.

    record.py OUT [SCENARIO ...]

writes OUT/torch-VERSION/SCENARIO.tar.gz for each scenario, with the dumps rank_N (pickled) and rank_N.json. Needs PyTorch 2.8 or newer, whose
Flight Recorder also records gloo. The recordings are test data and committed; `go run ./tools/ci run record-dumps TORCH_VERSIONS=2.9.1` adds a version.
"""

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import sys
import tarfile
import time

WORLD = 4
STEPS = 6
FAULT_STEP = 4


def wait_for(path):
    while not path.exists():
        time.sleep(0.02)


def hang(dist, torch, rank, step, groups):
    """Rank 2 stays outside the operation that the others are in."""
    if rank == 2 and step == FAULT_STEP:
        signal.pause()
    dist.all_reduce(torch.ones(1024))


def size_mismatch(dist, torch, rank, step, groups):
    """Rank 1 reduces a tensor of another size."""
    dist.all_reduce(torch.ones(512 if rank == 1 and step == FAULT_STEP else 1024))


def op_mismatch(dist, torch, rank, step, groups):
    """Rank 3 broadcasts where the others reduce."""
    if rank == 3 and step == FAULT_STEP:
        dist.broadcast(torch.ones(1024), src=0)
    else:
        dist.all_reduce(torch.ones(1024))


def opposite_order(dist, torch, rank, step, groups):
    """Ranks 0 and 1 enter two groups that both share in opposite orders."""
    dist.all_reduce(torch.ones(8))
    if step == FAULT_STEP and rank < 2:
        for g in (groups[0], groups[1]) if rank == 0 else (groups[1], groups[0]):
            dist.all_reduce(torch.ones(16), group=g)


def killed(dist, torch, rank, step, groups):
    """Rank 1 dies."""
    if rank == 1 and step == FAULT_STEP:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1024))


def unmatched_receive(dist, torch, rank, step, groups):
    """Rank 3 waits for a message that rank 0 never sends; the others wait in a collective for both."""
    if rank == 3 and step == FAULT_STEP:
        dist.recv(torch.empty(64), src=0)
    elif rank == 0 and step == FAULT_STEP:
        signal.pause()
    dist.all_reduce(torch.ones(1024))


def slow(dist, torch, rank, step, groups):
    """Rank 2 computes three times as long in every step; nobody hangs."""
    time.sleep(0.09 if rank == 2 else 0.03)
    dist.all_reduce(torch.ones(1024))


def healthy(dist, torch, rank, step, groups):
    """Nothing is wrong."""
    dist.all_reduce(torch.ones(1024))


SCENARIOS = {f.__name__: f for f in (hang, size_mismatch, op_mismatch, opposite_order, killed, unmatched_receive, slow, healthy)}


def worker(scenario, rank, port, out, done):
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(WORLD),
        TORCH_FR_BUFFER_SIZE="2000", TORCH_NCCL_TRACE_BUFFER_SIZE="2000", GLOO_SOCKET_IFNAME="lo",
    )
    sys.stderr = open(os.devnull, "w")
    os.dup2(sys.stderr.fileno(), 2)
    import threading
    from datetime import timedelta

    import torch
    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d

    def dump():
        wait_for(done)
        # Without stacks: they would hold the recording machine's paths.
        (out / f"rank_{rank}").write_bytes(c10d._dump_fr_trace(True, False, False))
        (out / f"rank_{rank}.json").write_bytes(c10d._dump_fr_trace_json())
        (out / f"dumped_{rank}").touch()

    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    groups = [dist.new_group([0, 1], group_desc="left"), dist.new_group([0, 1], group_desc="right")]
    threading.Thread(target=dump, daemon=True).start()
    dist.barrier()
    (out / f"ready_{rank}").touch()
    # A peer's death or mismatch breaks the connection: the recorder still knows what was pending.
    with contextlib.suppress(RuntimeError):
        for step in range(40 if scenario == "slow" else STEPS):
            SCENARIOS[scenario](dist, torch, rank, step, groups)
    (out / f"finished_{rank}").touch()
    signal.pause()


def record(scenario, out, seconds):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    done = out / "done"
    ranks = [multiprocessing.Process(target=worker, args=(scenario, r, port, out, done)) for r in range(WORLD)]
    for p in ranks:
        p.start()
    while len(list(out.glob("ready_*"))) < WORLD:  # Importing torch takes a while.
        time.sleep(0.1)
    # The job has come as far as it will when all have finished, or after a while in which it hung. On a busy machine those that
    # do finish need longer.
    end = time.monotonic() + (24 * seconds if scenario in ("slow", "healthy") else seconds)
    while time.monotonic() < end and sum(1 for _ in out.glob("finished_*")) < WORLD:
        time.sleep(0.1)
    done.touch()
    end = time.monotonic() + 30
    while time.monotonic() < end and any(p.is_alive() and not (out / f"dumped_{r}").exists() for r, p in enumerate(ranks)):
        time.sleep(0.1)
    for p in ranks:
        p.kill()
        p.join()
    for mark in (*out.glob("dumped_*"), *out.glob("finished_*"), *out.glob("ready_*"), done):
        mark.unlink()
    names = sorted(f.name for f in out.iterdir())
    with tarfile.open(f"{out}.tar.gz", "w:gz") as tar:
        for name in names:
            tar.add(out / name, arcname=name)
    shutil.rmtree(out)
    print(scenario, names, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("scenario", nargs="*", choices=[*SCENARIOS, []])
    parser.add_argument("--seconds", type=float, default=5, help="how long a hanging job gets")
    args = parser.parse_args()
    import torch

    version = torch.__version__.split("+")[0]
    multiprocessing.set_start_method("spawn")
    for s in args.scenario or SCENARIOS:
        record(s, args.out / f"torch-{version}" / s, args.seconds)


if __name__ == "__main__":
    main()
