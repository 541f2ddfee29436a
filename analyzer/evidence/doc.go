// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package evidence gathers what the engine needs to know of a job: Prometheus tells who belongs to it, and the exporters on its
// hosts tell what each process does. What cannot be obtained is part of the evidence as rca.Missing.
package evidence
