#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# run.sh DIR [PART…]: the checks on a real GPU, with the NCCL of the installed PyTorch; what was seen is kept in DIR. Parts:
#
#   verdicts   a training job with faults: does the page name the faulty rank?
#   experts    the same where tokens are exchanged among experts, too: of these operations kernel events are not to be trusted
#   drawn      jobs drawn from the seed $SEED (default 1), $COUNT of them (default 12): layout, fault, rank, moment
#   calls      every kind of call, with a plugin that records all callbacks
#   overhead   the time of an all-reduce with the plugin and without
#
# Several ranks share one GPU by distinct NCCL_HOSTID, so that all their traffic takes NCCL's socket transport. Needs an NVIDIA
# GPU and PyTorch with CUDA; without a GPU it says so and does nothing. Exits non-zero when a verdict was wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
[[ $# -gt 0 ]] || set -- verdicts experts drawn calls overhead

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  echo "gpu-e2e: no NVIDIA GPU here; nothing was done"
  exit 0
fi
if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  echo "gpu-e2e: there is a GPU, but no PyTorch that can use it (pip install torch)" >&2
  exit 1
fi

# run_fault FAULT [FLAG…]: the demo on the real GPU, with the layout in $layout.
run_fault() {
  local fault=$1
  shift
  echo "=== $fault"
  bin/culprit-demo --fault="$fault" --rank=2 --ranks=4 --hosts=2 --layout="$layout" --program=sim/gpu/train.py \
    --evidence="$out/$layout-${fault%%=*}" "$@"
}

verdicts() {
  local fault failed=0 layout=dp4
  for fault in op-not-entered stop kill kernel-stall; do
    run_fault "$fault" --warmup=100 || failed=1
  done
  for fault in gpu-slow=3 data-late=0.3; do
    run_fault "$fault" --warmup=250 --timeout=90s || failed=1
  done
  for fault in none checkpoint=8; do
    run_fault "$fault" --warmup=60 || failed=1
  done
  return "$failed"
}

experts() {
  local fault failed=0 layout=dp4,ep2
  for fault in stop kill kernel-stall op-not-entered; do
    run_fault "$fault" --warmup=60 || failed=1
  done
  run_fault gpu-slow=3 --warmup=250 --timeout=90s || failed=1
  return "$failed"
}

drawn() {
  local job failed=0 number=0
  while read -r job; do
    echo "=== drawn ${SEED:-1}-$number: $job"
    # shellcheck disable=SC2086 # Flags without blanks.
    bin/culprit-demo $job --program=sim/gpu/train.py --evidence="$out/drawn-${SEED:-1}-$number" </dev/null ||
      { failed=1; echo "=== WRONG: drawn ${SEED:-1}-$number"; }
    number=$((number + 1))
  done < <(python3 sim/gpu/draw.py "${SEED:-1}" "${COUNT:-12}")
  return "$failed"
}

calls() {
  echo "=== calls"
  NCCL_PROFILER_PLUGIN=libnccl-recorder.so LD_LIBRARY_PATH=$PWD/bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} RECORDER_DIR=$out \
    timeout 120 bin/ringjob launch --ranks=2 --hosts=2 --dir="$out" --program="$PWD/sim/gpu/calls.py" --
}

overhead() {
  echo "=== time of an all-reduce with and without the plugin"
  python3 sim/gpu/overhead.py bin
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
python3 -c 'import torch; print("PyTorch", torch.__version__, "NCCL", ".".join(map(str, torch.cuda.nccl.version())))'
failed=0
for part in "$@"; do
  "$part" || failed=1
done
exit "$failed"
