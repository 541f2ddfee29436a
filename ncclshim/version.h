// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef CULPRIT_SHIM_VERSION_H
#define CULPRIT_SHIM_VERSION_H

// What this library is, as people read it. It lies in the section .culprit.version, in which the exporter's doctor finds it in the
// libraries that running jobs have mapped, and readelf --string-dump=.culprit.version in a file.
extern const char culprit_shim_version[];

#endif
