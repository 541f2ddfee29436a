// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// NVML exports NVIDIA GPUs.
type NVML struct {
	open   func() (nvml.Library, error)
	lib    atomic.Pointer[nvml.Library] // Nil until Run has opened it.
	absent atomic.Pointer[error]        // Why it could not be opened.
	log    *slog.Logger
	ranks  Ranks
	now    func() time.Time

	mu     sync.Mutex
	xids   map[xidKey]xidCount
	counts changes
	links  map[string]float64 // Most NVLinks that a GPU has had up, by UUID.
}

type xidKey struct {
	uuid string
	code uint64
}

type xidCount struct {
	count uint64
	last  time.Time
}

// NewNVML makes the nvml collector. It has no data until Run has opened the library, for which the driver may take long.
func NewNVML(open func() (nvml.Library, error), log *slog.Logger, ranks Ranks) *NVML {
	return &NVML{open: open, log: log, ranks: ranks, now: time.Now, xids: map[xidKey]xidCount{}, counts: changes{}, links: map[string]float64{}}
}

func nvmlDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("nvml_"+name, help, append([]string{"gpu"}, labels...), nil)
}

var (
	nvmlInfoDesc = nvmlDesc("gpu_info", "What a GPU is. The value is 1.",
		"uuid", "name", "pci_bus_id", "driver_version")
	nvmlLimitedDesc = nvmlDesc("clock_limited", "1 while the GPU's clocks are limited for this reason.", "reason")
	nvmlXIDDesc     = nvmlDesc("xid_errors_total", "Critical errors that the driver reported since the exporter started.", "xid")
	nvmlECCDesc     = nvmlDesc("ecc_errors_total", "Memory errors over the GPU's life, by severity.", "severity")
	nvmlRowsDesc    = nvmlDesc("remapped_rows", "Rows of memory that were remapped, by the severity of the errors behind it.", "severity")
	nvmlLinkDesc    = nvmlDesc("nvlink_errors_total", "Errors of the GPU's NVLinks, by kind.", "kind")
	nvmlProcesses   = nvmlDesc("compute_processes", "Processes that compute on the GPU.")
	nvmlProcessDesc = nvmlDesc("process_info", "A process that computes on the GPU; job_id and rank are empty for one that is no rank. The value is 1.",
		"pid", "job_id", "rank")
	nvmlLinksDesc = nvmlDesc("nvlink_links", "The GPU's NVLinks, by state.", "state")
)

// nvmlMetric says how a quantity is exported.
type nvmlMetric struct {
	quantity nvml.Quantity
	desc     *prometheus.Desc
	kind     prometheus.ValueType
	label    []string
}

var nvmlMetrics = []nvmlMetric{
	{nvml.SMClock, nvmlDesc("sm_clock_hertz", "Present clock of the streaming multiprocessors."), prometheus.GaugeValue, nil},
	{nvml.SMMaxClock, nvmlDesc("sm_max_clock_hertz", "Highest clock of the streaming multiprocessors."), prometheus.GaugeValue, nil},
	{nvml.MemoryClock, nvmlDesc("memory_clock_hertz", "Present clock of the memory."), prometheus.GaugeValue, nil},
	{nvml.Power, nvmlDesc("power_watts", "Power that the GPU draws."), prometheus.GaugeValue, nil},
	{nvml.PowerLimit, nvmlDesc("power_limit_watts", "Power limit in force."), prometheus.GaugeValue, nil},
	{nvml.Temperature, nvmlDesc("temperature_celsius", "Temperature of the GPU."), prometheus.GaugeValue, nil},
	{nvml.Utilization, nvmlDesc("utilization_ratio", "Share of time in which a kernel ran."), prometheus.GaugeValue, nil},
	{nvml.MemoryUsed, nvmlDesc("memory_used_bytes", "Memory in use."), prometheus.GaugeValue, nil},
	{nvml.MemoryTotal, nvmlDesc("memory_bytes", "Memory of the GPU."), prometheus.GaugeValue, nil},
	{nvml.PCIeWidth, nvmlDesc("pcie_link_width", "Lanes that the PCI Express link uses."), prometheus.GaugeValue, nil},
	{nvml.PCIeMaxWidth, nvmlDesc("pcie_link_max_width", "Lanes that GPU and slot both offer."), prometheus.GaugeValue, nil},
	{nvml.PCIeGeneration, nvmlDesc("pcie_link_generation", "Generation that the PCI Express link runs at; lower while idle."), prometheus.GaugeValue, nil},
	{nvml.PCIeMaxGeneration, nvmlDesc("pcie_link_max_generation", "Generation that GPU and slot both offer."), prometheus.GaugeValue, nil},
	{nvml.PCIeReplays, nvmlDesc("pcie_replays_total", "Packets sent again on the PCI Express link."), prometheus.CounterValue, nil},
	{nvml.ECCCorrected, nvmlECCDesc, prometheus.CounterValue, []string{"corrected"}},
	{nvml.ECCUncorrected, nvmlECCDesc, prometheus.CounterValue, []string{"uncorrected"}},
	{nvml.RemappedCorrected, nvmlRowsDesc, prometheus.GaugeValue, []string{"corrected"}},
	{nvml.RemappedUncorrected, nvmlRowsDesc, prometheus.GaugeValue, []string{"uncorrected"}},
	{nvml.RemapPending, nvmlDesc("row_remap_pending", "1 while a row waits for a reset to be remapped."), prometheus.GaugeValue, nil},
	{nvml.RemapFailed, nvmlDesc("row_remap_failed", "1 after a row could not be remapped."), prometheus.GaugeValue, nil},
	{nvml.NVLinkReplayErrors, nvmlLinkDesc, prometheus.CounterValue, []string{"replay"}},
	{nvml.NVLinkRecoveryErrors, nvmlLinkDesc, prometheus.CounterValue, []string{"recovery"}},
	{nvml.NVLinkCRCErrors, nvmlLinkDesc, prometheus.CounterValue, []string{"crc"}},
	{nvml.NVLinksActive, nvmlLinksDesc, prometheus.GaugeValue, []string{"active"}},
	{nvml.NVLinksInactive, nvmlLinksDesc, prometheus.GaugeValue, []string{"inactive"}},
}

// Run opens the library and watches for XIDs until ctx ends. Without a driver it says so and returns.
func (c *NVML) Run(ctx context.Context) {
	lib, err := c.open()
	if err != nil {
		if !errors.Is(err, nvml.ErrUnavailable) {
			c.log.Warn("NVIDIA GPUs are not watched", "err", err)
		}
		c.absent.Store(&err)
		return
	}
	c.lib.Store(&lib)
	err = lib.WatchXIDs(ctx, func(x nvml.XID) {
		c.log.Warn("GPU reports a critical error", "uuid", x.UUID, "xid", x.Code)
		c.mu.Lock()
		defer c.mu.Unlock()
		k := xidKey{x.UUID, x.Code}
		c.xids[k] = xidCount{c.xids[k].count + 1, x.At}
	})
	if err != nil {
		c.log.Warn("GPU errors will not be seen", "err", err)
	}
}

// Collect implements Collector.
func (c *NVML) Collect(ctx context.Context, emit func(prometheus.Metric)) error {
	lib := c.lib.Load()
	if lib == nil {
		if absent := c.absent.Load(); absent != nil {
			return fmt.Errorf("%w: %w", ErrNoData, *absent)
		}
		return nil // The driver is still being opened.
	}
	driver := (*lib).Driver()
	devices, err := (*lib).Devices()
	if err != nil {
		err = fmt.Errorf("listing GPUs: %w", err)
	}
	ranks := c.ranks.Ranks()
	for _, d := range devices {
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		c.device(d, driver, ranks, emit)
	}
	return err
}

func (c *NVML) device(d nvml.Device, driver string, ranks []node.RankRef, emit func(prometheus.Metric)) {
	info, r := d.Info(), d.Read()
	gpu := strconv.Itoa(info.Index)
	metric := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		emit(prometheus.MustNewConstMetric(desc, kind, v, append([]string{gpu}, labels...)...))
	}
	metric(nvmlInfoDesc, prometheus.GaugeValue, 1, info.UUID, info.Name, node.NormalPCI(info.PCIBusID), driver)
	for _, m := range nvmlMetrics {
		if v, ok := r.Values[m.quantity]; ok {
			metric(m.desc, m.kind, v, m.label...)
		}
	}
	if r.Reasons != nil {
		for _, reason := range nvml.ClockReasons {
			v := 0.0
			if r.Reasons[reason] {
				v = 1
			}
			metric(nvmlLimitedDesc, prometheus.GaugeValue, v, string(reason))
		}
	}
	if r.Processes != nil {
		metric(nvmlProcesses, prometheus.GaugeValue, float64(len(r.Processes)))
		for pid := range r.Processes {
			job, rank := "", ""
			if i := slices.IndexFunc(ranks, func(r node.RankRef) bool { return r.HostPID == pid }); i >= 0 {
				job, rank = ranks[i].JobID, strconv.Itoa(int(ranks[i].Rank))
			}
			metric(nvmlProcessDesc, prometheus.GaugeValue, 1, strconv.Itoa(pid), job, rank)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, n := range c.xids {
		if k.uuid == info.UUID {
			metric(nvmlXIDDesc, prometheus.CounterValue, float64(n.count), strconv.FormatUint(k.code, 10))
		}
	}
}

// gpuState is one GPU as Facts sees it.
type gpuState struct {
	info  nvml.Info
	r     nvml.Reading
	rank  int32
	clock float64 // 0 when not busy.
}

// Facts gives the GPUs' evidence.
func (c *NVML) Facts() []nodeapi.Fact {
	lib := c.lib.Load()
	if lib == nil {
		return nil
	}
	devices, err := (*lib).Devices()
	if err != nil {
		c.log.Debug("Listing GPUs", "err", err)
	}
	ranks := c.ranks.Ranks()
	states := make([]gpuState, 0, len(devices))
	var clocks []float64
	for _, d := range devices {
		s := gpuState{info: d.Info(), r: d.Read()}
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
			facts = append(facts, f)
		}
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
	f.Text = strings.Join(why, ", ")
	median := clocks[len(clocks)/2]
	if len(clocks) >= 3 && s.clock < slowClock*median {
		f.Expected = median / 1e6
		return f, true
	}
	return f, unusual && s.clock < slowClock*s.r.Values[nvml.SMMaxClock]
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
