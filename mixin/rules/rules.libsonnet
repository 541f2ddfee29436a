// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

(import 'sources.libsonnet') +
(import 'progress.libsonnet') +
(import 'stall.libsonnet') +
(import 'launch.libsonnet') +
(import 'slow.libsonnet')
