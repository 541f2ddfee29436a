// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"path"
	"slices"
	"strings"

	"github.com/Mellanox/rdmamap"
)

// netdevs tells which network interfaces belong to an RDMA device. sysfs names those below the device itself; bonds,
// virtual functions and IPoIB interfaces hang elsewhere, and only the interface's own port and GUID tell.
type netdevs struct {
	// deviceOf gives the RDMA device behind an interface of this network namespace, empty when there is none.
	deviceOf func(netdev string) (string, error)
	byDevice map[string][]string
}

// newNetdevs asks the running kernel. rdmamap knows no other root than /sys, so a collector of another root does
// without.
func newNetdevs(root string) *netdevs {
	n := &netdevs{}
	if path.Clean(root) == "/sys" {
		n.deviceOf = rdmamap.GetRdmaDeviceForNetdevice
	}
	return n
}

// refresh maps the given interfaces anew.
func (n *netdevs) refresh(interfaces []string) {
	n.byDevice = map[string][]string{}
	if n.deviceOf == nil {
		return
	}
	for _, name := range interfaces {
		// An interface of another kind is no error to report: most have no RDMA device.
		if device, err := n.deviceOf(name); err == nil && device != "" {
			n.byDevice[device] = append(n.byDevice[device], name)
		}
	}
}

// of gives the interfaces of a device, those that sysfs names included, sorted and joined by commas.
func (n *netdevs) of(device string, below []string) string {
	all := slices.Concat(below, n.byDevice[device])
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}
