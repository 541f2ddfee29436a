// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strings"

	"github.com/culprit-project/culprit/exporter/kubelet"
)

// Pods tells pods by their UIDs: a kubelet.Pods.
type Pods interface {
	// Pod is false when none of the node is known to have the UID.
	Pod(uid string) (kubelet.Pod, bool)
}

// Place is where a process runs. Fields that cannot be told are empty.
type Place struct {
	Pod, Namespace string
	Container      string // Name of the container, else the runtime's id.
	SlurmJob       string // As the kernel shows it, by the cgroup that Slurm makes.
	SlurmStep      string
	// Refuted lists the claims that the kernel or the kubelet contradicts, by their names in trace.Identity.
	Refuted []string
}

// locate resolves where the process runs. Its environment is its own claim. The cgroup, which the kernel shows, names the pod's UID, the
// container's id and the Slurm job, and the kubelet tells the names of the pod with that UID. A pod is named on their word alone.
func (p *Process) locate(pods Pods) {
	id, kernel := &p.Snap.Identity, &p.Kernel
	at := Place{SlurmJob: p.watch.cgroup.SlurmJob, SlurmStep: p.watch.cgroup.SlurmStep}
	at.refute("slurm_job_id", id.SlurmJobID, at.SlurmJob)
	at.refute("slurm_step_id", id.SlurmStepID, at.SlurmStep)
	// The cgroup of a pod without dashes is one that the kubelet runs by itself: its name is no UID.
	if id.PodUID != "" && strings.Contains(kernel.PodUID, "-") && !strings.EqualFold(id.PodUID, kernel.PodUID) {
		at.Refuted = append(at.Refuted, "pod_uid")
	}
	if pods != nil && kernel.Verified && kernel.PodUID != "" {
		if pod, ok := pods.Pod(kernel.PodUID); ok {
			at.Pod, at.Namespace, at.Container = id.PodName, id.PodNamespace, id.ContainerName
			at.believe("pod_name", &at.Pod, pod.Name)
			at.believe("pod_namespace", &at.Namespace, pod.Namespace)
			switch {
			case len(pod.Containers) == 1:
				at.believe("container_name", &at.Container, pod.Containers[0])
			case !slices.Contains(pod.Containers, at.Container):
				if at.Container != "" {
					at.Refuted = append(at.Refuted, "container_name")
				}
				at.Container = ""
			}
		}
	}
	if at.Container == "" {
		at.Container = kernel.ContainerID
	}
	p.Place = at
}

// believe replaces a claim by what is known, and notes a contradiction.
func (at *Place) believe(name string, claim *string, known string) {
	if known == "" {
		return
	}
	at.refute(name, *claim, known)
	*claim = known
}

// refute notes that what is known contradicts a claim.
func (at *Place) refute(name, claim, known string) {
	if known != "" && claim != "" && claim != known {
		at.Refuted = append(at.Refuted, name)
	}
}
