#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# dashboards.sh: draws the shipped dashboards from two runs of the demo. One job, on a real NCCL with played GPUs, stands still. The other one gets slow;
# that is ringjob, since NCCL's threads spin, and on a small machine that hides a slow GPU. Checks that queries return data before and after the
# fault, and puts pictures into docs/pictures. Called by go run ./tools/ci run dashboard-pictures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$PWD/docs/pictures
. sim/browser/demo.sh
# A container names itself so, and the name would be in the pictures.
unset CONTAINER_NAME POD_NAME POD_NAMESPACE POD_UID KUBERNETES_SERVICE_HOST

draw() {
  start --rank=3 --timeout=5m --fault="${@:2}"
  until_said "fault $2"
  local onset
  onset=$(date --utc +%FT%TZ)
  until_said 'staying up'
  # A picture shows at least a minute of the fault: a verdict on one that stands still is there earlier.
  until [[ $(date +%s) -gt $(($(date --date "$onset" +%s) + 60)) ]]; do sleep 1; done
  PROMETHEUS=$(address prometheus) FAULT=$1 ONSET=$onset UNTIL=$(date --utc +%FT%TZ) PICTURES=$out DASHBOARDS=$PWD/.cache/dashboards \
    go test -C sim/browser -tags pictures -count=1 -v -run 'TestDashboards$' ./...
  stop
}

draw hang link-stall --nccl="${NCCL:-2.30.7}" --warmup=500
draw slow gpu-slow
