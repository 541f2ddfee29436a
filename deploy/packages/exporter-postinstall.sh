#!/bin/sh
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# $1 is "configure" (deb), or how many versions are installed now (rpm). DPKG_ROOT is where dpkg --root installs to.
set -e

systemd-sysusers --root="${DPKG_ROOT:-/}" culprit.conf
systemd-tmpfiles --root="${DPKG_ROOT:-/}" --create culprit.conf
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # After an upgrade; one that is not running stays so. `systemctl enable --now culprit-exporter` starts it.
  systemctl try-restart culprit-exporter.service
fi
