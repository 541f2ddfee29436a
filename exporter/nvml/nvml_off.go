// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || nonvml

package nvml

import "fmt"

// Open fails in builds without NVML.
func Open() (Library, error) {
	return nil, fmt.Errorf("%w: built without it", ErrUnavailable)
}
