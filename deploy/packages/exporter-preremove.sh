#!/bin/sh
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# $1 is "remove" or "upgrade" (deb), or how many versions stay installed (rpm). Trace files stay: jobs write to them.
set -e

if [ "$1" = remove ] || [ "$1" = 0 ]; then
  if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    systemctl disable --now culprit-exporter.service
  fi
fi
