#!/bin/bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0

# Records the flows of ringjob's ranks under the shim, well and with a fault each, into this directory. Needs `make build`.
#
#   analyzer/offline/flows/testdata/record.sh [CASE...]

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
ranks=6
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
go build -o "$tmp/record" "$here/record.go"

record() { # name, length, flags of the ranks
  local name=$1 length=$2
  shift 2
  mkdir "$tmp/$name"
  # Slow links and short slices: the shares of time are a large job's, though a small machine samples every 2 ms.
  NCCL_PROFILER_PLUGIN="$root/bin/libnccl-profiler-culprit.so" \
    "$root/bin/ringjob" launch --ranks $ranks --hosts $ranks --dir "$tmp/$name" -- --layout dp$ranks --steps 0 --grace 1 \
    --check off --connect-ms 1 --barrier-every 0 --link-mbps 4 --step-bytes 8K --bytes 768K --compute-ms 40 "$@" \
    >"$tmp/$name.log" 2>&1 &
  local job=$!
  for _ in $(seq 100); do
    if grep -q '"step":1,' "$tmp/$name.log"; then break; fi
    sleep 0.1
  done
  "$tmp/record" "$tmp/$name" dp 2ms "$length" | gzip -9n >"$here/$name.csv.gz"
  kill -TERM $job
  wait $job || true
  echo "$name: $(zcat "$here/$name.csv.gz" | wc -l) lines, $(stat -c %s "$here/$name.csv.gz") bytes"
}

cases=${*:-healthy gpu-slow link-slow link-stall op-not-entered gpu-freeze}
for c in $cases; do
  case $c in
  healthy) record healthy 5s ;;
  gpu-slow) record gpu-slow 6s --fault gpu-slow=3:rank=2:step=0 ;;
  link-slow) record link-slow 8s --fault link-slow=0.3:rank=3:step=0:comm=any ;;
  link-stall) record link-stall 8s --fault link-stall:rank=3:after=4:comm=any ;;
  op-not-entered) record op-not-entered 8s --fault op-not-entered=sleep:rank=4:step=12 ;;
  gpu-freeze) record gpu-freeze 8s --fault gpu-freeze:rank=1:after=4 ;;
  esac
done
