// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// PCI exports the PCI Express links of GPUs and network cards.
type PCI struct {
	sys   sysfile.Root
	ranks Ranks
	now   func() time.Time

	mu     sync.Mutex
	counts changes

	listMu sync.Mutex
	list   []pciDevice
	listed time.Time
}

// NewPCI makes the pci collector.
func NewPCI(sys sysfile.Root, ranks Ranks) *PCI {
	return &PCI{sys: sys, ranks: ranks, now: time.Now, counts: changes{}}
}

func pciDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("culprit_pci_"+name, help, append([]string{"device"}, labels...), nil)
}

var (
	pciInfoDesc = pciDesc("device_info", "What a PCI device is: a gpu or a nic. The value is 1.",
		"kind", "vendor_id", "device_id", "numa_node", "driver")
	pciWidthDesc    = pciDesc("link_width", "Lanes that the link uses.")
	pciMaxWidthDesc = pciDesc("link_max_width", "Lanes that the device and its slot both offer.")
	pciSpeedDesc    = pciDesc("link_transfers_per_second", "Transfers a second and lane. Idle GPUs lower it.")
	pciMaxSpeedDesc = pciDesc("link_max_transfers_per_second", "Transfers a second and lane that the device and its slot both offer.")
	pciAERDesc      = pciDesc("errors_total", "Errors of the link that the device reported (AER), by severity.", "severity")
)

// PCI class codes, without the programming interface.
const (
	classVGA        = 0x0300
	class3D         = 0x0302
	classAccel      = 0x1200
	classEthernet   = 0x0200
	classInfiniBand = 0x0207
)

// gpuVendors make GPUs that NCCL or RCCL runs on; other display adapters are the console's.
var gpuVendors = map[uint64]bool{0x10de: true, 0x1002: true}

type pciDevice struct {
	bdf, dir, kind string
}

// listPeriod is for how long a list of devices counts. There are hundreds to look through, and few ever come or go.
const listPeriod = 30 * time.Second

// devices lists GPUs and network cards.
func (c *PCI) devices() []pciDevice {
	c.listMu.Lock()
	defer c.listMu.Unlock()
	if now := c.now(); c.listed.IsZero() || now.Sub(c.listed) >= listPeriod {
		c.list, c.listed = c.find(), now
	}
	return c.list
}

// find looks for GPUs and network cards; virtual functions share their parent's link.
func (c *PCI) find() []pciDevice {
	var list []pciDevice
	for _, dir := range c.sys.Glob("bus/pci/devices/*") {
		class, err := c.sys.Uint(dir, "class")
		if err != nil {
			continue
		}
		vendor, err := c.sys.Uint(dir, "vendor")
		if err != nil {
			continue
		}
		d := pciDevice{bdf: path.Base(dir), dir: dir}
		switch class >> 8 {
		case classVGA, class3D, classAccel:
			if gpuVendors[vendor] {
				d.kind = "gpu"
			}
		case classEthernet, classInfiniBand:
			d.kind = "nic"
		}
		if d.kind == "" {
			continue
		}
		if _, err := os.Lstat(c.sys.Path(dir, "physfn")); err == nil {
			continue
		}
		list = append(list, d)
	}
	return list
}

// link is one end's view of a PCI Express link; zero where the device does not say.
type link struct {
	width, maxWidth uint64
	speed, maxSpeed float64 // Transfers a second.
}

// link reads a device's link. What it can reach is also bounded by the slot, the bridge above it.
func (c *PCI) link(d pciDevice) link {
	l := c.end(d.dir)
	real, err := filepath.EvalSymlinks(c.sys.Path(d.dir))
	if err != nil {
		return l
	}
	up, err := filepath.Rel(string(c.sys), filepath.Dir(real))
	if err != nil || strings.HasPrefix(up, "..") {
		return l
	}
	slot := c.end(up)
	if slot.maxWidth > 0 {
		l.maxWidth = min(l.maxWidth, slot.maxWidth)
	}
	if slot.maxSpeed > 0 {
		l.maxSpeed = min(l.maxSpeed, slot.maxSpeed)
	}
	return l
}

func (c *PCI) end(dir string) link {
	var l link
	for file, dst := range map[string]*uint64{"current_link_width": &l.width, "max_link_width": &l.maxWidth} {
		// 255 is what a device says that is not on a PCI Express link.
		if v, err := c.sys.Uint(dir, file); err == nil && v < 255 {
			*dst = v
		}
	}
	for file, dst := range map[string]*float64{"current_link_speed": &l.speed, "max_link_speed": &l.maxSpeed} {
		// "16.0 GT/s PCIe", or "Unknown".
		text, err := c.sys.Text(dir, file)
		if err != nil {
			continue
		}
		number, _, _ := strings.Cut(text, " ")
		if v, err := strconv.ParseFloat(number, 64); err == nil && v >= 0 {
			*dst = v * 1e9
		}
	}
	return l
}

var aerFiles = map[string]string{"correctable": "aer_dev_correctable", "nonfatal": "aer_dev_nonfatal", "fatal": "aer_dev_fatal"}

// aer gives the total of a device's error file; false where there is none.
func (c *PCI) aer(d pciDevice, file string) (uint64, bool) {
	fields, err := c.sys.Fields(d.dir, file)
	if err != nil {
		return 0, false
	}
	for key, value := range fields {
		if strings.HasPrefix(key, "TOTAL_ERR") {
			n, err := strconv.ParseUint(value, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Collect implements Collector.
func (c *PCI) Collect(ctx context.Context, emit func(prometheus.Metric)) error {
	devices := c.devices()
	if len(devices) == 0 {
		return ErrNoData
	}
	for _, d := range devices {
		if err := ctx.Err(); err != nil {
			return err
		}
		text := func(name string) string {
			s, _ := c.sys.Text(d.dir, name)
			return s
		}
		driver, _ := c.sys.Link(d.dir, "driver")
		emit(prometheus.MustNewConstMetric(pciInfoDesc, prometheus.GaugeValue, 1,
			d.bdf, d.kind, strings.TrimPrefix(text("vendor"), "0x"), strings.TrimPrefix(text("device"), "0x"), text("numa_node"), driver))
		l := c.link(d)
		for _, v := range []struct {
			desc  *prometheus.Desc
			value float64
		}{
			{pciWidthDesc, float64(l.width)},
			{pciMaxWidthDesc, float64(l.maxWidth)},
			{pciSpeedDesc, l.speed},
			{pciMaxSpeedDesc, l.maxSpeed},
		} {
			if v.value > 0 {
				emit(prometheus.MustNewConstMetric(v.desc, prometheus.GaugeValue, v.value, d.bdf))
			}
		}
		for severity, file := range aerFiles {
			if n, ok := c.aer(d, file); ok {
				emit(prometheus.MustNewConstMetric(pciAERDesc, prometheus.CounterValue, float64(n), d.bdf, severity))
			}
		}
	}
	return nil
}

// Facts gives the links' evidence. Speed is judged for network cards only: GPUs lower it while they are idle.
func (c *PCI) Facts() []nodeapi.Fact {
	c.mu.Lock()
	defer c.mu.Unlock()
	ranks := map[string]int32{}
	for _, r := range c.ranks.Ranks() {
		if r.PCIBusID != "" {
			ranks[r.PCIBusID] = r.Rank
		}
	}
	now := c.now()
	var facts []nodeapi.Fact
	for _, d := range c.devices() {
		fact := nodeapi.Fact{Component: "pcie", Device: d.bdf, Rank: -1}
		if rank, ok := ranks[d.bdf]; ok && d.kind == "gpu" {
			fact.Rank = rank
		}
		l := c.link(d)
		if l.width > 0 && l.width < l.maxWidth {
			f := fact
			f.Kind, f.Value, f.Expected = "link_width_reduced", float64(l.width), float64(l.maxWidth)
			f.Text = fmt.Sprintf("%s %s uses %d of %d lanes", d.kind, d.bdf, l.width, l.maxWidth)
			facts = append(facts, f)
		}
		if d.kind == "nic" && l.speed > 0 && l.speed < l.maxSpeed {
			f := fact
			f.Kind, f.Value, f.Expected, f.Unit = "link_speed_reduced", l.speed/1e9, l.maxSpeed/1e9, "GT/s"
			facts = append(facts, f)
		}
		for _, severity := range []string{"nonfatal", "fatal"} {
			if n, ok := c.aer(d, aerFiles[severity]); ok {
				f := fact
				f.Kind = "aer_" + severity
				facts = c.counts.fact(facts, d.bdf+severity, n, now, f)
			}
		}
	}
	return facts
}
