// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"time"
)

// Hardware describes the machines: all hosts are alike. Rates are bytes per second in one direction.
type Hardware struct {
	GPUsPerHost int
	NICsPerHost int
	NICRate     float64 // Line rate of one NIC.
	PCIeRate    float64 // One GPU's or NIC's PCIe link.
	NVLinkRate  float64 // One GPU's NVLink bandwidth.
	GPUFlops    float64 // Sustained, matrix multiplications of training.
	// Latency of one network hop from NIC to NIC and of one NVLink hop.
	NetLatency, NVLatency time.Duration
	HostsPerToR           int // Hosts under one set of rail switches.
	GPUModel              string
}

// H100 is a host of eight H100 with one 400 Gb/s NIC a GPU.
func H100() Hardware {
	return Hardware{
		GPUsPerHost: 8, NICsPerHost: 8, NICRate: 48.5e9, PCIeRate: 55e9, NVLinkRate: 370e9, GPUFlops: 420e12,
		NetLatency: 5 * time.Microsecond, NVLatency: 1500 * time.Nanosecond, HostsPerToR: 32, GPUModel: "H100",
	}
}

// A100 is a host of eight A100 with four 200 Gb/s NICs, as in Mycroft's testbed.
func A100() Hardware {
	return Hardware{
		GPUsPerHost: 8, NICsPerHost: 4, NICRate: 24e9, PCIeRate: 26e9, NVLinkRate: 230e9, GPUFlops: 150e12,
		NetLatency: 5 * time.Microsecond, NVLatency: 1500 * time.Nanosecond, HostsPerToR: 32, GPUModel: "A100",
	}
}

// host is one machine and its clock.
type host struct {
	name   string
	offset Time    // Its monotonic clock's reading at virtual time 0.
	drift  float64 // Seconds per second.
	wall   int64   // Unix nanoseconds at virtual time 0 as the host believes.
	ranks  []int32
	lostAt Time     // From when on nobody reaches it.
	disk   *profile // Storage, shared by its ranks.
}

// clock reads the host's monotonic clock at t; 0 stays "has not happened".
func (h *host) clock(t Time) uint64 {
	if t < 0 || t >= Never {
		return 0
	}
	return uint64(int64(h.offset) + int64(t) + int64(float64(t)*h.drift)) // Positive by construction.
}

// wallClock reads the host's real-time clock at t.
func (h *host) wallClock(t Time) int64 { return h.wall + int64(t) + int64(float64(t)*h.drift) }

// rankHW is what one rank runs on. Profiles are nil while nothing is wrong.
type rankHW struct {
	host  int32
	local int32 // Index of its GPU in the host.
	nic   int32 // Index of its NIC in the host.
	gpu   *profile
	cpu   *profile // Host thread.
	proxy *profile // Proxy thread.
	pcie  *profile // Its GPU's PCIe link.
	nv    *profile
	// Extra time the proxy takes per step, mean, while its fault lasts, and the probability of a long pause.
	proxyDelay []proxyDelay
	oddFrom    Time // Some profile differs from nominal from here
	oddTo      Time // to here.
}

// proxyDelay makes a proxy late.
type proxyDelay struct {
	from, to Time
	mean     Time    // Exponential extra time per action.
	chance   float64 // Probability per action of a pause
	pause    Time    // this long.
}

// nicHW is one NIC: transmit and receive side.
type nicHW struct{ tx, rx *profile }

func hostName(i int) string  { return fmt.Sprintf("node-%04d", i) }
func nicName(i int32) string { return fmt.Sprintf("mlx5_%d", i) }
func gpuUUID(seed uint64, rank int32) string {
	h := random(seed, forCommID, int64(rank), 7, 7)
	return fmt.Sprintf("GPU-%08x-%04x-%04x-%04x-%012x", h>>32, h>>16&0xffff, h&0xffff, h>>48, h&0xffffffffffff)
}
