// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"github.com/culprit-project/culprit/exporter/kubelet"
)

// daemonSet is what the test looks at of a Kubernetes DaemonSet.
type daemonSet struct {
	Spec struct {
		Template struct {
			Spec struct {
				SecurityContext struct {
					SeccompProfile struct {
						Type string `yaml:"type"`
					} `yaml:"seccompProfile"`
				} `yaml:"securityContext"`
				HostPID        bool        `yaml:"hostPID"`
				InitContainers []container `yaml:"initContainers"`
				Containers     []container `yaml:"containers"`
				Volumes        []struct {
					Name     string `yaml:"name"`
					EmptyDir struct {
						Medium string `yaml:"medium"`
					} `yaml:"emptyDir"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Args         []string `yaml:"args"`
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

// TestDaemonSet has the exporter take the flags of the DaemonSet, whose history lies on a tmpfs of 512 MB.
func TestDaemonSet(t *testing.T) {
	content, err := os.ReadFile("../deploy/kubernetes/culprit-exporter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set daemonSet
	if err := yaml.Unmarshal(content, &set); err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Containers))
	}
	s, err := parseFlags(pod.Containers[0].Args)
	if err != nil {
		t.Fatal(err)
	}
	mounted := map[string]string{} // Volumes by where they are mounted.
	for _, m := range pod.Containers[0].VolumeMounts {
		mounted[m.MountPath] = m.Name
	}
	history := mounted[s.history.Dir]
	memory := false
	for _, v := range pod.Volumes {
		memory = memory || v.Name == history && v.EmptyDir.Medium == "Memory"
	}
	if s.history.DirBytes != 512<<20 || !memory {
		t.Errorf("history of %d bytes in %q, on a tmpfs: %v", s.history.DirBytes, s.history.Dir, memory)
	}
	if !pod.HostPID || mounted[s.node.Dirs[0]] == "" || mounted[kubelet.DefaultLogs] == "" || s.kubelet != kubelet.DefaultLogs {
		t.Errorf("host PIDs %v, mounts %v, kubelet at %q", pod.HostPID, mounted, s.kubelet)
	}
	if s.control || s.prepare {
		t.Error("control is enabled, or it prepares the directories and ends")
	}
	if pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" {
		t.Error("all system calls are open to it")
	}
	if len(pod.InitContainers) != 1 {
		t.Fatalf("%d init containers", len(pod.InitContainers))
	}
	first := pod.InitContainers[0]
	p, err := parseFlags(first.Args)
	if err != nil {
		t.Fatal(err)
	}
	if !p.prepare || !slices.Equal(p.node.Dirs, s.node.Dirs) || len(first.VolumeMounts) != 1 ||
		first.VolumeMounts[0].MountPath != p.node.Dirs[0] || first.VolumeMounts[0].ReadOnly {
		t.Errorf("prepares %v: %v, with %+v", p.node.Dirs, p.prepare, first.VolumeMounts)
	}
}

// TestUnitsAreConfined: the units keep what they need and give up the rest.
func TestUnitsAreConfined(t *testing.T) {
	for _, name := range []string{"exporter", "analyzer"} {
		unit, err := os.ReadFile("../deploy/systemd/culprit-" + name + ".service")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"IPAddressDeny=link-local multicast", "RestrictAddressFamilies=AF_INET AF_INET6", "CapabilityBoundingSet=\n", "NoNewPrivileges=yes",
			"SystemCallFilter=@system-service", "ProtectSystem=strict", "MemoryDenyWriteExecute=yes",
		} {
			if !strings.Contains(string(unit), "\n"+want) {
				t.Errorf("%s: no %s", name, want)
			}
		}
	}
}

// TestSystemdUnit has the exporter take the unit's options, whose history lies in a directory of its own on /run, which is
// a tmpfs, and outlives a restart of the unit.
func TestSystemdUnit(t *testing.T) {
	options, err := os.ReadFile("../deploy/systemd/culprit-exporter.default")
	if err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile("../deploy/systemd/culprit-exporter.service")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`CULPRIT_EXPORTER_OPTS="([^"]*)"`).FindSubmatch(options)
	if m == nil {
		t.Fatal("no options")
	}
	s, err := parseFlags(strings.Fields(string(m[1])))
	if err != nil {
		t.Fatal(err)
	}
	if s.history.Dir != "/run/culprit-exporter" || s.history.DirBytes != 512<<20 || s.control {
		t.Errorf("history %+v, control %v", s.history, s.control)
	}
	for _, want := range []string{"RuntimeDirectory=culprit-exporter", "RuntimeDirectoryPreserve=restart", "RuntimeDirectoryMode=0700", "ExecStartPre=-+/usr/local/bin/culprit-exporter $CULPRIT_EXPORTER_OPTS --trace.prepare"} {
		if !slices.Contains(strings.Split(string(unit), "\n"), want) {
			t.Errorf("no %s in the unit", want)
		}
	}
}
