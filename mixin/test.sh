#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# test.sh checks the mixin and what is rendered from it: format, drift, rules (lint and unit tests), dashboards,
# runbooks, and the configuration in deploy/. With --all it runs the triggers at each scrape interval, not only those that ship and the rarest.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
go run ./tools/ci get promtool amtool jsonnet jsonnetfmt jsonnet-lint
PATH=$root/bin/tools:$PATH
# What evaluates rules and jsonnet makes much garbage, and little of it lives.
export GOGC=400
scrapes=(5 60)
[[ ${1:-} != --all ]] || scrapes=(1 5 15 30 60)

echo "mixin: format and lint"
mapfile -t sources < <(find mixin -name '*sonnet')
jsonnetfmt --test -n 2 --max-blank-lines 2 --string-style s --comment-style s "${sources[@]}" || {
  echo "mixin: jsonnetfmt -i -n 2 --max-blank-lines 2 --string-style s --comment-style s would change a file" >&2
  exit 1
}
jsonnet-lint mixin/mixin.libsonnet

echo "mixin: rules/ and dashboards/ are what is rendered"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mixin/generate.sh --into "$scratch/rendered"
mixin/generate.sh --check "$scratch/rendered"

echo "mixin: rules"
all=("$scratch"/rendered/rules/{.,sources,scrape-*}/*.yaml)
promtool check rules --lint=all --lint-fatal "${all[@]}"
promtool test rules rules/tests/*.yaml
jsonnet --ext-str rules="$scratch/rendered/rules" --multi "$scratch" mixin/promtest/intervals.jsonnet >/dev/null
jsonnet --multi "$scratch" mixin/promtest/clusters.jsonnet >/dev/null
jsonnet --multi "$scratch" mixin/promtest/dashboards.jsonnet >/dev/null
jsonnet --multi "$scratch" mixin/promtest/sampled.jsonnet >/dev/null
jsonnet --ext-str rules="$root/rules" --multi "$scratch" mixin/promtest/sources.jsonnet >/dev/null
jsonnet --ext-str rules="$root/rules" --multi "$scratch" mixin/promtest/liars.jsonnet >/dev/null
for s in "${scrapes[@]}"; do
  promtool test rules "$scratch/scrape-${s}s.json" "$scratch/scrape-${s}s-past.json"
done
promtool test rules "$scratch"/clusters.json "$scratch"/sources.json "$scratch"/dashboards.json "$scratch"/sampled.json "$scratch"/liars.json "$scratch"/liars-past.json

echo "mixin: expressions, names, links, runbooks"
# Its inputs lie outside its module, where the test cache does not look.
(cd mixin/promtest && GOWORK=off go test -vet=off -count=1 ./...)

echo "deploy: Prometheus"
cp -r rules deploy/prometheus/prometheus.yml "$scratch"
promtool check config --lint=all --lint-fatal "$scratch/prometheus.yml"

echo "deploy: Alertmanager"
config=deploy/alertmanager/alertmanager.yml
amtool check-config "$config"
# route RECEIVER LABEL...: an alert with these labels goes to RECEIVER and to nobody else.
route() {
  local want=$1
  shift
  amtool config routes test --config.file "$config" --verify.receivers "$want" "$@" >/dev/null || {
    echo "deploy: $* does not go to $want" >&2
    exit 1
  }
}
route culprit-analyzer alertname=CulpritJobStalled culprit=trigger kind=hang severity=none job_id=7
route culprit-analyzer alertname=CulpritIterationSlow culprit=trigger kind=slow severity=none job_id=7
route culprit-analyzer alertname=CulpritFirstLook culprit=trigger kind=start severity=none job_id=7
route pager alertname=CulpritFound culprit=verdict severity=critical job_id=7
route pager alertname=CulpritSlow culprit=verdict severity=warning job_id=7
route pager alertname=CulpritUnknown culprit=verdict severity=warning job_id=7
route nobody alertname=CulpritUnknown culprit=verdict severity=info job_id=7
route pager alertname=CulpritNoVerdict culprit=health severity=critical job_id=7
route operators alertname=CulpritExporterDown culprit=health severity=warning
route operators alertname=CulpritGPUXid culprit=ticket severity=warning
route operators alertname=SomethingElse severity=critical
