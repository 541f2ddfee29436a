#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""Records Flight Recorder dumps, in the form that NCCL's process groups give them, of real PyTorch jobs without GPUs.

    record_nccl.py OUT [SCENARIO ...]

The jobs are real (DDP, FSDP, device meshes, batched pipelines, expert parallelism); the process group is a stand-in. It
completes operations as NCCL would: calls only enqueue, each group has a stream, a collective ends when all members have
entered the same one, and a batch of sends and receives when every other side is there. It records what NCCL's process
group records: members, counters, states, and of a batch the operations and the entry that ends it. No data is moved.
Writes OUT/nccl-torch-VERSION/SCENARIO.tar.gz with the dumps rank_N.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import pickle
import queue
import shutil
import signal
import socket
import tarfile
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import _create_work_from_future
from torch.distributed.device_mesh import init_device_mesh
from torch.futures import Future

LONG = datetime.timedelta(hours=1)
TYPES = {torch.float32: "Float", torch.int64: "Long", torch.int32: "Int", torch.uint8: "Byte", torch.float64: "Double"}


class Recorder:
    """What one process has enqueued, in all of its groups."""

    lock = threading.RLock()
    entries = []
    groups = []
    pending = []


class Op:
    """An operation on its way: its entry, and what it waits for."""

    def __init__(self, entry, seq, run, tracked):
        self.entry, self.seq, self.run, self.tracked = entry, seq, run, tracked
        self.done = threading.Event()


def finished(result):
    """NCCL's calls come back at once: waiting for them only orders streams."""
    f = Future()
    f.set_result(result)
    return _create_work_from_future(f)


class StandIn(dist.ProcessGroup):
    """A process group with NCCL's order of events, on a store."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.store, self.place, self.members = store, rank, size
        self.collectives = self.pairs = self.ops = 0
        self.counters = [-1, -1, -1]  # Enqueued, started, completed.
        self.streams, self.posts, self.batch = {}, {}, None
        self.own_name, self.own_desc = None, "undefined"
        with Recorder.lock:
            self.number = len(Recorder.groups)
            Recorder.groups.append(self)

    def getBackendName(self):
        return "nccl"

    def supports_coalescing(self):
        return True

    @property
    def group_name(self):
        return dist.distributed_c10d._world.pg_names.get(self) or self.own_name

    @property
    def pg_name(self):
        return self.group_name

    def _set_group_name(self, name):
        self.own_name = name

    @property
    def group_desc(self):
        return self.own_desc or "undefined"

    def _set_group_desc(self, desc):
        self.own_desc = desc

    def record(self, name, ins, outs, run, p2p=False, tracked=True):
        with Recorder.lock:
            self.ops += 1
            entry = {
                "record_id": len(Recorder.entries), "pg_id": self.number, "process_group": (self.group_name, self.group_desc),
                "thread_name": "pt_main_thread", "thread_id": str(threading.get_ident()), "collective_seq_id": self.collectives,
                "p2p_seq_id": self.pairs, "op_id": self.ops, "profiling_name": "nccl:" + name, "time_created_ns": time.time_ns(),
                "input_sizes": [list(t.shape) for t in ins], "input_dtypes": [TYPES[t.dtype] for t in ins],
                "output_sizes": [list(t.shape) for t in outs], "output_dtypes": [TYPES[t.dtype] for t in outs],
                "state": "scheduled", "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
                "retired": False, "timeout_ms": 600000, "is_p2p": p2p,
            }
            Recorder.entries.append(entry)
            op = Op(entry, self.pairs if p2p else self.collectives, run, tracked)
            if tracked:
                self.counters[0] = op.seq
                Recorder.pending.append(op)
        return op

    def enqueue(self, op, stream):
        if stream not in self.streams:
            self.streams[stream] = queue.Queue()
            threading.Thread(target=self.serve, args=(self.streams[stream], self.store.clone()), daemon=True).start()
        self.streams[stream].put(op)

    def serve(self, ops, store):
        while True:
            op = ops.get()
            op.run(store)
            with Recorder.lock:
                op.entry.update(state="completed", time_discovered_completed_ns=time.time_ns(), retired=True)
                self.counters[2] = op.seq
                Recorder.pending.remove(op)
            op.done.set()

    def collective(self, name, ins, outs, agree=True, root=-1):
        self.collectives += 1
        seq = self.collectives
        # What does not agree never meets.
        sign = f"{name} {root} {[(t.numel(), str(t.dtype)) for t in ins] if agree else ''}"

        def run(store):
            if store.add(f"{seq} {sign}", 1) == self.members:
                store.set(f"{seq} go", "")
            store.wait([f"{seq} go"], LONG)

        op = self.record(name, ins, outs, run)
        self.enqueue(op, "collectives")
        return op

    def allreduce(self, tensors, opts=None):
        self.collective("all_reduce", tensors, tensors)
        return finished(list(tensors))

    def broadcast(self, tensors, opts=None):
        self.collective("broadcast", tensors, tensors, root=opts.rootRank if opts else 0)
        return finished(list(tensors))

    def _allgather_base(self, out, inp, opts=None):
        self.collective("_all_gather_base", [inp], [out])
        return finished([out])

    def _reduce_scatter_base(self, out, inp, opts=None):
        self.collective("_reduce_scatter_base", [inp], [out])
        return finished([out])

    def alltoall_base(self, out, inp, out_sizes, in_sizes, opts=None):
        self.collective("all_to_all", [inp], [out], agree=False)
        return finished([out])

    def barrier(self, opts=None):
        t = [torch.zeros(1)]
        self.collective("all_reduce_barrier", t, t).done.wait()
        return finished(t)

    def pair(self, kind, tensors, peer):
        if not self.batch:
            self.pairs += 1  # Once for a batch.
        me, way = self.place, "->" if kind == "send" else "<-"
        count = self.posts[kind, peer] = self.posts.get((kind, peer), 0) + 1
        ends = (me, peer) if kind == "send" else (peer, me)
        post = f"{ends[0]} to {ends[1]} {count} "

        def run(store):
            store.set(post + kind, "")
            store.wait([post + ("recv" if kind == "send" else "send")], LONG)

        op = self.record(f"{kind} {me}{way}{peer}", tensors, tensors, run, p2p=True, tracked=self.batch is None)
        if self.batch is None:
            self.enqueue(op, peer)
        else:
            op.announce = lambda store: store.set(post + kind, "")
            self.batch.append(op)
        return finished(list(tensors))

    def send(self, tensors, peer, tag=0):
        return self.pair("send", tensors, peer)

    def recv(self, tensors, peer, tag=0):
        return self.pair("recv", tensors, peer)

    def together(self, calls):
        """Makes the calls as one batch."""
        self.batch = []
        for call in calls:
            call.op(call.tensor, call.peer, call.group)
        ops, self.batch = self.batch, None

        def run(store):
            for op in ops:
                op.announce(store)
            for op in ops:
                op.run(store)

        self.enqueue(self.record("coalesced", [], [], run, p2p=True), "batches")


def synchronize():
    """Waits on the host for all that was enqueued, as torch.cuda.synchronize does."""
    for op in list(Recorder.pending):
        op.done.wait()


def exchange(*calls):
    (calls[0].group or dist.group.WORLD).together(calls)


def dump():
    config, status = {}, {}
    for g in Recorder.groups:
        config[g.group_name] = {"name": g.group_name, "desc": g.group_desc, "ranks": str(dist.get_process_group_ranks(g))}
        if g.ops:
            status[str(g.number)] = dict(zip(("last_enqueued_collective", "last_started_collective", "last_completed_collective"), g.counters))
    with Recorder.lock:
        return {"version": "2.10", "pg_config": config, "nccl_version": "2.27.5", "pg_status": status, "entries": [dict(e) for e in Recorder.entries]}


def stay_away():
    signal.pause()


def all_reduce(n, group=None):
    dist.all_reduce(torch.ones(n), group=group)


def send(n, peer, group=None):
    return dist.P2POp(dist.isend, torch.ones(n), peer, group)


def receive(n, peer, group=None):
    return dist.P2POp(dist.irecv, torch.empty(n), peer, group)


def extra_call(rank):
    """Rank 0 reduces once more than the others, the same size."""
    for step in range(6):
        all_reduce(64)
        if rank == 0 and step == 4:
            all_reduce(64)
    synchronize()


def opposite_order(rank):
    """Rank 4 enters two groups that overlap in the other order."""
    a, b = dist.new_group([0, 1, 4], group_desc="tp"), dist.new_group([1, 2, 4, 5], group_desc="ep")
    for step in range(5):
        all_reduce(8)
        both = [(a, 16), (b, 32)]
        for group, n in reversed(both) if rank == 4 and step == 3 else both:
            if rank in dist.get_process_group_ranks(group):
                all_reduce(n, group)
                synchronize()


def mesh(rank):
    """Rank 7 of 4 x 3 stays away in the middle of its tensor-parallel work."""
    m = init_device_mesh("cpu", (4, 3), mesh_dim_names=("dp", "tp"))
    for step in range(5):
        for layer in range(3):
            if rank == 7 and step == 3 and layer == 1:
                stay_away()
            all_reduce(256, m["tp"].get_group())
        all_reduce(4096, m["dp"].get_group())
        synchronize()


def pipeline(rank):
    """Rank 3, in the second of four stages, stays away from an exchange; others run ahead of each other."""
    m = init_device_mesh("cpu", (4, 2), mesh_dim_names=("pp", "dp"))
    pp, stage = m["pp"].get_group(), rank // 2
    ranks = dist.get_process_group_ranks(pp)
    for step in range(4):
        for microbatch in range(4):
            if rank == 3 and step == 2 and microbatch == 1:
                synchronize()
                stay_away()
            calls = []
            if stage < 3:
                calls += [send(128, ranks[stage + 1], pp), receive(128, ranks[stage + 1], pp)]
            if stage > 0:
                calls += [receive(128, ranks[stage - 1], pp), send(128, ranks[stage - 1], pp)]
            exchange(*calls)
        all_reduce(2048, m["dp"].get_group())
        synchronize()


def ring(rank, culprit=2):
    """Context parallelism: all exchange with both neighbours in batches, and rank 2 leaves one out."""
    for step in range(5):
        for turn in range(3):
            if rank == culprit and step == 3 and turn == 1:
                synchronize()
                stay_away()
            exchange(send(64, (rank + 1) % 6), receive(64, (rank - 1) % 6))
        all_reduce(99)
        synchronize()


def ring_healthy(rank):
    """The same with nothing wrong."""
    ring(rank, culprit=None)
    dist.barrier()


def experts(rank):
    """Rank 6 stays away from an uneven all-to-all."""
    m = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "ep"))
    for step in range(5):
        uneven = torch.Generator().manual_seed(step * 100 + rank)
        for layer in range(2):
            if rank == 6 and step == 3 and layer == 1:
                stay_away()
            sizes = torch.randint(1, 9, (4,), generator=uneven).tolist()
            dist.all_to_all_single(torch.empty(sum(sizes), 8), torch.ones(sum(sizes), 8), sizes, sizes, group=m["ep"].get_group())
        all_reduce(2048, m["dp"].get_group())
        synchronize()


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(*(nn.Linear(64, 64) for _ in range(4)))


def ddp(rank):
    """Rank 2 skips a backward pass, so that its gradients are one step behind from then on."""
    model = nn.parallel.DistributedDataParallel(Net(), bucket_cap_mb=0.01, init_sync=False)
    for step in range(6):
        loss = model(torch.randn(4, 64)).sum()
        if rank != 2 or step != 3:
            loss.backward()
            synchronize()


class Stop(torch.autograd.Function):
    """Passes gradients on, but for rank 0 in the third step."""

    step = 0

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if dist.get_rank() == 0 and Stop.step == 3:
            stay_away()
        return grad


def fsdp(rank):
    """Rank 0 stays away in the middle of a sharded backward pass."""
    from torch.distributed.fsdp import fully_shard

    m, model = init_device_mesh("cpu", (4,)), Net()
    for layer in model:
        fully_shard(layer, mesh=m)
    fully_shard(model, mesh=m)
    for Stop.step in range(5):
        x = torch.randn(4, 64)
        for i, layer in enumerate(model):
            x = layer(Stop.apply(x) if i == 2 else x)
        x.sum().backward()
        synchronize()


SCENARIOS = {
    extra_call: 4, opposite_order: 6, mesh: 12, pipeline: 8, ring: 6, ring_healthy: 6, experts: 8, ddp: 4, fsdp: 4,
}


def worker(scenario, rank, port, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(SCENARIOS[scenario]))
    os.dup2(os.open(out / f"log_{rank}", os.O_CREAT | os.O_WRONLY), 2)
    torch.set_num_threads(1)

    def write():
        while not (out / "done").exists():
            time.sleep(0.02)
        # A rename makes sure that nobody sees half a dump.
        (out / f"dumping_{rank}").write_bytes(pickle.dumps(dump(), 2))
        (out / f"dumping_{rank}").rename(out / f"rank_{rank}")

    threading.Thread(target=write, daemon=True).start()
    dist.Backend.register_backend("stand_in", StandIn, devices=["cpu"])
    dist.init_process_group("stand_in")
    dist.barrier()
    (out / f"ready_{rank}").touch()
    scenario(rank)
    (out / f"finished_{rank}").touch()
    signal.pause()


def record(scenario, out, seconds):
    world = SCENARIOS[scenario]
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(KeyboardInterrupt):
                worker(scenario, rank, port, out)
            os._exit(1)
        ranks.append(pid)
    try:
        while len(list(out.glob("ready_*"))) < world:
            time.sleep(0.1)
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(list(out.glob("finished_*"))) < world:
            time.sleep(0.1)
        (out / "done").touch()
        end = time.monotonic() + 30
        while time.monotonic() < end and len(list(out.glob("rank_*"))) < world:
            time.sleep(0.1)
    finally:
        for pid in ranks:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    names = sorted(f.name for f in out.glob("rank_*"))
    with tarfile.open(f"{out}.tar.gz", "w:gz") as tar:
        for name in names:
            tar.add(out / name, arcname=name)
    shutil.rmtree(out)
    print(scenario.__name__, names, flush=True)


def main():
    by_name = {f.__name__: f for f in SCENARIOS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("scenario", nargs="*", choices=[*by_name, []])
    parser.add_argument("--seconds", type=float, default=20, help="how long a hanging job gets")
    args = parser.parse_args()
    version = torch.__version__.split("+")[0]
    for name in args.scenario or by_name:
        record(by_name[name], args.out / f"nccl-torch-{version}" / name, args.seconds)


if __name__ == "__main__":
    main()
