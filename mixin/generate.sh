#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# generate.sh renders mixin/ into rules/ and dashboards/; generate.sh --check renders elsewhere
# and fails when the committed files differ.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jsonnet=$root/bin/tools/jsonnet
[[ -x $jsonnet ]] || "$root/tools/build.sh" jsonnet

into=$(mktemp -d)
trap 'rm -rf "$into"' EXIT
mkdir -p "$into/rules" "$into/dashboards"
"$jsonnet" --string --create-output-dirs --multi "$into/rules" "$root/mixin/lib/rules.jsonnet" >/dev/null
"$jsonnet" --multi "$into/dashboards" "$root/mixin/lib/dashboards.jsonnet" >/dev/null

case ${1:-} in
  '')
    for kind in rules dashboards; do
      mkdir -p "$root/$kind"
      find "$root/$kind" -type f \( -name '*.yaml' -o -name '*.json' \) -not -path '*/tests/*' -delete
      cp -r "$into/$kind"/* "$root/$kind/"
    done
    ;;
  --check)
    for kind in rules dashboards; do
      diff --unified --recursive --exclude=tests --exclude='*.go' "$root/$kind" "$into/$kind" || {
        echo "mixin: $kind/ is not what mixin/ renders; run mixin/generate.sh" >&2
        exit 1
      }
    done
    ;;
  *)
    echo "usage: mixin/generate.sh [--check]" >&2
    exit 2
    ;;
esac
