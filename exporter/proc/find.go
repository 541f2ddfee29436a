// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Claim is how a process describes itself: its number in its own PID namespace, that namespace's inode (0 unknown)
// and its start time in clock ticks after boot.
type Claim struct {
	PID        int
	Namespace  uint64
	StartTicks uint64
}

// ErrGone means that the claimed process does not exist any more.
var ErrGone = errors.New("no such process")

// ErrUnseen means that the claimed process cannot be seen from this procfs, whether it lives or not.
var ErrUnseen = errors.New("process is in a PID namespace that cannot be seen from here")

// Find gives the number by which this procfs knows the claimed process. The process found has the claimed start time.
func (fs *FS) Find(c Claim) (int, error) {
	if c.PID <= 0 {
		return 0, ErrUnseen
	}
	if c.Namespace == 0 || c.Namespace == fs.namespace {
		st, err := fs.statOnce(c.PID)
		switch {
		case err == nil && st.StartTicks == c.StartTicks:
			return c.PID, nil
		case c.Namespace == 0:
			return 0, ErrUnseen
		case err == nil || errors.Is(err, os.ErrNotExist):
			return 0, ErrGone
		}
		return 0, err
	}
	dir, err := os.Open(fs.root)
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || !fs.isInner(name+"/status", c.PID) {
			continue
		}
		// The namespace link needs a debugger's rights; without them the start time has to do.
		if ns, err := fs.namespaceOf(name); err == nil && ns != c.Namespace {
			continue
		}
		if st, err := fs.statOnce(pid); err == nil && st.StartTicks == c.StartTicks {
			return pid, nil
		}
	}
	if fs.SeesAll() {
		return 0, ErrGone
	}
	return 0, ErrUnseen
}

// isInner tells whether a task has the number inner in its own namespace, by its status file.
func (fs *FS) isInner(file string, inner int) bool {
	b, err := fs.read(file)
	if err != nil {
		return false
	}
	ids := innerIDs(b)
	if len(ids) == 0 {
		return false
	}
	n, err := strconv.Atoi(string(ids[len(ids)-1]))
	return err == nil && n == inner
}

// innerIDs gives the task's numbers by a status file's NSpid line, outermost namespace first.
func innerIDs(status []byte) [][]byte {
	_, rest, ok := bytes.Cut(status, []byte("\nNSpid:"))
	if !ok {
		return nil
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.Fields(line)
}

// FindThread gives the number by which this procfs knows thread inner of process pid, where inner is the thread's
// number in its own namespace. It is 0 when there is none.
func (fs *FS) FindThread(pid, inner int) int {
	names, err := os.ReadDir(filepath.Join(fs.root, strconv.Itoa(pid), "task"))
	if err != nil {
		return 0
	}
	for _, e := range names {
		tid, err := strconv.Atoi(e.Name())
		if err == nil && fs.isInner(taskFile(pid, tid, "status"), inner) {
			return tid
		}
	}
	return 0
}

// Cgroup is what the name of a process's cgroup tells.
type Cgroup struct {
	Path        string // In the unified hierarchy, else in the first one.
	ContainerID string // 64 hexadecimal digits, as most runtimes name a cgroup, or the name of a machine of LXC's; empty outside containers.
	PodUID      string // Of the Kubernetes pod, with dashes; empty outside pods.
	SlurmJob    string // Number of the Slurm job, as SlurmStep empty outside of one.
	SlurmStep   string
}

var (
	containerPattern = regexp.MustCompile(`[0-9a-f]{64}`)
	// machinePattern finds the containers of LXC, Incus and systemd-nspawn, which have names instead.
	machinePattern = regexp.MustCompile(`^(?:/\.\.)*/(?:lxc(?:\.payload)?[./]|machine\.slice/(?:systemd-nspawn@|machine-))([^/]+?)(?:\.service|\.scope)?(?:/|$)`)
	// sliceOfPod finds the pod in kubepods-burstable-pod<uid with underscores>.slice, as systemd names it, and folderOfPod in
	// kubepods/burstable/pod<uid>. Pods that the kubelet runs by itself have a hash of 32 digits. Above it are slices and folders of the kubelet's
	// alone, or a runtime's service: below a scope, a service or a container, whoever runs there may make cgroups of any name.
	sliceOfPod = regexp.MustCompile(`^(?:/\.\.)*(?:/[\w-]+\.slice)*(?:/system\.slice/(?:containerd|crio|cri-docker|docker|kubelet|k3s|k3s-agent|rke2-server|rke2-agent)\.service)?` +
		`/(?:\w+-)*kubepods(?:-\w+)?-pod([0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}|[0-9a-f]{32})\.slice(?:[/:]|$)`)
	folderOfPod = regexp.MustCompile(`^(?:/\.\.)*(?:/\w+)?/kubepods/(?:burstable/|besteffort/)?pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})(?:/|$)`)
	// peerPattern finds it where our own cgroup namespace begins in a pod, as that of an exporter in a container does: the path leads up to what
	// both have in common. What a process makes lies below its own pod.
	peerPattern  = regexp.MustCompile(`^(?:/\.\.)+/(?:burstable/|besteffort/)?pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})/`)
	slurmPattern = regexp.MustCompile(`^(?:/\.\.)*/(?:system\.slice/)?[^/]*slurm[^/]*/(?:uid_[0-9]+/)?job_([0-9]+)/step_([^/]+)`)
	// usersPattern finds the cgroups of login sessions, below which users make their own.
	usersPattern = regexp.MustCompile(`^(?:/\.\.)*/user\.slice/`)
)

// Cgroup reads a process's cgroup; empty when it cannot be read.
func (fs *FS) Cgroup(pid int) Cgroup {
	b, err := fs.read(strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return Cgroup{}
	}
	var c Cgroup
	for line := range bytes.Lines(b) {
		parts := strings.SplitN(string(bytes.TrimSpace(line)), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if c.Path == "" || parts[0] == "0" && parts[2] != "/" {
			c.Path = parts[2]
		}
		id := containerPattern.FindString(parts[2])
		if m := machinePattern.FindStringSubmatch(parts[2]); m != nil {
			id = strings.Trim(m[1]+"/"+id, "/")
		}
		c.ContainerID = cmp.Or(id, c.ContainerID)
		if usersPattern.MatchString(parts[2]) {
			continue
		}
		for _, pattern := range []*regexp.Regexp{peerPattern, folderOfPod, sliceOfPod} {
			if m := pattern.FindStringSubmatch(parts[2]); m != nil {
				c.PodUID = strings.ReplaceAll(m[1], "_", "-")
			}
		}
		if m := slurmPattern.FindStringSubmatch(parts[2]); m != nil {
			c.SlurmJob, c.SlurmStep = m[1], m[2]
		}
	}
	return c
}
