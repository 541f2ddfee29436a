// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// What the engine is told besides the files does not depend on the source; what a frozen one says of time does.
func TestEngineOptions(t *testing.T) {
	opt := Options{Topology: &topology.Topology{}}
	live, frozen := opt.engine(false), opt.engine(true)
	if live.Topology != opt.Topology || frozen.Topology != opt.Topology {
		t.Error("the engine does not get the model or the topology")
	}
	if live.HangAfter != 0 || live.FirstOps != 0 || frozen.HangAfter != 1 || frozen.FirstOps >= 0 {
		t.Errorf("live %+v, frozen %+v: what is pending in a frozen source is stuck, in its first step too", live, frozen)
	}
}
