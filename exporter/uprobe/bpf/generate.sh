#!/bin/bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles calls.bpf.c into the objects that the exporter carries, or into the folder named. The compiler's version is part of
# what the objects are, so it is pinned.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
for arch in x86 arm64; do
  clang-19 -target bpfel -mcpu=v3 -O2 -g -Wall -Wextra -Werror -std=gnu11 -D"ARCH_${arch^^}" \
    -idirafter "/usr/include/$(uname -m)-linux-gnu" "-ffile-prefix-map=$here=." -fdebug-compilation-dir=. \
    -c "$here/calls.bpf.c" -o "$out/calls_$arch.o"
  llvm-strip-19 --strip-debug "$out/calls_$arch.o" # Keeps BTF, which the maps are described in.
done
