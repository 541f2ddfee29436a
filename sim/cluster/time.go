// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "time"

// Time is virtual time in nanoseconds since the start of the job. Values of Never and above mean "does not happen":
// adding durations to Never keeps it so.
type Time int64

// Never is a time that does not come.
const Never Time = 1 << 61

// At gives the virtual time d after the start.
func At(d time.Duration) Time { return Time(d) }

// Duration gives the time since the start.
func (t Time) Duration() time.Duration { return time.Duration(t) }

// Seconds gives the time since the start in seconds.
func (t Time) Seconds() float64 { return float64(t) / 1e9 }

func seconds(s float64) Time { return Time(s * 1e9) }
