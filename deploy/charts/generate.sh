#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# generate.sh copies rules/ and dashboards/ into the chart, which can only hold files of its own; generate.sh --check fails when the
# copies differ.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
files=$root/deploy/charts/culprit/files

if [[ ${1:-} == --check ]]; then
  into=$(mktemp -d)
  trap 'rm -rf "$into"' EXIT
else
  into=$files
  rm -rf "$into/rules" "$into/dashboards"
fi
mkdir -p "$into/rules/sources" "$into/dashboards"
# The comments on top would be in the middle of the objects.
for file in "$root"/rules/*.yaml "$root"/rules/sources/*.yaml; do
  sed '/^#/d' "$file" > "$into/${file#"$root"/}"
done
cp "$root"/dashboards/*.json "$into/dashboards/"
if [[ $into != "$files" ]]; then
  diff --unified --recursive "$files" "$into" || {
    echo "deploy/charts: the chart's files are not rules/ and dashboards/; run make generate" >&2
    exit 1
  }
fi
