// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"sync"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// gpus is held by the test that has something done by the GPUs of gpuHosts: what they say is evidence in every job there.
var gpus sync.Mutex

// controlGPU asks something of the GPU of a rank on gpuHosts until the end of the test.
func controlGPU(t *testing.T, rank int, lines ...string) {
	t.Helper()
	host, gpu := hosts+rank/(ranks/hosts), rank%(ranks/hosts) // The second group begins behind the first.
	if err := cluster.ControlGPU(host, gpu, lines...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.ControlGPU(host, gpu) })
}

// TestGPUEvidence has GPUs that tell their driver why a job stands still, and GPUs that complain of what does not stop it.
func TestGPUEvidence(t *testing.T) {
	t.Parallel()
	gpus.Lock()
	defer gpus.Unlock()
	for _, tt := range []struct {
		name    string
		fault   string
		rank    int
		ailing  int // Rank of the GPU that the lines are for.
		control []string
		says    []string
	}{
		{
			"fell off the bus", "gpu-freeze", 5, 5,
			[]string{"utilization 100", "xid 79", "lost 1"},
			[]string{"GPU 1 reported Xid 79: GPU has fallen off the bus", "the driver lost GPU 1"},
		},
		{
			"driver hangs", "gpu-freeze", 2, 2,
			[]string{"utilization 100", "xid 119", "nvml.hang 1"},
			[]string{"GPU 0 reported Xid 119: GSP firmware does not answer", "the driver has not answered for GPU 0"},
		},
		{
			"row that cannot be remapped", "gpu-freeze", 6, 6,
			[]string{"utilization 100", "xid 64", "ecc.uncorrected 1", "rows.failed 1"},
			[]string{"GPU 0 reported Xid 64: memory row remapping failed", "row_remap_failed"},
		},
		{"another GPU complains", "link-stall", 1, 4, []string{"utilization 100", "xid 63", "ecc.uncorrected 1"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := startJob(t, stack.JobConfig{
				ID: "gpu-" + strings.ReplaceAll(tt.name, " ", "-"), Group: gpuHosts, Fault: tt.fault, Rank: tt.rank, FaultAtStep: -1,
			})
			j.train(t, healthySteps)
			controlGPU(t, tt.ailing, tt.control...)
			j.inject(t)
			page := j.page(t)
			fault, ok := stack.FindFault(tt.fault)
			if !ok {
				t.Fatalf("no fault %s", tt.fault)
			}
			checkPage(t, page, fault, j, tt.rank)
			told := func(v *rca.Verdict) bool {
				evidence := strings.Join(v.Evidence, "\n")
				for _, text := range tt.says {
					if !strings.Contains(evidence, text) {
						return false
					}
				}
				return fault.Named(v, tt.rank)
			}
			j.incident(t, told)
			for _, text := range tt.says {
				if !strings.Contains(page.Annotations["description"], text) {
					t.Errorf("the page does not say %q:\n%s", text, page.Annotations["description"])
				}
			}
		})
	}
}
