// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
)

// Reason classes why a trace file could not be read. It is a metric label: the set is closed.
type Reason string

// Reasons.
const (
	ReasonOpen    Reason = "open"    // open(2), fstat(2) or mmap(2) refused.
	ReasonHeader  Reason = "header"  // Too short, wrong magic or version.
	ReasonLayout  Reason = "layout"  // The section table contradicts itself or the file's size.
	ReasonIO      Reason = "io"      // The file shrank while it was read.
	ReasonHostile Reason = "hostile" // Not a regular file: a symbolic link, FIFO, socket, device or directory.
	// ReasonIdentity: the process that the file claims to be of writes another one, as the kernel shows.
	ReasonIdentity Reason = "identity"
	// ReasonOwner: the file lies in a directory of another user.
	ReasonOwner Reason = "owner"
)

// Reasons lists every Reason, for metrics that must exist before the first error.
var Reasons = []Reason{ReasonOpen, ReasonHeader, ReasonLayout, ReasonIO, ReasonHostile, ReasonIdentity, ReasonOwner}

// ErrNotReady is wrapped by an Error of ReasonHeader when the magic is still zero: the writer has made the file and
// not finished it, or died while making it.
var ErrNotReady = errors.New("magic not written yet")

// Error is what Open and the read methods return.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf gives the class of an error of this package, and ReasonIO for any other.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ReasonIO
}

func failf(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Err: fmt.Errorf(format, args...)}
}
