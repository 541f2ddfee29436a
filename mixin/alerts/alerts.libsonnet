// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

(import 'hang.libsonnet') +
(import 'slow.libsonnet') +
(import 'bandwidth.libsonnet') +
(import 'queuepairs.libsonnet') +
(import 'health.libsonnet') +
(import 'tickets.libsonnet')
