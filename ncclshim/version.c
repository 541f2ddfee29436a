// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#include "version.h"

// CULPRIT_VERSION and the others come from the Makefile.
__attribute__((section(".culprit.version"))) const char culprit_shim_version[] =
  "shim version " CULPRIT_VERSION " (revision: " CULPRIT_REVISION ", build date: " CULPRIT_DATE ")";
