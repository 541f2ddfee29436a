// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
)

// Service is a process of the stack that a test may disturb.
type Service struct {
	Name string // As its log.
	Kind string // exporter, prometheus, alertmanager or analyzer.
	Data string // Folder that it writes to; empty: none.
	url  string // Answers when it is ready.
	proc *process
}

// Services gives the exporters, Prometheus, the Alertmanagers and the analyzers of a stack on Prometheus.
func (s *Stack) Services() []Service {
	out := []Service{{Name: "prometheus", Kind: "prometheus", Data: s.DataDir("prometheus"), url: s.PrometheusURL() + "/-/ready", proc: s.prometheus}}
	for _, h := range s.hosts {
		out = append(out, Service{Name: h.proc.name, Kind: "exporter", Data: h.traces, url: "http://" + h.addr + "/-/healthy", proc: h.proc})
	}
	for _, of := range []struct {
		kind      string
		instances []instance
	}{{"alertmanager", s.alertmanagers}, {"analyzer", s.analyzers}} {
		for _, i := range of.instances {
			out = append(out, Service{Name: i.proc.name, Kind: of.kind, Data: s.DataDir(i.proc.name), url: "http://" + i.addr + "/-/ready", proc: i.proc})
		}
	}
	return out
}

// DataDir is the folder that a service of this name keeps its data in.
func (s *Stack) DataDir(name string) string { return filepath.Join(s.cfg.Dir, name+"-data") }

// PID is the number of the service's process.
func (v Service) PID() int { return v.proc.pid() }

// Signal sends a signal to the service's process.
func (v Service) Signal(sig syscall.Signal) error {
	if err := syscall.Kill(v.PID(), sig); err != nil {
		return fmt.Errorf("sending %s to %s: %w", sig, v.Name, err)
	}
	return nil
}

// Kill ends the service's process at once, and gives it no chance to say so.
func (v Service) Kill() error {
	if err := v.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_, done := v.proc.now()
	<-done
	return nil
}

// Restart starts the service again if it has ended, and waits until it answers.
func (v Service) Restart(ctx context.Context) error {
	if _, ended := v.proc.ended(); ended {
		if err := v.proc.start(); err != nil {
			return err
		}
	}
	return v.proc.waitHTTP(ctx, v.url)
}
