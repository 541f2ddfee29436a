#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# A hook of enroot (/etc/enroot/hooks.d/50-culprit.sh), which pyxis runs for `srun --container-image`: it mounts the shim and the
# trace directory, so that what the TaskProlog sets holds inside of containers.
set -euo pipefail

lib=${CULPRIT_LIB:-/usr/lib/culprit}
dir=${CULPRIT_DIR:-/dev/shm/culprit}

if [[ ! -r $lib/libnccl-profiler-culprit.so || ! -d $dir ]]; then
  exit 0
fi
enroot-mount --root "${ENROOT_ROOTFS}" - <<MOUNTS
$lib $lib none x-create=dir,bind,ro,nosuid,nodev
$dir $dir none x-create=dir,bind,rw,nosuid,nodev,noexec
MOUNTS

# An image's own library path replaces the job's.
path=$(sed -n 's/^LD_LIBRARY_PATH=//p' "${ENROOT_ENVIRON}" | tail -n 1)
if [[ :$path: != *":$lib:"* ]]; then
  printf 'LD_LIBRARY_PATH=%s\n' "$lib${path:+:$path}" >> "${ENROOT_ENVIRON}"
fi
if ! grep -q '^NCCL_PROFILER_PLUGIN=' "${ENROOT_ENVIRON}"; then
  printf 'NCCL_PROFILER_PLUGIN=libnccl-profiler-culprit.so\n' >> "${ENROOT_ENVIRON}"
fi
