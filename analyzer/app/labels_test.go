// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"
	"testing"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Labels of triggers and of the job's processes are on the page, so that a namespace's own routes find it.
func TestCopiedLabels(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessGone)
	c.labels = func(rank int) map[string]string {
		own := map[string]string{"exported_namespace": "ml", "namespace": "monitoring", "team": "vision", "pod": "trainer-0", "rack": "r1"}
		if rank == 0 {
			own["team"] = "speech" // Not all agree.
		}
		return own
	}
	cfg := quick(c, am)
	cfg.Notify.CopyLabels = []string{"cluster", "namespace", "team", "slurm_account", "job_id"}
	a := start(t, cfg, "")
	a.push(0, trouble("CulpritJobStalled", "cluster", "north"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	page := maps.Clone(am.verdicts()[0].Labels)
	for name, want := range map[string]string{"cluster": "north", "namespace": "ml", "team": "", "pod": "", "rack": "", "job_id": jobID} {
		if page[name] != want {
			t.Errorf("label %s is %q, want %q", name, page[name], want)
		}
	}
	if w := a.incidents()[0].Workload; w == nil || *w != (incident.Workload{Scheduler: incident.Kubernetes, Namespace: "ml"}) {
		t.Errorf("the job runs at %+v", w)
	}
	// A label that comes later would make another alert of the page.
	a.push(0, trouble("CulpritProcessVanished", "cluster", "south"))
	eventually(t, "both triggers", func() bool { return len(a.incidents()[0].Triggers) == 2 })
	eventually(t, "another look", func() bool { return a.incidents()[0].Count > 1 })
	if got := am.verdicts(); len(got) != 1 || got[0].Labels["cluster"] != "north" {
		t.Errorf("alerts are %+v", got)
	}
}

// Slurm starts a job whose processes the kernel shows in one of its jobs, whatever the pod of the exporter that watches them.
func TestWorkload(t *testing.T) {
	inSlurm := []evidence.Process{{Owner: "1003", SlurmJob: "7", Pod: "exporter-x", Labels: map[string]string{"namespace": "culprit"}}, {Owner: "1003", SlurmJob: "7"}}
	if w := workload(inSlurm); *w != (incident.Workload{Scheduler: incident.Slurm, SlurmJob: "7", User: "1003"}) {
		t.Errorf("%+v", w)
	}
	if w := workload([]evidence.Process{{Owner: "1003"}, {Owner: "1004"}}); *w != (incident.Workload{}) {
		t.Errorf("%+v", w)
	}
	if workload(nil) != nil {
		t.Error("something is known of no process")
	}
}
