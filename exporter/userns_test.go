// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUserNamespaces has jobs in user namespaces of their own, as pods with hostUsers: false are. Their volumes are mounted with the same map, as the
// kubelet has it, so that the file of the pod's user 1000 belongs to 1000 on the node, where the process runs as another. Or they are not.
func TestUserNamespaces(t *testing.T) {
	t.Parallel()
	const first = 100_000
	inside := func(uid uint32) *syscall.SysProcAttr {
		m := []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: 65536}}
		return &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: m, GidMappings: m, GidMappingsEnableSetgroups: true,
			Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL,
		}
	}
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = inside(0)
	if err := holder.Start(); errors.Is(err, syscall.EPERM) {
		t.Skip("making user namespaces is not permitted here")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	ringjob, shim := buildJob(t)
	for _, mapped := range []bool{false, true} {
		for _, uid := range []uint32{0, 1000} {
			t.Run(fmt.Sprintf("mapped %t, user %d", mapped, uid), func(t *testing.T) {
				root, dir := tmpfs(t), ""
				traces := filepath.Join(root, "host0")
				if err := errors.Join(os.Mkdir(traces, 0o700), os.Chmod(traces, 0o777|os.ModeSticky)); err != nil {
					t.Fatal(err)
				}
				if dir = root; mapped {
					dir = idmapped(t, root, holder.Process.Pid)
				}
				launcher := exec.Command(ringjob, "launch", "--ranks", "2", "--hosts", "1", "--dir", dir, "--job", "pod", "--timeout", "300", "--grace", "1", "--",
					"--layout", "dp2,pp1,tp1", "--compute-ms", "10", "--report-every", "0")
				launcher.Env = append(os.Environ(), "NCCL_PROFILER_PLUGIN="+shim)
				launcher.Stderr = os.Stderr
				launcher.SysProcAttr = inside(uid)
				if err := launcher.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					_ = launcher.Process.Signal(syscall.SIGTERM)
					_ = launcher.Wait()
				})
				j := &job{t: t, addr: startExporterWith(t, nil, traces)}
				j.eventually(func() string {
					ranks := map[int32]bool{}
					for _, p := range j.state("").Processes {
						if p.JobID == "pod" && p.Kernel.Verified {
							ranks[p.Rank] = true
						}
					}
					if len(ranks) != 2 {
						return fmt.Sprintf("ranks %v are seen", ranks)
					}
					return ""
				})
				if want := fmt.Sprintf(`culprit_nccl_process_up{job_id="pod",owner="%d",rank="1"} 1`, first+uid); !strings.Contains(j.body("/metrics"), want) {
					t.Errorf("%s is missing", want)
				}
			})
		}
	}
}

// passable is a folder that other users reach. The parent of t.TempDir is not.
func passable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "userns")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tmpfs mounts what any user may write to, as the trace directory is.
func tmpfs(t *testing.T) string {
	t.Helper()
	dir := passable(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=1777"); errors.Is(err, syscall.EPERM) {
		t.Skip("mounting is not permitted here")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// idmapped mounts a folder once more, with the map of a process's user namespace.
func idmapped(t *testing.T, dir string, pid int) string {
	t.Helper()
	users, err := os.Open(filepath.Join("/proc", fmt.Sprint(pid), "ns", "user"))
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); errors.Is(err, syscall.EINVAL) {
		t.Skip("the kernel maps no owners of tmpfs")
	} else if err != nil {
		t.Fatal(err)
	}
	at := passable(t)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	return at
}
