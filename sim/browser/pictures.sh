#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# pictures.sh: pictures of the analyzer's pages from a run of the demo, a job of eight ranks that stands still, into docs/pictures; and
# of two played incidents: 10,240 ranks that stand still, and a job that got slow. Called by go run ./tools/ci run pictures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$PWD/docs/pictures
. sim/browser/demo.sh

start --fault=link-stall --rank=5 --warmup=1000
until_said 'staying up'
ANALYZER=$(address analyzer) PICTURES=$out go test -C sim/browser -tags pictures -count=1 -run TestPictures ./...
stop
PICTURES=$out go test -C sim/browser -count=1 -run '^TestPages$/^incident-(10240|slow)$/^light$' ./...
