// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// pod is what is read of a pod. The API's own types would make the analyzer three times as large.
type pod struct {
	Metadata struct {
		Name         string            `json:"name"`
		GenerateName string            `json:"generateName"`
		Labels       map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		InitContainers  []mounting  `json:"initContainers"`
		Containers      []container `json:"containers"`
		Volumes         []volume    `json:"volumes"`
		Debuggers       []mounting  `json:"ephemeralContainers"`
		SecurityContext struct {
			RunAsUser *int64 `json:"runAsUser"`
		} `json:"securityContext"`
	} `json:"spec"`
}

// mounting is what is read of containers that are never changed.
type mounting struct {
	Name         string  `json:"name"`
	VolumeMounts []mount `json:"volumeMounts"`
}

type named struct {
	Name string `json:"name"`
}

type container struct {
	Name         string    `json:"name"`
	Env          []envVar  `json:"env"`
	VolumeMounts []mount   `json:"volumeMounts"`
	Resources    resources `json:"resources"`
}

type resources struct {
	Limits   map[string]any `json:"limits,omitempty"`
	Requests map[string]any `json:"requests,omitempty"`
	Claims   []named        `json:"claims,omitempty"` // Devices by dynamic resource allocation.
}

type envVar struct {
	Name      string      `json:"name"`
	Value     string      `json:"value,omitempty"`
	ValueFrom *fieldValue `json:"valueFrom,omitempty"`
}

type fieldValue struct {
	FieldRef *fieldRef `json:"fieldRef,omitempty"`
}

type fieldRef struct {
	FieldPath string `json:"fieldPath"`
}

type mount struct {
	Name        string `json:"name"`
	MountPath   string `json:"mountPath"`
	SubPathExpr string `json:"subPathExpr,omitempty"`
	ReadOnly    bool   `json:"readOnly,omitempty"`
}

type volume struct {
	Name     string    `json:"name"`
	HostPath *hostPath `json:"hostPath,omitempty"`
	EmptyDir *emptyDir `json:"emptyDir,omitempty"`
}

type emptyDir struct {
	Medium string `json:"medium,omitempty"`
}

type hostPath struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const (
	plugin = "libnccl-profiler-culprit.so"
	// label on a pod: "disabled" keeps it as it is.
	label = "culprit-inject"

	traceVolume = "culprit-traces"
	shimVolume  = "culprit-shim"

	// podUID is the variable that the pod's folder of trace files is chosen by. It is never the pod's own: whoever wrote the pod could
	// have another pod's folder mounted.
	podUID = "CULPRIT_POD_UID"

	// maxTrainers bounds the containers that are changed, and maxValue what is taken over from each: every one is answered with a kilobyte
	// and the values. Kubernetes' own labels have 63 characters.
	maxTrainers = 64
	maxValue    = 8 << 10
	maxLabel    = 63
)

// errTooLarge is why a review is not looked into.
var errTooLarge = errors.New("it is larger than any pod that is traced")

// jobLabels are those that operators give the pods of a job, with the job's name. What wraps others comes first. The labels of KubeRay and
// LeaderWorkerSet name what holds many jobs; the shim tells these apart by the variables of both.
var jobLabels = []string{
	"jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name", "volcano.sh/job-name", "batch.kubernetes.io/job-name", "job-name",
}

// patch gives what makes a pod load the shim, and why a container was left alone. Nothing that the pod sets itself is lost. With own the
// pod gets volumes of its own in place of the node's folders.
func (o *Options) patch(p *pod, own bool) (operations []operation, warnings []string, err error) {
	if p.Metadata.Labels[label] == "disabled" {
		return nil, nil, nil
	}
	if slices.ContainsFunc(p.Spec.Volumes, func(v volume) bool { return ours(v.Name) }) {
		return nil, nil, nil // Done already: webhooks may be asked twice.
	}
	if p.mountsOurs() {
		return nil, []string{"culprit: the pod is not traced: it mounts " + traceVolume + " or " + shimVolume + ", which it does not have"}, nil
	}
	if own && p.has(installerName) {
		return nil, []string{"culprit: the pod is not traced: it has a container " + installerName + " of its own"}, nil
	}
	trainers := 0
	var first *container // That is changed.
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if !c.hasGPU() {
			continue
		}
		if trainers++; trainers > maxTrainers {
			return nil, nil, errTooLarge
		}
		if why := o.hinders(c); why != "" {
			warnings = append(warnings, fmt.Sprintf("culprit: container %.63s is not traced: %s", c.Name, why))
			continue
		}
		if first == nil {
			first = c
		}
		operations = append(operations, o.patchContainer(p, c, fmt.Sprintf("/spec/containers/%d", i), own)...)
	}
	if len(operations) == 0 {
		return nil, warnings, nil
	}
	noVolumes := len(p.Spec.Volumes) == 0
	if !own {
		// The kubelet makes folders that are missing. A pod on a node without the shim then starts as well, and is not traced.
		return append(operations, appended("/spec/volumes", noVolumes,
			volume{Name: traceVolume, HostPath: &hostPath{o.TraceDir, "DirectoryOrCreate"}},
			volume{Name: shimVolume, HostPath: &hostPath{o.ShimDir, "DirectoryOrCreate"}})...), warnings, nil
	}
	operations = append(operations, appended("/spec/initContainers", len(p.Spec.InitContainers) == 0, o.installer(p, first))...)
	return append(operations, appended("/spec/volumes", noVolumes,
		volume{Name: traceVolume, EmptyDir: &emptyDir{Medium: "Memory"}}, volume{Name: shimVolume, EmptyDir: &emptyDir{}})...), warnings, nil
}

func ours(volume string) bool { return volume == traceVolume || volume == shimVolume }

// mountsOurs tells whether the pod mounts a volume of ours itself. Were that added, the pod would get the folder of all pods' trace files, or
// could write where all jobs load the shim from.
func (p *pod) mountsOurs() bool {
	mounts := func(list []mount) bool { return slices.ContainsFunc(list, func(m mount) bool { return ours(m.Name) }) }
	return slices.ContainsFunc(p.Spec.InitContainers, func(c mounting) bool { return mounts(c.VolumeMounts) }) ||
		slices.ContainsFunc(p.Spec.Containers, func(c container) bool { return mounts(c.VolumeMounts) })
}

// debugging is the part of a pod by which containers are added to it while it runs.
const debugging = "ephemeralcontainers"

// debugs says why no container may be added to a pod; empty: nothing is against it. An ephemeral container may mount any volume of the pod, and
// whole: the trace files of all pods of the node, or, to write to it, the folder from which all jobs load the shim.
func (p *pod) debugs() string {
	for _, c := range p.Spec.Debuggers {
		for _, m := range c.VolumeMounts {
			if slices.ContainsFunc(p.Spec.Volumes, func(v volume) bool { return v.Name == m.Name && ours(v.Name) && v.HostPath != nil }) {
				return fmt.Sprintf("container %.63s mounts %s, a folder of the node that all pods share", c.Name, m.Name)
			}
		}
	}
	return ""
}

func (p *pod) has(container string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c mounting) bool { return c.Name == container })
}

// hasGPU is true for containers that ask for a GPU of whatever maker, or a part of one. A claim does not tell here which device it is for; a
// container that claims another one loads nothing, since only NCCL loads the shim.
func (c *container) hasGPU() bool {
	if len(c.Resources.Claims) > 0 {
		return true
	}
	for name := range c.Resources.Limits {
		if strings.HasSuffix(name, "/gpu") || strings.Contains(name, "/mig-") {
			return true
		}
	}
	return false
}

// hinders says why a container is better left alone; empty: nothing does.
func (o *Options) hinders(c *container) string {
	if len(c.Name) > maxLabel {
		return "its name is too long"
	}
	for _, e := range c.Env {
		switch {
		case (e.Name == "NCCL_PROFILER_PLUGIN" || e.Name == "LD_LIBRARY_PATH") && len(e.Value) > maxValue:
			return e.Name + " is too long"
		case (e.Name == "NCCL_PROFILER_PLUGIN" || e.Name == "LD_LIBRARY_PATH") && e.ValueFrom != nil:
			return e.Name + " comes from elsewhere and cannot be added to"
		case e.Name == "NCCL_PROFILER_PLUGIN" && e.Value == "STATIC_PLUGIN":
			return "a profiler plugin is linked in"
		case e.Name == "CULPRIT_DISABLE" && e.Value == "1":
			return "CULPRIT_DISABLE is 1"
		}
	}
	for _, m := range c.VolumeMounts {
		if at := path.Clean(m.MountPath); at == path.Clean(o.TraceDir) || at == path.Clean(o.ShimDir) {
			return "something is mounted at " + at
		}
	}
	return ""
}

func (o *Options) patchContainer(p *pod, c *container, at string, own bool) []operation {
	var operations []operation
	var add []any
	find := func(name string) int { return slices.IndexFunc(c.Env, func(e envVar) bool { return e.Name == name }) }
	set := func(e envVar) {
		if find(e.Name) < 0 {
			add = append(add, e)
		}
	}
	replace := func(i int, value string) {
		operations = append(operations, operation{"replace", fmt.Sprintf("%s/env/%d/value", at, i), value})
	}
	// The bare name works with every NCCL, but needs LD_LIBRARY_PATH. Where the pod does not set that, its image may, and a value of
	// ours would hide it: then the path is named, which NCCL 2.27.3 alone refuses.
	name := path.Join(o.ShimDir, plugin)
	if i := find("LD_LIBRARY_PATH"); i >= 0 {
		name = plugin
		replace(i, strings.TrimSuffix(o.ShimDir+":"+c.Env[i].Value, ":"))
	}
	if i := find("NCCL_PROFILER_PLUGIN"); i < 0 {
		set(envVar{Name: "NCCL_PROFILER_PLUGIN", Value: name})
	} else if other := c.Env[i].Value; path.Base(other) != plugin {
		replace(i, name)
		if !strings.Contains(other, ".so") && !strings.Contains(other, "/") {
			other = "libnccl-profiler-" + other + ".so" // NCCL completes a short name; the shim wants the file's.
		}
		set(envVar{Name: "CULPRIT_CHAIN", Value: other})
	}
	// A folder for each pod: most run as root, and would share one otherwise.
	dir, traces := o.TraceDir, mount{Name: traceVolume, MountPath: o.TraceDir, SubPathExpr: "$(" + podUID + ")"}
	if own {
		// The shim refuses the volume itself, which all may write to and which is not sticky. It makes this folder, one for each container's user.
		dir, traces.SubPathExpr = path.Join(o.TraceDir, c.Name), ""
	}
	set(envVar{Name: "CULPRIT_DIR", Value: dir})
	uid := envVar{Name: podUID, ValueFrom: &fieldValue{&fieldRef{"metadata.uid"}}}
	for i, e := range c.Env {
		if e.Name == podUID {
			operations = append(operations, operation{"replace", fmt.Sprintf("%s/env/%d", at, i), uid})
		}
	}
	set(uid)
	for name, field := range map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"} {
		set(envVar{Name: name, ValueFrom: &fieldValue{&fieldRef{field}}})
	}
	set(envVar{Name: "CONTAINER_NAME", Value: c.Name})
	for _, l := range jobLabels {
		if job := p.Metadata.Labels[l]; job != "" && len(job) <= maxLabel {
			set(envVar{Name: "JOB_NAME", Value: job})
			break
		}
	}
	slices.SortStableFunc(add, func(a, b any) int { return strings.Compare(a.(envVar).Name, b.(envVar).Name) })
	operations = append(operations, appended(at+"/env", len(c.Env) == 0, add...)...)
	return append(operations, appended(at+"/volumeMounts", len(c.VolumeMounts) == 0,
		traces,
		mount{Name: shimVolume, MountPath: o.ShimDir, ReadOnly: true})...)
}

// appended adds values to a list, which is made where there is none.
func appended(list string, missing bool, values ...any) []operation {
	if missing {
		return []operation{{"add", list, values}}
	}
	var operations []operation
	for _, v := range values {
		operations = append(operations, operation{"add", list + "/-", v})
	}
	return operations
}
