#!/bin/bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0

# Runs every fuzz target one after another, each for TIME (10s), and prints what each did.
#
#   tools/fuzz.sh [TIME [PACKAGE...]]
#
# New inputs that find something are kept in the package's testdata/fuzz, as `go test` does; others in Go's cache.

set -uo pipefail
cd "$(dirname "$0")/.."

time=${1:-10s}
shift || true
packages=("$@")
if [[ ${#packages[@]} -eq 0 ]]; then
  mapfile -t packages < <(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
printf '%-34s %-20s %12s %10s %6s\n' package target executions 'per second' new
for package in "${packages[@]}"; do
  for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | sed 's/^func //' | sort); do
    # Minimising an input that only reaches new code may take a minute of no executions: it is worth one.
    if ${GO:-go} test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1x "$package" >"$log" 2>&1; then
      result=
    else
      result=FAILED
      failed=1
    fi
    # "fuzz: elapsed: 10s, execs: 17205 (1720/sec), new interesting: 12 (total: 20)"
    read -r execs new < <(sed -n 's/^fuzz: elapsed: .*, execs: \([0-9]*\) .*new interesting: \([0-9]*\) .*/\1 \2/p' "$log" | tail -1)
    rate=$(awk -v n="${execs:-0}" -v t="$time" 'BEGIN {
      s = t + 0; if (t ~ /m$/) s *= 60; if (t ~ /h$/) s *= 3600; if (s > 0) printf "%d", n / s; else print "-" }')
    printf '%-34s %-20s %12s %10s %6s %s\n' "${package#./}" "$target" "${execs:--}" "$rate" "${new:--}" "$result"
    [[ -z $result ]] || cat "$log"
    execs= new=
  done
done
exit $failed
