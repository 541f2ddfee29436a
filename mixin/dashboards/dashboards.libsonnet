// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

(import 'jobs.libsonnet') +
(import 'communicator.libsonnet') +
(import 'rank.libsonnet') +
(import 'health.libsonnet') +
(import 'node.libsonnet')
