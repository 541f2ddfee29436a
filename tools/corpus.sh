#!/bin/bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0

# Takes from Go's fuzz cache the smallest inputs that together reach what all of them reach, into each package's
# testdata/fuzz, where `go test` runs them.
#
#   tools/corpus.sh [PACKAGE...]
#
# An input is kept when it reaches a block of its package that neither the target's own seeds nor a smaller input does.

set -euo pipefail
cd "$(dirname "$0")/.."

largest=4096 # Bytes of an input that is kept.
packages=("$@")
if [[ ${#packages[@]} -eq 0 ]]; then
  mapfile -t packages < <(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
module=$(go list -m)
cache=$(go env GOCACHE)/fuzz

# reached PATTERN prints the blocks that the runs of the test binary that match it reach.
reached() {
  (cd "$package" && "$work/test" -test.run "$1" -test.coverprofile "$work/profile" >"$work/log" 2>&1) || return 1
  awk 'NR > 1 && $NF > 0 { print $1 }' "$work/profile" | sort -u
}

printf '%-34s %-20s %8s %6s\n' package target cached kept
for package in "${packages[@]}"; do
  package=${package#./}
  go test -c -cover -o "$work/test" "./$package"
  for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | sed 's/^func //' | sort); do
    found=$cache/$module/$package/$target
    kept=$package/testdata/fuzz/$target
    mkdir -p "$kept"
    reached "^$target\$" >"$work/seen"
    inputs=0
    new=0
    while read -r input; do
      [[ -n $input ]] || continue
      inputs=$((inputs + 1))
      name=$(basename "$input")
      [[ ! -e $kept/$name ]] || continue
      cp "$input" "$kept/$name"
      if reached "^$target\$/^$name\$" >"$work/now" && [[ -n $(comm -13 "$work/seen" "$work/now") ]]; then
        sort -u -o "$work/seen" "$work/seen" "$work/now"
        new=$((new + 1))
      else
        rm "$kept/$name"
      fi
    done < <(find "$found" -type f -size -"$((largest + 1))"c -printf '%s %p\n' 2>/dev/null | sort -n | cut -d' ' -f2-)
    rmdir --ignore-fail-on-non-empty -p "$kept" 2>/dev/null || true
    printf '%-34s %-20s %8d %6d\n' "$package" "$target" "$inputs" "$new"
  done
done
