// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package tests replays the stored recordings through the shim.
package tests
