// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package live lets simulated nodes be asked as real ones are: it serves their metrics and their node API over HTTP, all
// from one process, for a real Prometheus and a real analyzer. The metrics are made by the exporter's own collector.
package live
