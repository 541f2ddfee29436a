#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: the end-to-end check on real NCCL. Several ranks share one GPU by distinct NCCL_HOSTID, so that all their
# traffic takes NCCL's socket transport. Needs an NVIDIA GPU and PyTorch with CUDA; without a GPU it says so and does
# nothing. Exits non-zero when a verdict was wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  echo "gpu-e2e: no NVIDIA GPU here; nothing was done"
  exit 0
fi
if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  echo "gpu-e2e: there is a GPU, but no PyTorch that can use it (pip install torch)" >&2
  exit 1
fi
tools/build.sh prometheus alertmanager

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
python3 -c 'import torch; print("PyTorch", torch.__version__, "NCCL", ".".join(map(str, torch.cuda.nccl.version())))'
failed=0
for fault in op-not-entered stop kill none; do
  echo "=== $fault"
  bin/culprit-demo --fault="$fault" --rank=2 --ranks=4 --hosts=2 --layout=dp4 --launcher=sim/gpu/train.py || failed=1
done
echo "=== step time with and without the plugin"
python3 sim/gpu/overhead.py bin/libnccl-profiler-culprit.so
exit "$failed"
