// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package alertmanager has the example configuration of this folder, for programs that behave as it says.
package alertmanager

import _ "embed"

// Config is alertmanager.yml.
//
//go:embed alertmanager.yml
var Config []byte
