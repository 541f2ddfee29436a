#!/bin/sh
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# cordon-kubernetes.sh: cordons the accused hosts in Kubernetes, for `actions:` of culprit-analyzer. A cordoned node keeps its pods and
# gets no new ones; `kubectl uncordon` takes it back. kubernetes-rbac.yaml grants what it needs.
set -eu

: "${CULPRIT_HOSTS:?is set by culprit-analyzer}" "${CULPRIT_INCIDENT:?is set by culprit-analyzer}"

failed=
for host in $CULPRIT_HOSTS; do
  node=$(printf %s "$host" | tr '[:upper:]' '[:lower:]')
  if out=$(kubectl annotate node "$node" --overwrite "culprit-project.github.io/incident=$CULPRIT_INCIDENT" "culprit-project.github.io/cause=${CULPRIT_CAUSE:-unknown}" 2>&1 &&
    kubectl cordon "$node" 2>&1); then
    echo "$node: cordoned"
  else
    echo "$node: $out"
    failed=1
  fi
done
[ -z "$failed" ]
