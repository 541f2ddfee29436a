// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/optable"
)

// columnRoles names what an op table's columns can be.
var columnRoles = strings.Join(optable.Roles(), ", ")
