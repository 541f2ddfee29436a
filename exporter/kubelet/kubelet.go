// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet asks the node's kubelet which containers hold which devices, through the pod resources API that it
// offers on a Unix socket. It tells the pod of a training process by its GPU, whatever the process says of itself.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	// DefaultSocket is where the kubelet listens unless its root directory was moved.
	DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"
	// askPeriod is how often the kubelet is asked. A container keeps its devices for life.
	askPeriod = 30 * time.Second
	// askTimeout bounds an answer; one of 110 pods takes milliseconds.
	askTimeout = 5 * time.Second
	// maxAnswer bounds an answer's size in bytes.
	maxAnswer = 16 << 20
)

// Container is a container of a pod.
type Container struct{ Namespace, Pod, Name string }

// Devices knows the containers that hold devices. The zero value is not usable; call New. It is safe for concurrent use.
type Devices struct {
	socket string
	log    *slog.Logger
	every  time.Duration

	holders atomic.Pointer[map[string]Container] // By device.
	silent  bool                                 // The trouble has been logged.
}

// New makes a Devices that knows nothing until Run has asked the kubelet at socket.
func New(socket string, log *slog.Logger) *Devices {
	return &Devices{socket: socket, log: log, every: askPeriod}
}

// Run asks until ctx ends. Without a kubelet it says so once and goes on looking for one.
func (d *Devices) Run(ctx context.Context) {
	ticker := time.NewTicker(d.every)
	defer ticker.Stop()
	for {
		d.refresh(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (d *Devices) refresh(ctx context.Context) {
	holders, err := d.list(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		if d.holders.Swap(&holders) == nil {
			d.log.Info("The kubelet tells which pods hold which devices", "socket", d.socket)
		}
		d.silent = false
		return
	case errors.Is(err, fs.ErrNotExist):
		// No Kubernetes, or the socket is not mounted: what was known is no longer true.
		d.holders.Store(nil)
	}
	// A kubelet that restarts or is slow leaves the containers as they are.
	if !d.silent {
		d.silent = true
		d.log.Info("Pods are not asked of the kubelet", "socket", d.socket, "reason", err)
	}
}

// list asks the kubelet once and gives the holders of devices.
func (d *Devices) list(ctx context.Context) (map[string]Container, error) {
	if _, err := os.Stat(d.socket); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix:"+d.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("connecting to the kubelet: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet for pod resources: %w", err)
	}
	return holders(answer), nil
}

// holders turns an answer round. A device that several containers hold tells nothing.
func holders(answer *podresources.ListPodResourcesResponse) map[string]Container {
	byDevice := map[string]Container{}
	shared := map[string]bool{}
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			holder := Container{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Name: c.GetName()}
			for _, devices := range c.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					id = normal(id)
					if other, ok := byDevice[id]; ok && other != holder {
						shared[id] = true
					}
					byDevice[id] = holder
				}
			}
		}
	}
	for id := range shared {
		delete(byDevice, id)
	}
	return byDevice
}

// normal drops what the NVIDIA plugin appends to a GPU that it hands out several times.
func normal(id string) string {
	id, _, _ = strings.Cut(id, "::")
	return strings.ToLower(id)
}

// Holder gives the container that holds a device by any of its names: a GPU's UUID, as the NVIDIA plugin hands out, or its
// PCI address, as AMD's does. It is false while that is not known.
func (d *Devices) Holder(names ...string) (Container, bool) {
	known := d.holders.Load()
	if known == nil {
		return Container{}, false
	}
	for _, name := range names {
		if c, ok := (*known)[normal(name)]; ok && name != "" {
			return c, true
		}
	}
	return Container{}, false
}
