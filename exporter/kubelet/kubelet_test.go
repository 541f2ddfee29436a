// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// fakeKubelet serves the pod resources API as the kubelet does.
type fakeKubelet struct {
	podresources.UnimplementedPodResourcesListerServer

	mu     sync.Mutex
	answer *podresources.ListPodResourcesResponse
	err    error
}

func (f *fakeKubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answer, f.err
}

func (f *fakeKubelet) set(answer *podresources.ListPodResourcesResponse, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer, f.err = answer, err
}

func serve(t *testing.T, socket string, f *fakeKubelet) *grpc.Server {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, f)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serving: %v", err)
		}
	}()
	t.Cleanup(func() { server.Stop(); <-ended })
	return server
}

func pod(namespace, name, container, resource string, devices ...string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: namespace, Name: name, Containers: []*podresources.ContainerResources{
		{Name: "sidecar"},
		{Name: container, Devices: []*podresources.ContainerDevices{{ResourceName: resource, DeviceIds: devices}}},
	}}
}

func pods(list ...*podresources.PodResources) *podresources.ListPodResourcesResponse {
	return &podresources.ListPodResourcesResponse{PodResources: list}
}

type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// complaints counts the lines about a kubelet that was not heard.
func (l *logs) complaints() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), "Pods are not asked")
}

func newDevices(socket string) (*Devices, *logs) {
	l := &logs{}
	return New(socket, slog.New(slog.NewTextHandler(l, nil))), l
}

func TestHolder(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	f := &fakeKubelet{answer: pods(
		pod("train", "llm-0", "main", "nvidia.com/gpu", "GPU-aaaa", "GPU-bbbb"),
		pod("train", "llm-1", "main", "amd.com/gpu", "0000:1B:00.0"),
		pod("web", "a", "x", "nvidia.com/gpu.shared", "GPU-cccc::0"),
		pod("web", "b", "x", "nvidia.com/gpu.shared", "GPU-cccc::1"),
		pod("web", "alone", "x", "nvidia.com/gpu.shared", "GPU-dddd::0", "GPU-dddd::1"),
		pod("kube-system", "none", "x", "example.com/else"),
	)}
	serve(t, socket, f)
	d, _ := newDevices(socket)
	if _, ok := d.Holder("GPU-aaaa"); ok {
		t.Error("a holder before the kubelet was asked")
	}
	d.refresh(t.Context())
	for _, tt := range []struct {
		name  string
		names []string
		want  Container
		ok    bool
	}{
		{"by UUID", []string{"GPU-aaaa", ""}, Container{"train", "llm-0", "main"}, true},
		{"the second GPU", []string{"GPU-bbbb", "0000:ff:00.0"}, Container{"train", "llm-0", "main"}, true},
		{"by PCI address", []string{"", "0000:1b:00.0"}, Container{"train", "llm-1", "main"}, true},
		{"shared by two", []string{"GPU-cccc"}, Container{}, false},
		{"handed out twice to one", []string{"GPU-dddd"}, Container{"web", "alone", "x"}, true},
		{"unknown", []string{"GPU-eeee"}, Container{}, false},
		{"no name", []string{"", ""}, Container{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := d.Holder(tt.names...); got != tt.want || ok != tt.ok {
				t.Errorf("%+v, %v", got, ok)
			}
		})
	}
}

// TestKubeletComesAndGoes has no socket, one that nobody serves, a kubelet that fails, and one that is removed.
func TestKubeletComesAndGoes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	d, l := newDevices(socket)
	known := func() bool { _, ok := d.Holder("GPU-aaaa"); return ok }
	for range 3 {
		d.refresh(t.Context())
	}
	if known() || l.complaints() != 1 {
		t.Errorf("without a socket: known %v, %d lines", known(), l.complaints())
	}
	f := &fakeKubelet{answer: pods(pod("train", "llm-0", "main", "nvidia.com/gpu", "GPU-aaaa"))}
	server := serve(t, socket, f)
	d.refresh(t.Context())
	if !known() {
		t.Fatal("the kubelet was not heard")
	}
	f.set(nil, errors.New("not now"))
	d.refresh(t.Context())
	d.refresh(t.Context())
	if !known() || l.complaints() != 2 {
		t.Errorf("while it fails: known %v, %d lines", known(), l.complaints())
	}
	f.set(pods(), nil)
	d.refresh(t.Context())
	if known() {
		t.Error("a pod that has ended holds its GPU")
	}
	server.Stop()
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	d.refresh(t.Context())
	if d.holders.Load() != nil {
		t.Error("something is known without a kubelet")
	}
}

func TestRun(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	serve(t, socket, &fakeKubelet{answer: pods(pod("train", "llm-0", "main", "nvidia.com/gpu", "GPU-aaaa"))})
	d, _ := newDevices(socket)
	d.every = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, ok := d.Holder("GPU-aaaa"); ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the kubelet was not asked")
		}
	}
	cancel()
	<-ended
}
