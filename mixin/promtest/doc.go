// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package promtest checks what mixin/ renders against the rest of the repository: that every expression parses, that
// every metric and label it names is documented in docs/metrics.md, that links resolve and that every alert has its
// runbook and tests. It is a module of its own so that Prometheus stays out of the main module's requirements.
package promtest
