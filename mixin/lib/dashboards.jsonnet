// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Renders dashboards/*.json, one file a dashboard.
(import '../mixin.libsonnet').grafanaDashboards
