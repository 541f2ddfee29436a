// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// begun tells whether the fault has begun by t and whether it holds at t or held within the last ten seconds.
func (f *Fault) begun(t, horizon Time) (begun, fresh bool, since Time) {
	for _, w := range f.spans(horizon) {
		if w[0] <= t {
			begun, since = true, w[0]
			fresh = fresh || t < w[1]+seconds(10)
		}
	}
	return begun, fresh, since
}

// touches tells whether the fault concerns the host, and the ranks on it.
func (s *sim) touches(f *Fault, h int32) bool {
	if s.hw[f.Rank].host == h {
		return true
	}
	return f.Kind == Congestion && s.hw[f.Peer].host == h
}

// kernel is what /proc says of a rank's process at t.
func (s *sim) kernel(r *rank, t Time) *nodeapi.Kernel {
	seed := s.cfg.Seed
	noise := uniform(seed, forFact, int64(r.id), 1, 0)
	k := &nodeapi.Kernel{
		State: nodeapi.ProcessRunning, HostPID: pidOf(r.id), Verified: true,
		CPUCores: 1.02 + 0.1*noise, ReadBytesPerSec: 2e5 * noise, WriteBytesPerSec: 2e4 * noise,
	}
	delay := 0.001 + 0.002*noise
	proxy := 0.9 + 0.1*noise
	for i := range s.cfg.Faults {
		f := &s.cfg.Faults[i]
		begun, fresh, since := f.begun(t, s.end)
		if !begun {
			continue
		}
		same := int(r.id) == f.Rank
		sameHost := s.hw[r.id].host == s.hw[f.Rank].host
		switch f.Kind {
		case ProcessStopped:
			if same {
				k.State, k.CPUCores, proxy = nodeapi.ProcessStopped, 0, 0
			}
		case ProcessKilled, CUDAError:
			if same {
				k = &nodeapi.Kernel{State: nodeapi.ProcessGone, GoneForSeconds: (t - since).Seconds(), HostPID: pidOf(r.id)}
				return k
			}
		case CPUContention:
			if sameHost && fresh {
				delay = (1 - f.Remaining) * (0.8 + 0.2*noise)
				k.CPUCores *= f.Remaining
			}
		case NotEntered:
			if same {
				k.CPUCores = 0.97
			}
		}
	}
	s.busyWith(r, t, k)
	state := "R"
	switch k.State {
	case nodeapi.ProcessStopped:
		state = "T"
	case nodeapi.ProcessDisk:
		state = "D"
	}
	k.Threads = []nodeapi.Thread{
		{TID: pidOf(r.id) + 7, Role: "proxy", State: state, CPUCores: proxy, RunDelayFrac: delay},
		{TID: pidOf(r.id), Role: "user", State: state, CPUCores: min(1, k.CPUCores), RunDelayFrac: delay, Wchan: k.Wchan},
	}
	return k
}

// busyWith fills in what the kernel shows of a host thread that is busy at t with something other than its GPU.
func (s *sim) busyWith(r *rank, t Time, k *nodeapi.Kernel) {
	for _, b := range r.busy {
		if t < b.from || t >= b.to {
			continue
		}
		switch b.what {
		case "checkpoint":
			k.WriteBytesPerSec, k.CPUCores = 1.1e9, 0.6
		case "data":
			k.State, k.CPUCores, k.Wchan = nodeapi.ProcessSleep, 0.01, "futex_wait_queue"
			for i := range s.cfg.Faults {
				if f := &s.cfg.Faults[i]; f.Kind == StorageStuck && f.Rank == int(r.id) {
					k.State, k.Wchan = nodeapi.ProcessDisk, "rpc_wait_bit_killable"
				}
			}
		}
	}
}

func pidOf(r int32) int { return 41000 + 13*int(r) }

// facts is the node's own evidence at t, as its collectors would show it. What no collector can see is not there.
func (s *sim) facts(h int32, t Time) []nodeapi.Fact {
	var out []nodeapi.Fact
	for i := range s.cfg.Faults {
		f := &s.cfg.Faults[i]
		begun, fresh, since := f.begun(t, s.end)
		if !begun || !s.touches(f, h) {
			continue
		}
		out = append(out, s.factsOf(f, h, fresh, (t-since).Seconds())...)
	}
	return out
}

func (s *sim) factsOf(f *Fault, h int32, fresh bool, age float64) []nodeapi.Fact {
	hw := &s.hw[f.Rank]
	rank := int32(f.Rank)
	gpu := fmt.Sprintf("gpu%d", hw.local)
	nic := nicName(hw.nic)
	one := func(fact nodeapi.Fact) []nodeapi.Fact {
		fact.AgeSeconds = age
		return []nodeapi.Fact{fact}
	}
	line := s.cfg.Hardware.NICRate * 8 / 0.97
	switch f.Kind {
	case GPUError:
		return one(nodeapi.Fact{Component: "gpu", Device: gpu, Kind: "xid", Value: 79, Rank: rank, Text: "GPU has fallen off the bus"})
	case CUDAError:
		return one(nodeapi.Fact{Component: "gpu", Device: gpu, Kind: "xid", Value: 31, Rank: rank, Text: "GPU memory page fault"})
	case ECCError:
		return one(nodeapi.Fact{Component: "gpu", Device: gpu, Kind: "ecc_uncorrectable", Value: 1, Rank: rank})
	case NVLinkError:
		return one(nodeapi.Fact{Component: "gpu", Device: gpu, Kind: "nvlink_errors", Value: 250, Rank: rank})
	}
	if !fresh {
		return nil
	}
	switch f.Kind {
	case GPUThrottle:
		return one(nodeapi.Fact{Component: "gpu", Device: gpu, Kind: "clock_throttled", Value: 1980 * f.Remaining, Unit: "MHz", Expected: 1980, Rank: rank, Text: "power cap"})
	case NICDown:
		return one(nodeapi.Fact{Component: "nic", Device: nic, Kind: "port_down", Value: 0, Expected: 1, Rank: -1})
	case LinkFlap:
		return one(nodeapi.Fact{Component: "nic", Device: nic, Kind: "link_downed", Value: math.Ceil(age), Rank: -1})
	case PCIeDowngrade:
		return one(nodeapi.Fact{Component: "pcie", Device: busOf(hw.local), Kind: "link_width_reduced", Value: 16 * f.Remaining, Expected: 16, Rank: rank})
	case Congestion:
		return one(nodeapi.Fact{Component: "nic", Device: nic, Kind: "cnp_rate", Value: 4e4, Unit: "1/s", Rank: -1})
	case SwitchPortSlow:
		return one(nodeapi.Fact{Component: "nic", Device: nic, Kind: "port_rate_reduced", Value: math.Round(line*f.Remaining/1e8) / 10, Unit: "Gb/s", Expected: math.Round(line/1e8) / 10, Rank: -1})
	case CPUContention:
		out := make([]nodeapi.Fact, 0, len(s.hosts[h].ranks))
		for _, q := range s.hosts[h].ranks {
			out = append(out, nodeapi.Fact{Component: "cpu", Kind: "cpu_pressure", Value: 1 - f.Remaining, Unit: "ratio", Rank: q})
		}
		return out
	case CPUThrottle:
		return one(nodeapi.Fact{Component: "cpu", Kind: "cpu_clock_reduced", Value: 3700 * f.Remaining, Unit: "MHz", Expected: 3700, Rank: -1})
	case BackgroundCompute:
		return one(nodeapi.Fact{Component: "gpu", Device: "all", Kind: "foreign_process", Value: 1, Rank: -1})
	case CrossNUMA:
		return one(nodeapi.Fact{Component: "nic", Device: nic, Kind: "numa_remote", Value: 1, Rank: rank})
	}
	return nil
}
