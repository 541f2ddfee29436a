// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package offline is `culprit-analyzer analyze`: verdicts from files alone (X5, M12), with no server and nothing
// installed beforehand. Readers, one package a source, turn files into the evidence that analyzer/rca takes; this
// package finds out what each file is, combines what they say, and prints the verdict. docs/analyze.md describes it.
package offline
