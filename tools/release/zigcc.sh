#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# zigcc.sh is the C compiler of a release: zig's, for the target ZIG_TARGET, whose glibc version says which symbols may be used.
# ZIG is the program.
#
# The exporter opens NVML at run time, so its functions stay undefined at link time. zig cc takes no option for that, but its linker
# does: where one is asked for, zig prints the linker's command line, and the linker runs again with the option. Binding is lazy then:
# the functions come with the library. Symbols are stripped, since they hold the paths of zig's own files on this machine.
set -euo pipefail

arguments=()
undefined=
for argument; do
  case $argument in
    -Wl,--unresolved-symbols=*) undefined=${argument#-Wl,} ;;
    *) arguments+=("$argument") ;;
  esac
done

if [[ -z $undefined ]]; then
  exec "$ZIG" cc -target "$ZIG_TARGET" "${arguments[@]}"
fi
log=$(ZIG_VERBOSE_LINK=1 "$ZIG" cc -target "$ZIG_TARGET" "${arguments[@]}" 2>&1) || true
# No word of the line may hold a blank: zig prints it without quotes.
if ! read -ra link < <(grep '^ld\.lld ' <<<"$log" | tail -n 1); then
  printf '%s\n' "$log" >&2
  exit 1
fi
exec "$ZIG" "${link[@]}" "$undefined" -z lazy --strip-all
