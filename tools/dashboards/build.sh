#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# build.sh: the page that draws dashboards, in .cache/dashboards; and the dashboards held against the types of Grafana's schema. The packages are
# installed only where go build ./... does not look: some of them have Go files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
out=../../.cache/dashboards
mkdir -p "$out/dist"
cmp --silent package-lock.json "$out/installed.json" || {
  echo "installing Grafana's packages into .cache/dashboards"
  cp package.json package-lock.json "$out"
  # Grafana's packages ask for versions of React that differ, and no package needs its install script.
  (cd "$out" && npm ci --silent --ignore-scripts --legacy-peer-deps)
  cp package-lock.json "$out/installed.json"
}
cp ./*.ts ./*.tsx ./*.css ./*.mjs ./tsconfig.json "$out"
cp index.html "$out/dist"
cd "$out"
node schema.mjs ../../dashboards
node_modules/.bin/tsc
node build.mjs
