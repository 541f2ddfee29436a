// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet tells pods by their UIDs. The kubelet makes a folder for the logs of each pod of the node, named after namespace, name and UID,
// and in it one for each container, whatever the runtime. It is root's, and no pod can write there: what a process says of its pod is checked
// against it, with the UID that the kernel shows in the process's cgroup.
package kubelet

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultLogs is where the kubelet keeps logs unless its podLogsDir says otherwise.
	DefaultLogs = "/var/log/pods"
	// freshFor is how long a pod is known without another look. Containers may be added to it.
	freshFor = 30 * time.Second
	// listPeriod is how often the folder is listed for pods that are not known.
	listPeriod = time.Second
	// maxPods bounds how many folders are listed; a node has some hundred, those of ended pods among them.
	maxPods = 1 << 14
)

// Pod is a pod of the node.
type Pod struct {
	Namespace, Name string
	Containers      []string // Those that have been started, sorted.
}

// Pods knows the pods of the node. It is not safe for concurrent use.
type Pods struct {
	dir string
	log *slog.Logger
	now func() time.Time

	listed time.Time
	known  map[string]entry // By UID.
	silent bool             // The trouble has been logged.
}

type entry struct {
	pod    Pod
	folder string
	looked time.Time // When the containers were listed; zero: not yet.
}

// New makes Pods from the folder of logs.
func New(dir string, log *slog.Logger) *Pods {
	return &Pods{dir: dir, log: log, now: time.Now}
}

// Pod finds a pod by its UID; false: the kubelet knows of none.
func (p *Pods) Pod(uid string) (Pod, bool) {
	now := p.now()
	e, ok := p.known[uid]
	if (!ok || now.Sub(e.looked) >= freshFor) && now.Sub(p.listed) >= listPeriod {
		p.listed = now
		p.list()
		e, ok = p.known[uid]
	}
	if !ok {
		return Pod{}, false
	}
	if now.Sub(e.looked) >= freshFor {
		e.looked, e.pod.Containers = now, folders(filepath.Join(p.dir, e.folder))
		p.known[uid] = e
	}
	return e.pod, true
}

// list finds the pods that there are.
func (p *Pods) list() {
	dir, err := os.Open(p.dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			p.known = nil // What was known is no longer true.
		}
		if !p.silent {
			p.silent = true
			p.log.Info("Names of pods are not known", "dir", p.dir, "reason", err)
		}
		return
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxPods)
	if err != nil && len(names) == 0 {
		names = nil // It is empty.
	}
	p.silent = false
	known := make(map[string]entry, len(names))
	for _, name := range names {
		// Neither namespaces nor pods have an underscore in their names.
		parts := strings.Split(name, "_")
		if len(parts) != 3 || slices.Contains(parts, "") {
			continue
		}
		e := p.known[parts[2]]
		if e.folder != name {
			e = entry{folder: name, pod: Pod{Namespace: parts[0], Name: parts[1]}}
		}
		known[parts[2]] = e
	}
	p.known = known
}

func folders(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}
