// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"github.com/culprit-project/culprit/trace"
)

// Bounds of the series of calls that make or end a communicator. Shorter ones are usual and not exported; one that came back
// is, for as long as the others of it should have come back, too.
const (
	oldCall       = 5 * time.Second
	returnedFor   = 5 * time.Minute
	mostOpen      = 4 // A process.
	mostReturned  = 4
	unknownCallID = "" // NCCL tells of no identity that the callers share.
)

var (
	callOpenDesc = ncclDesc("call_open_seconds",
		"How long the process has been inside a call that makes or ends a communicator; absent below five seconds.", "call", "call_id")
	callRanksDesc = ncclDesc("call_ranks",
		"How many ranks must make the call that the process is inside; absent where that is not known.", "call_id")
	callReturnedDesc = ncclDesc("call_returned_seconds",
		"How long ago the process returned from a call that makes a communicator; absent after five minutes.", "call_id")
)

// calls emits the calls of NCCL's API that the process is in, oldest first, and those that it has come back from lately. They
// are known where the preload hooks are.
func (r *rankMetrics) calls() {
	if r.p.Dead() {
		return
	}
	list := r.p.Calls()
	shown := map[trace.CommID]bool{}
	for i := range list {
		c := &list[i]
		age := trace.Since(r.now, c.SinceNS)
		if c.ReturnedNS != 0 || age < oldCall || shown[c.ID] || len(shown) == mostOpen {
			continue
		}
		shown[c.ID] = true
		r.gauge(callOpenDesc, age.Seconds(), c.Name, callID(c.ID))
		if c.Size > 0 {
			r.gauge(callRanksDesc, float64(c.Size), callID(c.ID))
		}
	}
	for i := len(list) - 1; i >= 0 && len(list)-i <= mostReturned; i-- {
		c := &list[i]
		if c.ReturnedNS == 0 {
			return
		}
		if ago := trace.Since(r.now, c.ReturnedNS); ago < returnedFor && !shown[c.ID] {
			shown[c.ID] = true
			r.gauge(callReturnedDesc, ago.Seconds(), callID(c.ID))
		}
	}
}

func callID(id trace.CommID) string {
	if id == 0 {
		return unknownCallID
	}
	return id.String()
}
