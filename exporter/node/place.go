// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"

	"github.com/culprit-project/culprit/exporter/kubelet"
)

// Pods tells which container holds a GPU: a kubelet.Devices.
type Pods interface {
	// Holder finds a device by any of its names; it is false when nobody is known to hold it.
	Holder(names ...string) (kubelet.Container, bool)
}

// Place is where a process runs. Fields that cannot be told are empty.
type Place struct {
	Pod, Namespace string
	Container      string // Name of the container, else the runtime's id.
	SlurmJob       string
	SlurmStep      string
	// Refuted lists the claims that the kernel or the kubelet contradicts, by their names in trace.Identity.
	Refuted []string
}

// locate resolves where the process runs. Its environment is its own claim. The cgroup, which the kernel shows, names the
// pod's UID, the container's id and the Slurm job, and the kubelet says which container was given the GPU: each may contradict.
func (p *Process) locate(pods Pods) {
	id, kernel := &p.Snap.Identity, &p.Kernel
	at := Place{
		Pod: id.PodName, Namespace: id.PodNamespace, Container: id.ContainerName, SlurmJob: id.SlurmJobID, SlurmStep: id.SlurmStepID,
	}
	// The cgroup of a pod without dashes is one that the kubelet runs by itself: its name is no UID.
	if id.PodUID != "" && strings.Contains(kernel.PodUID, "-") && !strings.EqualFold(id.PodUID, kernel.PodUID) {
		at.Pod, at.Namespace, at.Container = "", "", ""
		at.Refuted = append(at.Refuted, "pod_uid", "pod_name", "pod_namespace", "container_name")
	}
	at.believe("slurm_job_id", &at.SlurmJob, p.watch.cgroup.SlurmJob)
	at.believe("slurm_step_id", &at.SlurmStep, p.watch.cgroup.SlurmStep)
	if pods != nil && kernel.Verified {
		if holder, ok := pods.Holder(id.GPUUUID, NormalPCI(id.GPUPCIBusID)); ok {
			at.believe("pod_name", &at.Pod, holder.Pod)
			at.believe("pod_namespace", &at.Namespace, holder.Namespace)
			at.believe("container_name", &at.Container, holder.Name)
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
	if *claim != "" && *claim != known {
		at.Refuted = append(at.Refuted, name)
	}
	*claim = known
}
