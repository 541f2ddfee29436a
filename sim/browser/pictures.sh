#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# pictures.sh: pictures of the analyzer's pages from a run of the demo, a job of eight ranks that stands still, into docs/pictures; and
# of two played incidents: 10,240 ranks that stand still, and a job that got slow. Called by make pictures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$PWD/docs/pictures
log=$(mktemp)
demo=
stop() {
  [[ -z $demo ]] || { kill -INT "$demo" && wait "$demo"; } 2>/dev/null || true
  demo=
}
trap 'stop; rm -f "$log"' EXIT

bin/culprit-demo --stay --fault=link-stall --rank=5 --warmup=1000 >"$log" 2>&1 &
demo=$!
until grep -q 'staying up' "$log"; do
  kill -0 "$demo" 2>/dev/null || { cat "$log" >&2; echo "the demo ended" >&2; exit 1; }
  sleep 1
done
analyzer=$(sed -n 's/^ *analyzer  *\(http[^ ]*\).*/\1/p' "$log")
ANALYZER=$analyzer PICTURES=$out go test -C sim/browser -tags pictures -count=1 -run TestPictures ./...
stop
PICTURES=$out go test -C sim/browser -count=1 -run '^TestPages$/^incident-(10240|slow)$/^light$' ./...
