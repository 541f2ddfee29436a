// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package evidence gathers what the engine needs to know of a job: who belongs to it, from Prometheus; what each
// process does, from the exporters on its nodes. What cannot be had is part of the evidence: as Missing.
package evidence
