// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"testing"
	"time"
)

func TestStretch(t *testing.T) {
	if f := Factor(); f < 1 || f != Factor() {
		t.Errorf("factor %g, then %g; want one figure of at least 1", f, Factor())
	}
	if got := Stretch(time.Second); got < time.Second {
		t.Errorf("a limit of 1 s became %s", got)
	}
	t.Logf("this machine is %.1f times slower than the reference", Factor())
}
