// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e judges the whole path on real processes: ringjob under the shim, exporters, Prometheus, Alertmanager and
// the analyzer. It holds tests only; their binaries come from `make build tools`.
package e2e
