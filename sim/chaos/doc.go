// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package chaos disturbs a whole cluster at random while faults happen in real jobs, and counts what was lost, told twice or told of an
// innocent (`make chaos`).
package chaos
