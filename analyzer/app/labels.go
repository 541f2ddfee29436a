// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/incident"
)

// copied gives the labels of a job that its alerts are to carry, so that routes by namespace, team or cluster find them: from its
// triggers, and else from its processes.
func (a *App) copied(req *incident.Request, processes []evidence.Process) map[string]string {
	s := a.current.Load()
	out := map[string]string{}
	for _, name := range s.config.Notify.CopyLabels {
		value := common(req.Triggers, func(t *incident.Trigger) string { return t.Labels[name] })
		if value == "" {
			value = common(processes, func(p *evidence.Process) string { return processLabel(p.Labels, name) })
		}
		if value != "" {
			out[name] = value
		}
	}
	return out
}

// workload gives where a job runs and for whom, nil where no process is known. What only some of its processes have is the job's all the
// same; what differs between them is left out.
func workload(processes []evidence.Process) *incident.Workload {
	if len(processes) == 0 {
		return nil
	}
	w := &incident.Workload{
		SlurmJob:  common(processes, func(p *evidence.Process) string { return p.SlurmJob }),
		Namespace: common(processes, func(p *evidence.Process) string { return processLabel(p.Labels, "namespace") }),
		User:      common(processes, func(p *evidence.Process) string { return p.Owner }),
	}
	switch pods := slices.ContainsFunc(processes, func(p evidence.Process) bool { return p.Pod != "" }); {
	case w.SlurmJob != "":
		w.Scheduler = incident.Slurm
	case pods:
		w.Scheduler = incident.Kubernetes
	}
	if w.Scheduler != incident.Kubernetes {
		w.Namespace = "" // That of the exporter's own pod, if any.
	}
	return w
}

// processLabel gives a label that the exporter gave a process. Where the scrape has one of the same name for the exporter itself, such as
// its namespace, Prometheus renames the process's.
func processLabel(labels map[string]string, name string) string {
	if v, renamed := labels["exported_"+name]; renamed {
		return v
	}
	return labels[name]
}

// common gives the value that all have which have any; empty: there is none, or there are several.
func common[T any](list []T, value func(*T) string) string {
	found := ""
	for i := range list {
		switch v := value(&list[i]); {
		case v == "" || v == found:
		case found == "":
			found = v
		default:
			return ""
		}
	}
	return found
}
