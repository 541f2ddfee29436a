#!/bin/sh
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0

# Runs a sanitized ringjob through operations, training and faults; any report fails.
# sanitize.sh PROGRAM BUILD_DIR [SHIM]: the last, built with the same sanitizer, is loaded in a training run of its own.
set -eu
program=$1
build=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
export TSAN_OPTIONS="halt_on_error=0 exitcode=66 ${TSAN_OPTIONS:-}"
export ASAN_OPTIONS="exitcode=66 ${ASAN_OPTIONS:-}"
export NCCL_PROFILER_PLUGIN=recorder LD_LIBRARY_PATH="$build"

# run NAME EXIT_CODE LAUNCH_FLAGS -- RANK_FLAGS
run() {
  name=$1
  want=$2
  shift 2
  mkdir -p "$dir/$name"
  code=0
  RECORDER_DIR=$dir/$name "$program" launch --dir "$dir/$name" --timeout 120 "$@" >"$dir/$name/out" 2>"$dir/$name/err" || code=$?
  if [ "$code" != "$want" ] || grep -q -E 'Sanitizer|runtime error' "$dir/$name/err"; then
    echo "$name: exit code $code, wanted $want" >&2
    head -60 "$dir/$name/err" >&2
    exit 1
  fi
  echo "$name: ok"
}

run ops 0 --ranks 3 -- --selftest ops
run ops_shared 0 --ranks 2 -- --selftest ops --shared-proxy --net socket
run training 0 --ranks 8 --hosts 4 -- --layout dp2,pp2,tp2 --steps 5
run training_v4 0 --ranks 4 --hosts 2 -- --layout dp2,tp2 --steps 5 --abi 4 --intra shm --dp-op rs-ag
run freeze 0 --ranks 4 --hosts 2 -- --layout dp4 --steps 6 --fault gpu-freeze:rank=1:step=2:for=1
run stall 0 --ranks 4 --hosts 2 -- --layout dp4 --steps 6 --fault link-stall:rank=1:step=2:for=1
run other_op 4 --ranks 4 --hosts 2 --timeout 6 -- --layout dp4 --steps 6 --grace 1 --fault other-op:rank=1:step=2
run other_op_shared 4 --ranks 4 --hosts 2 --timeout 6 -- --layout dp4 --steps 6 --grace 1 --shared-proxy --fault other-op:rank=1:step=2
[ $# -gt 2 ] || exit 0
export CULPRIT_EVENTS=all CULPRIT_TRANSFERS=1
NCCL_PROFILER_PLUGIN=$(realpath "$3")
run shim 0 --ranks 8 --hosts 4 -- --layout dp2,pp2,tp2 --steps 5
run shim_v4 0 --ranks 4 --hosts 2 -- --layout dp2,tp2 --steps 5 --abi 4
run shim_shared 0 --ranks 4 --hosts 4 -- --selftest soak --steps 6 --channels 4 --shared-proxy
run shim_abort 4 --ranks 4 --hosts 2 --timeout 6 -- --layout dp4 --steps 6 --grace 1 --fault other-op:rank=1:step=2
