// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/nvml"
	"github.com/culprit-project/culprit/exporter/sysfile"
)

// NVML exports NVIDIA GPUs. Each is read by itself: one that is lost or hangs costs its own series.
type NVML struct {
	open   func() (nvml.Library, error)
	lib    atomic.Pointer[nvml.Library] // Nil until Run has opened it.
	absent atomic.Pointer[error]        // Why it could not be opened.
	log    *slog.Logger
	procfs sysfile.Root
	ranks  Ranks
	now    func() time.Time
	gpus   gpuReader
	news   chan struct{} // The library is open, or an XID has come.

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
func NewNVML(open func() (nvml.Library, error), log *slog.Logger, procfs sysfile.Root, ranks Ranks) *NVML {
	return &NVML{
		open: open, log: log, procfs: procfs, ranks: ranks, now: time.Now, news: make(chan struct{}, 1),
		xids: map[xidKey]xidCount{}, counts: changes{}, links: map[string]float64{},
	}
}

func nvmlDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("culprit_nvml_"+name, help, append([]string{"gpu"}, labels...), nil)
}

var (
	nvmlInfoDesc = nvmlDesc("gpu_info", "Identity of a GPU. The value is 1.",
		"uuid", "name", "pci_bus_id", "driver_version")
	nvmlAnswersDesc = nvmlDesc("gpu_answers", "1 while the driver answers for the GPU; 0 while the GPU is lost or the driver hangs.")
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

// retryNVML is how long after the library could not be opened it is tried again: at boot, the exporter may start before the driver.
const retryNVML = time.Minute

// Run opens the library, when there is a driver, and watches every GPU for XIDs, each by itself, until ctx ends.
func (c *NVML) Run(ctx context.Context) {
	lib, err := c.open()
	for first := true; err != nil; lib, err = c.open() {
		if first {
			c.complain(err)
		}
		first = false
		reason := err
		c.absent.Store(&reason)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryNVML):
		}
	}
	c.lib.Store(&lib)
	c.tellNews() // Counters are judged from the first look on.
	n, err := lib.Count()
	if err != nil {
		c.log.Warn("GPU errors will not be seen", "err", err)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := lib.WatchXIDs(ctx, i, c.xid); err != nil {
				c.log.Warn("GPU errors will not be seen", "gpu", i, "err", err)
			}
		})
	}
	wg.Wait()
}

// complain says why GPUs are not watched, unless the node has none.
func (c *NVML) complain(err error) {
	_, noDriver := c.procfs.Text("driver", "nvidia", "version")
	switch {
	case !errors.Is(err, nvml.ErrUnavailable):
		c.log.Warn("NVIDIA GPUs are not watched", "err", err)
	case noDriver == nil: // A container sees the node's.
		c.log.Warn("NVIDIA GPUs are not watched: the node has the driver, and libnvidia-ml.so.1 is not here. In a container, have NVIDIA's runtime bring it in "+
			"(chart: exporter.runtimeClassName and exporter.visibleDevices), or switch this off by --no-collector.nvml", "err", err)
	}
}

func (c *NVML) xid(x nvml.XID) {
	c.log.Warn("GPU reports a critical error", "uuid", x.UUID, "xid", x.Code)
	c.mu.Lock()
	k := xidKey{x.UUID, x.Code}
	c.xids[k] = xidCount{c.xids[k].count + 1, x.At}
	c.mu.Unlock()
	c.tellNews()
}

func (c *NVML) tellNews() {
	select {
	case c.news <- struct{}{}:
	default: // It has been told.
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
	ranks := c.ranks.Ranks()
	looks, err := c.gpus.read(ctx, *lib)
	for i := range looks {
		c.device(&looks[i], driver, ranks, emit)
		err = errors.Join(err, looks[i].err)
	}
	return err
}

func (c *NVML) device(l *gpuLook, driver string, ranks []node.RankRef, emit func(prometheus.Metric)) {
	info, r := l.info, l.r
	gpu := strconv.Itoa(info.Index)
	metric := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		emit(prometheus.MustNewConstMetric(desc, kind, v, append([]string{gpu}, labels...)...))
	}
	answers := 1.0
	if l.err != nil {
		answers = 0
	}
	metric(nvmlAnswersDesc, prometheus.GaugeValue, answers)
	if info.UUID != "" || l.err == nil {
		metric(nvmlInfoDesc, prometheus.GaugeValue, 1, info.UUID, info.Name, node.NormalPCI(info.PCIBusID), driver)
	}
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
			if r := rankOfProcess(pid, rankOf(info, ranks), ranks); r != nil {
				job, rank = r.JobID, strconv.Itoa(int(r.Rank))
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
