#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# generate.sh renders mixin/ into rules/, dashboards/ and exporter/stall/rule.json. Git keeps the rules for scrapes every 5 s; those for rarer scrapes
# (rules/scrape-*) are rendered here and on release.
#   generate.sh --into DIR     renders into DIR/rules and DIR/dashboards
#   generate.sh --check [DIR]  fails when the committed files are not what is rendered, or what --into has rendered into DIR
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jsonnet=$root/bin/tools/jsonnet
[[ -x $jsonnet ]] || (cd "$root" && go run ./tools/ci get jsonnet)

# render DIR renders everything into DIR, which has no rules and dashboards yet.
render() {
  mkdir -p "$1/rules" "$1/dashboards" "$1/exporter/stall"
  "$jsonnet" --string --create-output-dirs --multi "$1/rules" "$root/mixin/lib/rules.jsonnet" >/dev/null
  "$jsonnet" --multi "$1/dashboards" "$root/mixin/lib/dashboards.jsonnet" >/dev/null
  "$jsonnet" --output-file "$1/exporter/stall/rule.json" "$root/mixin/lib/stall.jsonnet"
}

case ${1:-} in
  '')
    for kind in rules dashboards; do
      find "$root/$kind" -type f \( -name '*.yaml' -o -name '*.json' \) -not -path '*/tests/*' -delete
    done
    render "$root"
    ;;
  --into)
    render "${2:?a folder}"
    ;;
  --check)
    into=${2:-}
    if [[ -z $into ]]; then
      into=$(mktemp -d)
      trap 'rm -rf "$into"' EXIT
      render "$into"
    fi
    for kind in rules dashboards exporter/stall/rule.json; do
      diff --unified --recursive --exclude=tests --exclude='*.go' --exclude='scrape-*' "$root/$kind" "$into/$kind" || {
        echo "mixin: $kind is not what mixin/ renders; run mixin/generate.sh" >&2
        exit 1
      }
    done
    ;;
  *)
    echo "usage: mixin/generate.sh [--into DIR | --check [DIR]]" >&2
    exit 2
    ;;
esac
