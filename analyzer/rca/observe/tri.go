// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package observe

// Tri is a thing that is not so, may be so, or is so.
type Tri uint8

// Values of a Tri, from the least to the most.
const (
	No Tri = iota
	Maybe
	Yes
)
