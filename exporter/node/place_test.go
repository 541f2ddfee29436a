// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culprit-project/culprit/exporter/kubelet"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// pods are those that a kubelet knows, by UID.
type pods map[string]kubelet.Pod

func (p pods) Pod(uid string) (kubelet.Pod, bool) {
	pod, ok := p[uid]
	return pod, ok
}

const (
	podUID      = "0a1b2c3d-1111-2222-3333-444455556666"
	theirUID    = "99999999-1111-2222-3333-444455556666"
	containerID = "f00dfacef00dfacef00dfacef00dfacef00dfacef00dfacef00dfacef00dface"
	podCgroup   = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-" +
		containerID + ".scope\n"
)

// TestPlace has claims of a process about its pod confirmed, completed and contradicted by its cgroup and by the kubelet. What none of them
// says is not told.
func TestPlace(t *testing.T) {
	const static = "0123456789abcdef0123456789abcdef"
	knows := pods{
		podUID:   {Namespace: "train", Name: "llm-1", Containers: []string{"main"}},
		static:   {Namespace: "kube-system", Name: "own", Containers: []string{"a", "b"}},
		theirUID: {Namespace: "train", Name: "innocent", Containers: []string{"main"}},
	}
	for _, tt := range []struct {
		name    string
		claim   [4]string // UID, namespace, name, container.
		cgroup  string
		pods    node.Pods
		want    [3]string // Namespace, name, container.
		refuted []string
		lost    bool // The kernel knows no such process.
	}{
		{name: "nothing"},
		{name: "only claims", claim: [4]string{"", "train", "llm-1", "main"}},
		{name: "claims outside of pods", claim: [4]string{theirUID, "train", "innocent", "main"}, pods: knows, cgroup: "0::/user.slice/user-7.slice\n"},
		{name: "a container without Kubernetes", cgroup: "0::/docker/" + containerID + "\n", want: [3]string{"", "", containerID}},
		{name: "claims that nobody confirms", claim: [4]string{podUID, "train", "innocent", ""}, cgroup: podCgroup, want: [3]string{"", "", containerID}},
		{name: "a pod that the kubelet does not know", claim: [4]string{"", "train", "innocent", ""}, cgroup: podCgroup, pods: pods{}, want: [3]string{"", "", containerID}},
		{
			name: "another pod's names", claim: [4]string{"", "train", "innocent", "main"}, cgroup: podCgroup, pods: knows,
			want: [3]string{"train", "llm-1", "main"}, refuted: []string{"pod_name"},
		},
		{
			name: "another pod's names and UID", claim: [4]string{theirUID, "train", "innocent", "main"}, cgroup: podCgroup, pods: knows,
			want: [3]string{"train", "llm-1", "main"}, refuted: []string{"pod_uid", "pod_name"},
		},
		{
			name: "another namespace and container", claim: [4]string{podUID, "web", "llm-1", "sidecar"}, cgroup: podCgroup, pods: knows,
			want: [3]string{"train", "llm-1", "main"}, refuted: []string{"pod_namespace", "container_name"},
		},
		{name: "no claims", cgroup: podCgroup, pods: knows, want: [3]string{"train", "llm-1", "main"}},
		{name: "true claims", claim: [4]string{podUID, "train", "llm-1", "main"}, cgroup: podCgroup, pods: knows, want: [3]string{"train", "llm-1", "main"}},
		{name: "one of two containers", claim: [4]string{podUID, "", "", "b"}, cgroup: "0::/kubepods/burstable/pod" + static + "/" + containerID + "\n", pods: knows, want: [3]string{"kube-system", "own", "b"}},
		{
			name: "none of two containers", claim: [4]string{"", "", "", "c"}, cgroup: "0::/kubepods/burstable/pod" + static + "/" + containerID + "\n", pods: knows,
			want: [3]string{"kube-system", "own", containerID}, refuted: []string{"container_name"},
		},
		{
			name: "a pod's own cgroup named after another's", claim: [4]string{theirUID, "train", "innocent", "main"}, pods: knows,
			cgroup: "0::/kubepods/burstable/pod" + podUID + "/" + containerID + "/kubepods/pod" + theirUID + "/x\n",
			want:   [3]string{"train", "llm-1", "main"}, refuted: []string{"pod_uid", "pod_name"},
		},
		{name: "a process that nobody has seen", claim: [4]string{theirUID, "train", "innocent", "main"}, pods: knows, lost: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(o *node.Options) { o.Pods = tt.pods })
			if !tt.lost {
				r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, Cgroup: tt.cgroup})
			}
			id := identity(0)
			id.PodUID, id.PodNamespace, id.PodName, id.ContainerName = tt.claim[0], tt.claim[1], tt.claim[2], tt.claim[3]
			id.CreatedNS = r.clock - 1e9
			r.file("a.trace", id)
			r.after(0)
			p := r.only()
			want := nodeapi.Process{Namespace: tt.want[0], Pod: tt.want[1], Container: tt.want[2], Refuted: tt.refuted}
			got := nodeapi.Process{Namespace: p.Namespace, Pod: p.Pod, Container: p.Container, Refuted: p.Refuted}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(nodeapi.Process{}.Snapshot)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Which job it is: what the process says, with Slurm's job as the cgroup shows it.
func TestJobIDs(t *testing.T) {
	const group = "0::/system.slice/slurmstepd.scope/job_17/step_2/user/task_3\n"
	for _, tt := range []struct{ job, slurm, cgroup, want string }{
		{"llm", "", "0::/\n", "llm"},
		{"llm", "17", group, "llm"},
		{"", "", group, "17"},
		{"17", "17", group, "17"},
		{"17.2", "17", group, "17.2"},
		{"17.2", "17", "0::/\n", "17.2"},
		{"99", "99", group, "17"},
		{"99.2", "99", group, "17.2"},
		{"18", "", group, "17"},
		{"18.2", "", group, "17.2"},
		{"18", "17", group, "17"},
		{"18", "", "0::/\n", "18"},
		{"12.server", "", group, "12.server"},
		{"llm-18", "", group, "llm-18"},
		{"<!channel>", "", "0::/\n", "\u2039!channel>"},
	} {
		t.Run(tt.job+" "+tt.slurm, func(t *testing.T) {
			r := newRig(t, nil)
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, Cgroup: tt.cgroup})
			id := identity(0)
			id.JobID, id.SlurmJobID = tt.job, tt.slurm
			r.file("a.trace", id)
			r.after(0)
			if p := r.only(); p.JobID != tt.want {
				t.Errorf("job is %q, want %q", p.JobID, tt.want)
			}
		})
	}
}

func TestSlurmClaims(t *testing.T) {
	const group = "0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_3\n"
	for _, tt := range []struct {
		name, claim, cgroup, want string
		refuted                   []string
	}{
		{"claimed", "17", "0::/\n", "", nil},
		{"shown", "", group, "17", nil},
		{"both", "17", group, "17", nil},
		{"another's", "18", group, "17", []string{"slurm_job_id"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, Cgroup: tt.cgroup})
			id := identity(0)
			id.SlurmJobID = tt.claim
			r.file("a.trace", id)
			r.after(0)
			r.sampler.All(func(_ uint64, list []*node.Process) {
				if p := list[0]; p.Place.SlurmJob != tt.want || !cmp.Equal(p.Place.Refuted, tt.refuted) {
					t.Errorf("%+v", p.Place)
				}
			})
			if p := r.only(); !cmp.Equal(p.Refuted, tt.refuted) {
				t.Errorf("refuted %q", p.Refuted)
			}
		})
	}
}
