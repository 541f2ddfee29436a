// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package slurm tests what this folder has for Slurm.
package slurm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const plugin = "libnccl-profiler-culprit.so"

// script runs one of the folder's and gives what it prints.
func script(t *testing.T, name string, env ...string) string {
	t.Helper()
	cmd := exec.Command("./" + name)
	cmd.Env, cmd.Stderr = append([]string{"PATH=" + os.Getenv("PATH")}, env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestTaskProlog has what the prolog prints for jobs with environments of their own.
func TestTaskProlog(t *testing.T) {
	lib := t.TempDir()
	write(t, filepath.Join(lib, plugin), "", 0o644)
	conf := "CULPRIT_SLURM_CONF=" + write(t, filepath.Join(lib, "conf"), "CULPRIT_LIB="+lib+"\n", 0o644)
	const set = "export NCCL_PROFILER_PLUGIN=" + plugin + "\n"
	path := "export LD_LIBRARY_PATH=" + lib
	for _, c := range []struct {
		name string
		env  []string
		want string
	}{
		{"nothing set", nil, set + path + "\n"},
		{"a library path", []string{"LD_LIBRARY_PATH=/opt/nccl"}, set + path + ":/opt/nccl\n"},
		{"a short name", []string{"NCCL_PROFILER_PLUGIN=inspector"}, set + "export CULPRIT_CHAIN=libnccl-profiler-inspector.so\n" + path + "\n"},
		{"a file", []string{"NCCL_PROFILER_PLUGIN=/opt/other.so"}, set + "export CULPRIT_CHAIN=/opt/other.so\n" + path + "\n"},
		{"a chain of its own", []string{"NCCL_PROFILER_PLUGIN=/opt/other.so", "CULPRIT_CHAIN=/opt/third.so"}, set + path + "\n"},
		{"already there", []string{"NCCL_PROFILER_PLUGIN=" + plugin, "LD_LIBRARY_PATH=/a:" + lib}, ""},
		{"linked in", []string{"NCCL_PROFILER_PLUGIN=STATIC_PLUGIN"}, ""},
		{"switched off", []string{"CULPRIT_DISABLE=1"}, ""},
		{"another directory", []string{"CULPRIT_DIR=/run/culprit"}, set + path + "\nexport CULPRIT_DIR=/run/culprit\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, script(t, "culprit-task-prolog", append(c.env, conf)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("not installed", func(t *testing.T) {
		if got := script(t, "culprit-task-prolog", "CULPRIT_SLURM_CONF="+write(t, filepath.Join(t.TempDir(), "conf"), "CULPRIT_LIB=/none\n", 0o644)); got != "" {
			t.Errorf("%q", got)
		}
	})
}

// TestEnrootHook runs the hook with a stand-in for enroot-mount, which Debian does not have.
func TestEnrootHook(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, plugin), "", 0o644)
	write(t, filepath.Join(dir, "enroot-mount"), "#!/bin/sh\ncat > "+dir+"/mounts\n", 0o755)
	environ := write(t, filepath.Join(dir, "environ"), "HOME=/\nLD_LIBRARY_PATH=/usr/local/nvidia/lib\n", 0o644)
	script(t, "50-culprit.sh", "PATH="+dir+":"+os.Getenv("PATH"), "CULPRIT_LIB="+dir, "CULPRIT_DIR="+dir, "ENROOT_ROOTFS="+dir, "ENROOT_ENVIRON="+environ)
	mounts, err := os.ReadFile(filepath.Join(dir, "mounts"))
	if err != nil || strings.Count(string(mounts), dir+" "+dir+" none x-create=dir,bind,") != 2 {
		t.Errorf("mounts %q, %v", mounts, err)
	}
	got, err := os.ReadFile(environ)
	if err != nil {
		t.Fatal(err)
	}
	want := "HOME=/\nLD_LIBRARY_PATH=/usr/local/nvidia/lib\nLD_LIBRARY_PATH=" + dir + ":/usr/local/nvidia/lib\nNCCL_PROFILER_PLUGIN=" + plugin + "\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
