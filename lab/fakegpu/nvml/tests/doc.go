// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package tests checks the played NVML under go-nvml.
package tests
