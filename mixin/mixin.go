// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package mixin holds the jsonnet sources, for programs that render rules themselves.
package mixin

import "embed"

// Source is this folder: lib/rules.jsonnet renders the rules, one file a key.
//
//go:embed *.libsonnet alerts dashboards lib rules
var Source embed.FS
