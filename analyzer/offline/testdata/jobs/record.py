#!/usr/bin/env python3
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
"""Records what real PyTorch jobs leave behind when they go wrong: the log of torchrun, Flight Recorder dumps, py-spy stacks.

    record.py OUT [PROGRAM ...]

runs each program of train.py on four ranks (gloo on CPUs) and writes OUT/torch-VERSION/PROGRAM.tar.gz with job.log, dumps/,
stacks/ (py-spy; the file's name is the process number, as people give it) and faulthandler/ (what Python itself prints).
With --backend=nccl the ranks share a GPU, OUT has torch-VERSION-nccl/, and there is watchdog/, the dumps of NCCL's watchdog.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
WORLD = 4
PATIENCE = 20  # Seconds that a collective waits.
DETAIL = {"detail_op", "detail_shape", "detail_absent"}


def wait(until, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        time.sleep(0.1)
    return until()


def record(program, out, backend):
    with tempfile.TemporaryDirectory() as tmp:
        work = pathlib.Path(tmp) / "work"
        got = pathlib.Path(tmp) / "got"
        work.mkdir()
        for d in ("dumps", "stacks", "faulthandler", "watchdog"):
            (got / d).mkdir(parents=True)
        shutil.copy(HERE / "train.py", work / "train.py")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        env = dict(
            os.environ, RECORD_DIR=str(work), RECORD_TIMEOUT=str(PATIENCE), RECORD_BACKEND=backend, GLOO_SOCKET_IFNAME="lo", TORCH_FR_BUFFER_SIZE="2000",
            TORCH_NCCL_TRACE_BUFFER_SIZE="2000", OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1",
            TORCH_NCCL_DUMP_ON_TIMEOUT="1", TORCH_NCCL_DEBUG_INFO_TEMP_FILE=str(work / "watchdog_rank_"),
        )
        if program in DETAIL:
            env["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        log = (work / "job.log").open("wb")
        job = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={WORLD}", "--master-addr=127.0.0.1", f"--master-port={port}",
             "train.py", program],
            cwd=work, env=env, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )
        try:
            wait(lambda: len(list(work.glob("began_*"))) == WORLD or job.poll() is not None, 120)
            wait(lambda: any(work.glob("stuck_*")) or job.poll() is not None, 60)
            time.sleep(3)
            if job.poll() is None:
                stacks(work, got / "stacks")
                (work / "dump").touch()
                wait(lambda: len(list(work.glob("flight_recorder_rank_*"))) == WORLD, 4)
            wait(lambda: job.poll() is not None, 3 * PATIENCE)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            log.close()
        for d in sorted(work.glob("flight_recorder_rank_*")):
            shutil.copy(d, got / "dumps" / d.name)
        for d in sorted(work.glob("watchdog_rank_*")):
            shutil.copy(d, got / "watchdog" / d.name)
        for d in sorted(work.glob("faulthandler_rank_*")):
            (got / "faulthandler" / d.name).write_text(anonymous(d.read_text(), work))
        (got / "job.log").write_text(anonymous((work / "job.log").read_text(errors="replace"), work))
        out.parent.mkdir(parents=True, exist_ok=True)
        names = sorted(str(f.relative_to(got)) for f in got.rglob("*") if f.is_file())
        with tarfile.open(f"{out}.tar.gz", "w:gz") as tar:
            for n in names:
                tar.add(got / n, arcname=n)
        print(program, names, flush=True)


def stacks(work, to):
    spy = os.environ.get("PY_SPY", "py-spy")
    for f in sorted(work.glob("pid_*")):
        pid = f.read_text()
        dump = subprocess.run([spy, "dump", "--pid", pid, "--subprocesses"], capture_output=True, text=True, timeout=60)
        if dump.stdout:
            (to / f"{pid}.txt").write_text(anonymous(dump.stdout, work))
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGUSR1)  # faulthandler writes its own.


def anonymous(text, work):
    """The recording machine's paths and name are nobody's business."""
    site = [p for p in sys.path if p.endswith("site-packages")][0]
    base = os.path.dirname(os.__file__)
    for real, shown in ((str(work), "/job"), (site, "/opt/venv/lib/python3/site-packages"), (os.path.dirname(site), "/opt/venv/lib/python3"),
                        (str(pathlib.Path(sys.executable).parent), "/opt/venv/bin"), (base, "/usr/lib/python3"),
                        (str(pathlib.Path(os.path.realpath(sys.executable)).parent.parent), "/usr"), (socket.gethostname(), "node-1")):
        text = text.replace(real, shown)
    return re.sub(r"/tmp/[\w./-]+", "/tmp/x", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("program", nargs="*")
    parser.add_argument("--backend", default="gloo", choices=["gloo", "nccl"])
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    args = parser.parse_args()
    import torch

    version = torch.__version__.split("+")[0]
    programs = args.program or re.findall(r"\w+", (HERE / "train.py").read_text().split("for f in (")[1].split(")")[0])
    out = args.out / (f"torch-{version}" + ("-nccl" if args.backend == "nccl" else ""))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for _ in pool.map(lambda p: record(p, out / p, args.backend), programs):
            pass


if __name__ == "__main__":
    main()
