// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package nccl knows the NCCL libraries that the tests run: which wheel of the public package index holds each release, and
// how to get the library out of it. Nothing of a wheel is ever part of this repository.
package nccl
