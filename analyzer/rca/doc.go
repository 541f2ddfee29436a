// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rca finds the culprit: pure functions from Evidence to a Verdict, without network, clock or files. The
// structure is the wait-for graph (docs/rca.md); the methods of Mycroft, CCL-D, Pulse and Holmes vote beside it.
package rca
