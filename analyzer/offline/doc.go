// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package offline is `culprit-analyzer analyze`: verdicts from files alone (X5, M12), with no server and nothing
// installed beforehand. Readers, one package a source, turn files into the evidence that analyzer/rca takes; load finds
// out what each file is, diagnosis combines what they say, report prints the verdict, and this package is the command
// line. docs/analyze.md describes it.
package offline
