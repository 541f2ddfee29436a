#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# test-busy.sh [N [COMMAND...]] runs the tests N times (20) beside four busy loops, and stops at the first failure: no test may depend on
# how long something takes. COMMAND is make test by default. The output of each run is kept in build/test-busy.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs=${1:-20}
shift || true
(( $# > 0 )) || set -- make test
[[ $runs =~ ^[1-9][0-9]*$ ]] || { echo "usage: tools/test-busy.sh [N [COMMAND...]]" >&2; exit 2; }

loops=()
# The loops end with this script, also when it is interrupted.
trap 'kill "${loops[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
for _ in 1 2 3 4; do
  (
    trap - EXIT INT TERM
    while kill -0 "$$" 2>/dev/null; do
      for (( i = 0; i < 1000000; i++ )); do :; done
    done
  ) &
  loops+=($!)
done

out=build/test-busy
mkdir -p "$out"
for (( run = 1; run <= runs; run++ )); do
  log=$out/$run.log
  began=$SECONDS
  status=0
  "$@" >"$log" 2>&1 || status=$?
  result=passed
  (( status == 0 )) || result="FAILED with $status, see $log"
  printf 'run %d of %d: %s after %d s\n' "$run" "$runs" "$result" "$(( SECONDS - began ))"
  if (( status != 0 )); then
    grep -E '^[[:space:]]*--- FAIL|^FAIL|^panic:|Error [0-9]+$' "$log" | head -n 40 || true
    exit 1
  fi
done
