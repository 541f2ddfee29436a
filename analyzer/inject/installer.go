// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package inject

// installerName is the init container's that copies the shim into a volume of the pod.
const installerName = "culprit-shim"

type installer struct {
	Name            string          `json:"name"`
	Image           string          `json:"image"`
	ImagePullPolicy string          `json:"imagePullPolicy"`
	Args            []string        `json:"args"`
	Resources       resources       `json:"resources"`
	SecurityContext securityContext `json:"securityContext"`
	VolumeMounts    []mount         `json:"volumeMounts"`
}

type securityContext struct {
	AllowPrivilegeEscalation bool           `json:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool           `json:"readOnlyRootFilesystem"`
	RunAsNonRoot             bool           `json:"runAsNonRoot,omitempty"`
	Capabilities             capabilities   `json:"capabilities"`
	SeccompProfile           seccompProfile `json:"seccompProfile"`
}

type capabilities struct {
	Drop []string `json:"drop"`
}

type seccompProfile struct {
	Type string `json:"type"`
}

// installer is the init container for a pod. It is within PodSecurity's level restricted. It names no user: OpenShift gives it one, the image
// has one, and where the whole pod runs as root so does it.
func (o *Options) installer(p *pod, trainer *container) installer {
	user := p.Spec.SecurityContext.RunAsUser
	return installer{
		// The node has the image from the exporter.
		Name: installerName, Image: o.Image, ImagePullPolicy: "IfNotPresent",
		Args:      []string{"install-shim", "--to=" + o.ShimDir, "--best-effort"},
		Resources: trainer.Resources.common(),
		SecurityContext: securityContext{
			ReadOnlyRootFilesystem: true, RunAsNonRoot: user == nil || *user != 0,
			Capabilities: capabilities{Drop: []string{"ALL"}}, SeccompProfile: seccompProfile{Type: "RuntimeDefault"},
		},
		VolumeMounts: []mount{{Name: shimVolume, MountPath: o.ShimDir}},
	}
}

// common gives what a container asks for without its devices. Quotas and limit ranges then take the init container as they take the trainer,
// and the pod needs no more with it: init containers run before.
func (r *resources) common() resources {
	keep := func(all map[string]any) map[string]any {
		out := map[string]any{}
		for _, name := range []string{"cpu", "memory", "ephemeral-storage"} {
			switch v := all[name].(type) {
			case float64:
				out[name] = v
			case string:
				if len(v) <= maxLabel {
					out[name] = v
				}
			}
		}
		return out
	}
	return resources{Limits: keep(r.Limits), Requests: keep(r.Requests)}
}
