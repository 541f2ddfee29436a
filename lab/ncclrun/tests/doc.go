// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package tests holds what ncclrun promises to its users, on real NCCL libraries.
//
//	go test ./ncclrun/tests                                          on the oldest and the newest release
//	go test ./ncclrun/tests -versions 2.27.7,2.30.7 -run 'TestHangs'     on others
//
// Libraries are those in .cache/nccl, which `go run ./tools/ci run nccl` fills; a library that is missing fails the tests.
package tests
