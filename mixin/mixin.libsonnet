// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The whole mixin: prometheusAlerts (triggers with the records they need, and health) and grafanaDashboards.
(import 'config.libsonnet') +
(import 'rules/rules.libsonnet') +
(import 'alerts/alerts.libsonnet') +
(import 'dashboards/dashboards.libsonnet') +
(import 'lib/runbooks.libsonnet') +
(import 'lib/trusted.libsonnet') +
(import 'lib/identity.libsonnet')
