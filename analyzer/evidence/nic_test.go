// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// TestM2NICOfARank: a rank's NIC is the device of its queue pairs, where they are all on one.
func TestM2NICOfARank(t *testing.T) {
	for _, c := range []struct {
		name    string
		devices []string
		want    string
	}{
		{"no queue pair is seen", nil, ""},
		{"one device", []string{"mlx5_1", "mlx5_1"}, "mlx5_1"},
		{"a queue pair without a name", []string{"", "mlx5_1"}, "mlx5_1"},
		{"two devices", []string{"mlx5_1", "mlx5_0", "mlx5_1"}, ""},
	} {
		p := nodeapi.Process{Snapshot: trace.Snapshot{}}
		for _, d := range c.devices {
			p.QPs = append(p.QPs, trace.QP{Device: d})
		}
		if r := Rank(&p, 1); r.NIC != c.want {
			t.Errorf("%s: NIC %q, want %q", c.name, r.NIC, c.want)
		}
	}
}
