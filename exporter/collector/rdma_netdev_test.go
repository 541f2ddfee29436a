// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"testing"
)

func TestNetdevsOfDevice(t *testing.T) {
	kernel := map[string]string{"bond0": "mlx5_bond_0", "eth0": "mlx5_0", "ib0": "mlx5_1"}
	n := newNetdevs("/sys")
	n.deviceOf = func(netdev string) (string, error) {
		if netdev == "tun0" {
			return "", errors.New("unknown device type")
		}
		return kernel[netdev], nil
	}
	n.refresh([]string{"bond0", "eth0", "ib0", "lo", "tun0"})
	for name, c := range map[string]struct {
		device string
		below  []string
		want   string
	}{
		"named by both":          {"mlx5_0", []string{"eth0"}, "eth0"},
		"only by the interface":  {"mlx5_bond_0", nil, "bond0"},
		"a port and its members": {"mlx5_1", []string{"eth7"}, "eth7,ib0"},
		"none":                   {"mlx5_9", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := n.of(c.device, c.below); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestNetdevsOfAnotherRoot: rdmamap would answer for the running kernel, not for the root asked for.
func TestNetdevsOfAnotherRoot(t *testing.T) {
	n := newNetdevs("/host/sys")
	n.refresh([]string{"eth0"})
	if n.deviceOf != nil || n.of("mlx5_0", nil) != "" {
		t.Error("the running kernel was asked about another root")
	}
}

// TestNetdevsOfTheRunningKernel asks the real rdmamap about an interface that has no RDMA device.
func TestNetdevsOfTheRunningKernel(t *testing.T) {
	n := newNetdevs("/sys/")
	n.refresh([]string{"lo"})
	for device, names := range n.byDevice {
		t.Errorf("the loopback interface belongs to %s: %v", device, names)
	}
}
