#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""Training programs with one mistake each: `torchrun train.py PROGRAM`. record.py runs and records them."""

import ctypes
import faulthandler
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = 6
FAULT = 4  # The step in which it happens.
FOREVER = 600
OUT = pathlib.Path(os.environ["RECORD_DIR"])
RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
TIMEOUT = timedelta(seconds=float(os.environ["RECORD_TIMEOUT"]))
BACKEND = os.environ.get("RECORD_BACKEND", "gloo")


def stuck():
    """The program has reached its mistake: the recorder takes stacks a little later."""
    (OUT / f"stuck_{RANK}").touch()


def use_gpu():
    """Put tensors on the GPU, which all ranks share: each is a host of its own to NCCL."""
    os.environ.update(NCCL_HOSTID=f"rank{RANK}", NCCL_NET="Socket", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo", NCCL_MAX_CTAS="2")
    torch.cuda.set_device(0)
    torch.set_default_device("cuda")


def settle():
    """Wait for the GPU, as a loop does that prints its loss."""
    if BACKEND == "nccl":
        torch.cuda.synchronize()


class Images(Dataset):
    """Samples from a file system that stops answering."""

    def __init__(self, hangs_at=None):
        self.hangs_at = hangs_at

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == self.hangs_at:
            return self.read_image(index)
        return torch.full((8,), float(index))

    def read_image(self, index):
        stuck()
        pipe = OUT / f"image_{RANK}"
        os.mkfifo(pipe)
        with open(pipe, "rb") as f:
            return f.read()


class Refuses(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 4 * FAULT:
            raise ValueError("image of mode P")
        return torch.full((8,), float(index))


def steps(before=lambda step: None, after=lambda step: None):
    """The plain training loop: gradients are averaged in every step."""
    grad = torch.ones(1024)
    for step in range(STEPS):
        before(step)
        dist.all_reduce(grad)
        settle()
        after(step)


def load_loop(dataset, workers):
    model = torch.nn.Linear(8, 8)
    for batch in DataLoader(dataset, batch_size=4, num_workers=workers):
        loss = model(batch).sum()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)


def data_loader():
    load_loop(Images(4 * FAULT if RANK == 2 else None), 0)


def data_loader_worker():
    load_loop(Images(4 * FAULT if RANK == 1 else None), 1)


def save_checkpoint(step):
    if RANK == 0 and step == FAULT:
        stuck()
        pipe = OUT / "checkpoint.pt"
        os.mkfifo(pipe)
        torch.save({"model": torch.ones(1 << 20)}, pipe)
    dist.barrier()


def checkpoint():
    steps(after=save_checkpoint)


def load_checkpoint():
    def restore(step):
        if RANK == 3 and step == FAULT:
            stuck()
            pipe = OUT / "pretrained.pt"
            os.mkfifo(pipe)
            torch.load(open(pipe, "rb"))

    steps(restore)


def breakpoint_left():
    def debug(step):
        if RANK == 3 and step == FAULT:
            stuck()
            breakpoint()

    steps(debug)


def hold_lock():
    while ctypes.PyDLL(None).sleep(FOREVER):  # A signal ends a sleep.
        pass


def gil():
    def hold(step):
        if RANK == 1 and step == FAULT:
            stuck()
            hold_lock()

    steps(hold)


def opposite_order():
    left, right = dist.new_group([0, 1]), dist.new_group([0, 1])

    def both(step):
        if step == FAULT and RANK < 2:
            stuck()
            for g in (left, right) if RANK == 0 else (right, left):
                dist.all_reduce(torch.ones(16), group=g)

    steps(both)


def uneven_batches():
    for _ in range(STEPS - (RANK == 3)):
        dist.all_reduce(torch.ones(1024))
    if RANK == 3:
        stuck()
    dist.barrier()


def wrong_group():
    pair = dist.new_group([2, 3])
    for step in range(STEPS):
        if RANK == 2 and step == FAULT:
            stuck()
        dist.all_reduce(torch.ones(1024), group=pair if RANK == 2 and step == FAULT else None)


def wrong_shape():
    for step in range(STEPS):
        odd = RANK == 1 and step == FAULT
        if odd:
            stuck()
        dist.all_reduce(torch.ones(512 if odd else 1024))


def wrong_op():
    for step in range(STEPS):
        if RANK == 3 and step == FAULT:
            stuck()
            dist.broadcast(torch.ones(1024), src=0)
        else:
            dist.all_reduce(torch.ones(1024))


def dies(rank, how):
    def die(step):
        if RANK == rank and step == FAULT:
            how()

    steps(die)


def killed():
    dies(1, lambda: os.kill(os.getpid(), signal.SIGKILL))


def segfault():
    dies(2, lambda: os.kill(os.getpid(), signal.SIGSEGV))


def aborted():
    dies(3, os.abort)


def bus_error():
    dies(1, lambda: os.kill(os.getpid(), signal.SIGBUS))


def exits():
    dies(0, lambda: os._exit(3))


def returns_early():
    """One rank believes that it is done."""
    for step in range(STEPS):
        if RANK == 2 and step == FAULT:
            sys.exit(0)
        dist.all_reduce(torch.ones(1024))


def preempted():
    """The scheduler ends all processes of the node at once."""

    def end(step):
        if step == FAULT:
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)

    steps(end)


def exception():
    load_loop(Refuses() if RANK == 2 else Images(), 0)


def out_of_memory():
    def allocate(step):
        if RANK == 3 and step == FAULT:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.11 GiB")

    steps(allocate)


def everybody_raises():
    def parse(step):
        if step == FAULT:
            raise KeyError("attention_mask")

    steps(parse)


def store():
    """Every rank says in the store that it has its part; rank 1 never does."""
    s = dist.distributed_c10d._get_default_store()
    if RANK == 1:
        stuck()
        time.sleep(FOREVER)
    s.set(f"index_built/rank_{RANK}", "yes")
    for r in range(WORLD):
        s.wait([f"index_built/rank_{r}"], TIMEOUT)


def init():
    """One rank does not come to init_process_group: main() keeps it."""
    steps()


def new_group():
    def group(step):
        if step == FAULT:
            if RANK == 2:
                stuck()
                time.sleep(FOREVER)
            dist.new_group([0, 1, 2, 3])

    steps(group)


def objects():
    def gather(step):
        if step == FAULT:
            if RANK == 1:
                stuck()
                time.sleep(FOREVER)
            dist.all_gather_object([None] * WORLD, {"loss": 1.0})

    steps(gather)


def detail_op():
    wrong_op()


def detail_shape():
    wrong_shape()


def detail_absent():
    def sleep(step):
        if RANK == 3 and step == FAULT:
            stuck()
            time.sleep(FOREVER)

    steps(sleep)


def monitored_barrier():
    def check(step):
        if step == FAULT:
            if RANK == 1:
                stuck()
                time.sleep(FOREVER)
            dist.monitored_barrier(timeout=TIMEOUT)

    steps(check)


def monitored_barrier_all():
    def check(step):
        if step == FAULT:
            if RANK in (1, 2):
                stuck()
                time.sleep(FOREVER)
            dist.monitored_barrier(timeout=TIMEOUT, wait_all_ranks=True)

    steps(check)


def pipeline():
    """Four stages: activations go forward, and stage 1 stops."""
    x = torch.ones(64)
    for step in range(STEPS):
        if RANK > 0:
            dist.recv(x, src=RANK - 1)
        if RANK == 1 and step == FAULT:
            stuck()
            time.sleep(FOREVER)
        if RANK < WORLD - 1:
            dist.send(x, dst=RANK + 1)
    dist.barrier()


def receive():
    """Rank 3 waits for what rank 0 never sends; the others wait for both."""
    def ask(step):
        if step == FAULT and RANK == 3:
            dist.recv(torch.empty(64), src=0)
        if step == FAULT and RANK == 0:
            stuck()
            time.sleep(FOREVER)

    steps(ask)


def ddp():
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for step in range(STEPS):
        loss = model(torch.ones(4, 8)).sum()
        if RANK == 1 and step == FAULT:
            stuck()
            time.sleep(FOREVER)
        loss.backward()


def ddp_skips_backward():
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for step in range(STEPS):
        loss = model(torch.ones(4, 8)).sum()
        if not (RANK == 0 and step == FAULT):  # "The loss is not finite."
            loss.backward()
        else:
            stuck()
            validate()


def validate():
    time.sleep(FOREVER)


def fsdp():
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    for step in range(STEPS):
        if RANK == 2 and step == FAULT:
            stuck()
            time.sleep(FOREVER)
        model(torch.ones(4, 16)).sum().backward()


def lock():
    def deadlock(step):
        if RANK == 2 and step == FAULT:
            mutex = threading.Lock()
            mutex.acquire()
            stuck()
            mutex.acquire()

    steps(deadlock)


def child():
    def shell(step):
        if RANK == 3 and step == FAULT:
            stuck()
            subprocess.run(["sleep", str(FOREVER)])

    steps(shell)


def imports():
    def lazy(step):
        if RANK == 0 and step == FAULT:
            stuck()
            (OUT / "slow_module.py").write_text(f"import time\ntime.sleep({FOREVER})\n")
            sys.path.insert(0, str(OUT))
            import slow_module  # noqa: F401

    steps(lazy)


def evaluation():
    """Rank 0 alone evaluates, for longer than the others have patience."""

    def evaluate(step):
        if RANK == 0 and step == FAULT:
            stuck()
            x = torch.ones(256, 256)
            end = time.monotonic() + FOREVER
            while time.monotonic() < end:
                x = torch.tanh(x @ x)
        dist.barrier()

    steps(after=evaluate)


def healthy():
    steps()
    (OUT / f"stuck_{RANK}").touch()
    time.sleep(5)
    steps()


PROGRAMS = {
    f.__name__: f
    for f in (
        data_loader, data_loader_worker, checkpoint, load_checkpoint, breakpoint_left, gil, opposite_order, uneven_batches, wrong_group,
        wrong_shape, wrong_op, killed, segfault, aborted, bus_error, exits, returns_early, preempted, exception, out_of_memory,
        everybody_raises, store, init, new_group, objects, detail_op, detail_shape, detail_absent, monitored_barrier,
        monitored_barrier_all, pipeline, receive, ddp, ddp_skips_backward, fsdp, lock, child, imports, evaluation, healthy,
    )
}


def dump_when_asked():
    """Flight Recorder dumps, as a watchdog would write them. Without the interpreter's lock there is none."""
    from torch._C import _distributed_c10d as c10d

    while not (OUT / "dump").exists():
        time.sleep(0.1)
    if BACKEND == "nccl":
        (OUT / f"flight_recorder_rank_{RANK}").write_bytes(c10d._dump_nccl_trace(True, True, False))
    elif hasattr(c10d, "_dump_fr_trace"):
        (OUT / f"flight_recorder_rank_{RANK}").write_bytes(c10d._dump_fr_trace(True, False, False))


def main():
    program = sys.argv[1]
    torch.set_num_threads(1)
    faulthandler.register(signal.SIGUSR1, file=(OUT / f"faulthandler_rank_{RANK}.txt").open("w"), all_threads=True)
    (OUT / f"pid_{RANK}").write_text(str(os.getpid()))
    if program == "init" and RANK == 3:
        (OUT / f"began_{RANK}").touch()
        stuck()
        time.sleep(FOREVER)
    if program == "init":
        (OUT / f"began_{RANK}").touch()
    while program != "init" and len(list(OUT.glob("pid_*"))) < WORLD:  # A busy machine starts them far apart.
        time.sleep(0.1)
    if BACKEND == "nccl":
        use_gpu()
    dist.init_process_group(BACKEND, timeout=TIMEOUT)
    threading.Thread(target=dump_when_asked, daemon=True, name="dump").start()
    dist.barrier()
    (OUT / f"began_{RANK}").touch()
    print(f"rank {RANK} begins", flush=True)
    PROGRAMS[program]()
    settle()
    print(f"rank {RANK} is done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
