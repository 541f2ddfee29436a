#!/bin/sh
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# drain-slurm.sh: drains the accused hosts in Slurm, for `actions:` of culprit-analyzer. A drained node finishes its jobs and gets no
# new ones; `scontrol update NodeName=… State=RESUME` takes it back. The analyzer's user needs the right to update nodes (Operator).
set -eu

: "${CULPRIT_HOSTS:?is set by culprit-analyzer}" "${CULPRIT_INCIDENT:?is set by culprit-analyzer}"
reason="culprit $CULPRIT_INCIDENT: ${CULPRIT_CAUSE:-unknown}, confidence ${CULPRIT_CONFIDENCE:-?}"

failed=
for host in $CULPRIT_HOSTS; do
  # Slurm knows nodes by the host's short name, unless slurm.conf says otherwise.
  node=${host%%.*}
  state=$(scontrol --oneliner show node "$node" 2>&1) || { echo "$node: $state"; failed=1; continue; }
  case $state in
  *State=*DRAIN*) echo "$node: drained already" ;; # The reason that somebody gave is not written over.
  *)
    if out=$(scontrol update NodeName="$node" State=DRAIN Reason="$reason" 2>&1); then
      echo "$node: draining"
    else
      echo "$node: $out"
      failed=1
    fi
    ;;
  esac
done
[ -z "$failed" ]
