#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""A job of all_reduces over gloo in which NVRx' injector puts a fault into one rank.

    torchrun --nproc-per-node N inject.py INJECTOR FAULT RANK DUMPS

INJECTOR is the file inject_fault.py of a checkout of NVRx. The Flight Recorder is dumped into DUMPS when an operation fails, or some
seconds after the fault.
"""

import ctypes
import datetime
import importlib.util
import pathlib
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

FAULT_AFTER = 3.0
DUMP_AFTER = 9.0
GIVE_UP_AFTER = 15.0


def main():
    injector, fault, guilty, dumps = sys.argv[1], sys.argv[2], int(sys.argv[3]), pathlib.Path(sys.argv[4])
    spec = importlib.util.spec_from_file_location("inject_fault", injector)
    nvrx = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nvrx)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=GIVE_UP_AFTER))
    rank = dist.get_rank()

    def dump():
        path = dumps / f"nccl_trace_rank_{rank}"
        if not path.exists():
            path.write_bytes(torch._C._distributed_c10d._dump_fr_trace(True, False, False))

    timer = threading.Timer(DUMP_AFTER, dump)
    timer.daemon = True
    timer.start()
    dist.barrier()
    if rank == guilty:
        nvrx.dispatch_fault_injection(nvrx.Fault[fault], FAULT_AFTER, None)
    data = torch.ones(1024)
    try:
        while True:
            dist.all_reduce(data)
            nvrx.maybe_raise_workload_exception()
            time.sleep(0.05)
    finally:
        dump()


if __name__ == "__main__":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # A stopped rank would outlive its launcher.
    main()
