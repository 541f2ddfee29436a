// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/nvml"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	// xidFact is for how long an XID stays evidence. Many end the job at once, some only matter minutes later.
	xidFact = 30 * time.Minute
	// busyUtilization is from when a GPU's clocks say something.
	busyUtilization = 0.5
	// slowClock is below which share of its busy peers' median a GPU's clock is evidence.
	slowClock = 0.85
	// foreignBytes is the GPU memory from which a process that is no rank counts: monitoring holds little.
	foreignBytes = 256 << 20
)

// xidTexts says what the codes mean that tell of a component, as NVIDIA documents them.
var xidTexts = map[uint64]string{
	13: "graphics engine exception", 31: "memory page fault", 43: "GPU stopped processing", 45: "work removed after an earlier error",
	48: "double-bit ECC error", 63: "memory row remapped", 64: "memory row remapping failed", 74: "NVLink error",
	79: "GPU has fallen off the bus", 94: "contained ECC error", 95: "uncontained ECC error", 119: "GSP firmware does not answer",
	120: "GSP firmware error",
}

// gpuState is one GPU as Facts sees it.
type gpuState struct {
	gpuLook
	rank  int32
	clock float64 // 0 when not busy.
}

// News says when the library is open and when an XID has come.
func (c *NVML) News() <-chan struct{} { return c.news }

// Facts gives the GPUs' evidence.
func (c *NVML) Facts() []nodeapi.Fact {
	lib := c.lib.Load()
	if lib == nil {
		return nil
	}
	looks, err := c.gpus.read(context.Background(), *lib)
	if err != nil {
		c.log.Debug("Reading GPUs", "err", err)
	}
	ranks := c.ranks.Ranks()
	states := make([]gpuState, 0, len(looks))
	var clocks []float64
	for _, l := range looks {
		s := gpuState{gpuLook: l}
		s.rank = rankOf(s.info, ranks)
		if s.r.Values[nvml.Utilization] >= busyUtilization {
			if s.clock = s.r.Values[nvml.SMClock]; s.clock > 0 {
				clocks = append(clocks, s.clock)
			}
		}
		states = append(states, s)
	}
	slices.Sort(clocks)
	c.mu.Lock()
	defer c.mu.Unlock()
	var facts []nodeapi.Fact
	for i := range states {
		facts = append(facts, c.factsOf(&states[i], clocks, ranks)...)
	}
	return facts
}

// rankOf finds the rank that uses a GPU by the surest name there is.
func rankOf(info nvml.Info, ranks []node.RankRef) int32 {
	bus := node.NormalPCI(info.PCIBusID)
	for _, match := range []func(node.RankRef) bool{
		func(r node.RankRef) bool { return r.UUID != "" && r.UUID == info.UUID },
		func(r node.RankRef) bool { return r.PCIBusID != "" && r.PCIBusID == bus },
		func(r node.RankRef) bool {
			return r.UUID == "" && r.PCIBusID == "" && r.GPU == strconv.Itoa(info.Index)
		},
	} {
		if i := slices.IndexFunc(ranks, match); i >= 0 {
			return ranks[i].Rank
		}
	}
	return -1
}

// rankOfProcess finds a process's rank, and of a process that is several the one on a GPU; nil: it is no rank.
func rankOfProcess(pid int, onGPU int32, ranks []node.RankRef) *node.RankRef {
	var found *node.RankRef
	for i := range ranks {
		if r := &ranks[i]; r.HostPID == pid && (found == nil || r.Rank == onGPU) {
			found = r
		}
	}
	return found
}

func (c *NVML) factsOf(s *gpuState, clocks []float64, ranks []node.RankRef) []nodeapi.Fact {
	now := c.now()
	device := "gpu" + strconv.Itoa(s.info.Index)
	fact := func(kind string) nodeapi.Fact {
		return nodeapi.Fact{Component: "gpu", Device: device, Kind: kind, Rank: s.rank}
	}
	var facts []nodeapi.Fact
	for k, n := range c.xids {
		if age := now.Sub(n.last); k.uuid == s.info.UUID && age <= xidFact {
			f := fact("xid")
			f.Value, f.AgeSeconds = float64(k.code), age.Seconds()
			f.Text = fmt.Sprintf("GPU %d reported Xid %d", s.info.Index, k.code)
			if meaning := xidTexts[k.code]; meaning != "" {
				f.Text += ": " + meaning
			}
			facts = append(facts, f)
		}
	}
	if f, ok := silent(s, now, fact); ok {
		return append(facts, f) // Nothing else was read.
	}
	counted := func(q nvml.Quantity, kind string) {
		if v, ok := s.r.Values[q]; ok {
			facts = c.counts.fact(facts, s.info.UUID+kind, uint64(v), now, fact(kind))
		}
	}
	counted(nvml.ECCUncorrected, "ecc_uncorrectable")
	counted(nvml.NVLinkRecoveryErrors, "nvlink_errors")
	if up, ok := s.r.Values[nvml.NVLinksActive]; ok {
		most := max(up, c.links[s.info.UUID])
		c.links[s.info.UUID] = most
		if up < most {
			f := fact("nvlink_down")
			f.Value, f.Expected, f.Unit = up, most, "links"
			facts = append(facts, f)
		}
	}
	if s.r.Values[nvml.RemapFailed] > 0 {
		f := fact("row_remap_failed")
		f.Value = 1
		facts = append(facts, f)
	}
	if f, ok := throttled(s, clocks, fact("clock_throttled")); ok {
		facts = append(facts, f)
	}
	return c.foreign(facts, s, ranks, fact("foreign_process"))
}

// silent tells that a GPU does not answer.
func silent(s *gpuState, now time.Time, fact func(kind string) nodeapi.Fact) (nodeapi.Fact, bool) {
	switch {
	case errors.Is(s.err, nvml.ErrLost):
		f := fact("gpu_lost")
		f.Value, f.Text = 1, fmt.Sprintf("the driver lost GPU %d", s.info.Index)
		return f, true
	case errors.Is(s.err, errNoAnswer):
		f := fact("driver_hang")
		f.Value, f.Unit = now.Sub(s.asked).Seconds(), "s"
		f.Text = fmt.Sprintf("the driver has not answered for GPU %d in %.0f s", s.info.Index, f.Value)
		return f, true
	}
	return nodeapi.Fact{}, false
}

// throttled tells whether the GPU runs slower than it should. A power cap alone is usual under full load and only counts
// for a GPU that is slower than its busy peers; heat and the power supply always count.
func throttled(s *gpuState, clocks []float64, f nodeapi.Fact) (nodeapi.Fact, bool) {
	if s.clock == 0 {
		return f, false
	}
	f.Value, f.Expected, f.Unit = s.clock/1e6, s.r.Values[nvml.SMMaxClock]/1e6, "MHz"
	var why []string
	unusual := false
	for _, r := range slices.Sorted(maps.Keys(s.r.Reasons)) {
		why = append(why, string(r))
		unusual = unusual || r == nvml.ReasonHardware || r == nvml.ReasonThermal || r == nvml.ReasonHWThermal || r == nvml.ReasonPowerBrake
	}
	median := clocks[len(clocks)/2]
	slow := unusual && s.clock < slowClock*s.r.Values[nvml.SMMaxClock]
	if len(clocks) >= 3 && s.clock < slowClock*median {
		f.Expected, slow = median/1e6, true
	}
	f.Text = fmt.Sprintf("GPU %d runs at %.0f MHz instead of %.0f MHz", s.info.Index, f.Value, f.Expected)
	if len(why) > 0 {
		f.Text += ": " + strings.Join(why, ", ")
	}
	return f, slow
}

// foreign adds a fact when somebody else computes on a rank's GPU.
func (c *NVML) foreign(facts []nodeapi.Fact, s *gpuState, ranks []node.RankRef, f nodeapi.Fact) []nodeapi.Fact {
	if s.rank < 0 {
		return facts
	}
	for pid, memory := range s.r.Processes {
		known := slices.ContainsFunc(ranks, func(r node.RankRef) bool { return r.HostPID == pid })
		// A rank that the kernel does not show cannot be told from others.
		seen := slices.ContainsFunc(ranks, func(r node.RankRef) bool { return r.Rank == s.rank && r.HostPID != 0 })
		if !known && seen && memory >= foreignBytes {
			f.Value++
		}
	}
	if f.Value > 0 {
		facts = append(facts, f)
	}
	return facts
}
