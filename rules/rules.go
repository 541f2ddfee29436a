// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules has the rule files of this folder, for programs that evaluate them.
package rules

import _ "embed"

// Triggers is culprit-triggers.yaml.
//
//go:embed culprit-triggers.yaml
var Triggers []byte

// Health is culprit-health.yaml.
//
//go:embed culprit-health.yaml
var Health []byte
