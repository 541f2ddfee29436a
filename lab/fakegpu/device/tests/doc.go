// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package tests runs operations of the real NCCL on played GPUs, over versions, algorithms, protocols, types, reductions, sizes,
// ranks and hosts, and compares their results.
//
//	go test ./fakegpu/device/tests                                   the short list on the oldest and the newest library
//	go test ./fakegpu/device/tests -v -full -versions all -timeout 2h     everything
//	go test ./fakegpu/device/tests -v -full -versions 2.27.7 -run 'TestTable/.*/tree'
//
// Libraries are those in .cache/nccl.
package tests
