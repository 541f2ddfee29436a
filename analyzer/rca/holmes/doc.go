// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package holmes has Holmes' methods: the iteration monitor (H2), the detector of abnormal operators without training
// (H3), the search through the graph of communication operators (H4) and the ranking of devices across iterations (H5).
// All are pure functions.
package holmes
