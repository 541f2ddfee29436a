// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package tests runs real NCCL libraries on the played GPU.
package tests
