// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/nvml"
	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// fakeLibrary is a management library of made-up GPUs.
type fakeLibrary struct {
	devices []nvml.Device
	err     error
	xids    []nvml.XID
}

func (f *fakeLibrary) Driver() string      { return "580.1" }
func (f *fakeLibrary) Count() (int, error) { return len(f.devices), f.err }
func (f *fakeLibrary) Close() error        { return nil }
func (f *fakeLibrary) Device(i int) (nvml.Device, error) {
	if d := f.devices[i]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("opening: %w", nvml.ErrLost)
}

func (f *fakeLibrary) WatchXIDs(_ context.Context, index int, tell func(nvml.XID)) error {
	for _, x := range f.xids {
		if f.devices[index].Info().UUID == x.UUID {
			tell(x)
		}
	}
	return errors.New("that was all")
}

type fakeGPU struct {
	info nvml.Info
	r    nvml.Reading
	hang chan struct{} // Nil: it answers.
}

func (g *fakeGPU) Info() nvml.Info { return g.info }
func (g *fakeGPU) Read() (nvml.Reading, error) {
	if g.hang != nil {
		<-g.hang
	}
	return g.r, nil
}

func busyGPU(index int, clock float64, reasons ...nvml.Reason) *fakeGPU {
	g := &fakeGPU{
		info: nvml.Info{Index: index, UUID: fmt.Sprintf("GPU-%d", index), Name: "H200", PCIBusID: fmt.Sprintf("00000000:1%d:00.0", index)},
		r: nvml.Reading{
			Values:  map[nvml.Quantity]float64{nvml.Utilization: 0.98, nvml.SMClock: clock, nvml.SMMaxClock: 1980e6, nvml.ECCUncorrected: 7},
			Reasons: map[nvml.Reason]bool{},
		},
	}
	for _, r := range reasons {
		g.r.Reasons[r] = true
	}
	return g
}

func newNVML(t *testing.T, lib *fakeLibrary, ranks Ranks) *NVML {
	t.Helper()
	c := NewNVML(func() (nvml.Library, error) { return lib, nil }, promslog.NewNopLogger(), sysfile.Root(t.TempDir()), ranks)
	c.Run(t.Context())
	return c
}

func TestNVML(t *testing.T) {
	full := busyGPU(0, 1980e6, nvml.ReasonPowerCap)
	for q := nvml.SMClock; q <= nvml.NVLinksInactive; q++ {
		full.r.Values[q] = float64(q) + 0.5
	}
	full.r.Processes = map[int]uint64{1: 2, 3: 4}
	poor := &fakeGPU{info: nvml.Info{Index: 1, UUID: "GPU-1"}, r: nvml.Reading{Values: map[nvml.Quantity]float64{nvml.Power: 50}}}
	lib := &fakeLibrary{
		devices: []nvml.Device{full, poor},
		xids:    []nvml.XID{{UUID: "GPU-0", Code: 79}, {UUID: "GPU-0", Code: 79}, {UUID: "elsewhere", Code: 31}},
	}
	expect(t, newNVML(t, lib, fakeRanks{{JobID: "llm", Rank: 5, HostPID: 3}}), `
culprit_nvml_clock_limited gpu=0 reason=hw_slowdown = 0
culprit_nvml_clock_limited gpu=0 reason=hw_thermal = 0
culprit_nvml_clock_limited gpu=0 reason=power_brake = 0
culprit_nvml_clock_limited gpu=0 reason=power_cap = 1
culprit_nvml_clock_limited gpu=0 reason=sw_thermal = 0
culprit_nvml_clock_limited gpu=0 reason=sync_boost = 0
culprit_nvml_compute_processes gpu=0 = 2
culprit_nvml_ecc_errors_total gpu=0 severity=corrected = 14.5
culprit_nvml_ecc_errors_total gpu=0 severity=uncorrected = 15.5
culprit_nvml_gpu_answers gpu=0 = 1
culprit_nvml_gpu_answers gpu=1 = 1
culprit_nvml_gpu_info driver_version=580.1 gpu=0 name=H200 pci_bus_id=0000:10:00.0 uuid=GPU-0 = 1
culprit_nvml_gpu_info driver_version=580.1 gpu=1 name= pci_bus_id= uuid=GPU-1 = 1
culprit_nvml_memory_bytes gpu=0 = 8.5
culprit_nvml_memory_clock_hertz gpu=0 = 2.5
culprit_nvml_memory_used_bytes gpu=0 = 7.5
culprit_nvml_nvlink_errors_total gpu=0 kind=crc = 22.5
culprit_nvml_nvlink_errors_total gpu=0 kind=recovery = 21.5
culprit_nvml_nvlink_errors_total gpu=0 kind=replay = 20.5
culprit_nvml_nvlink_links gpu=0 state=active = 23.5
culprit_nvml_nvlink_links gpu=0 state=inactive = 24.5
culprit_nvml_pcie_link_generation gpu=0 = 11.5
culprit_nvml_pcie_link_max_generation gpu=0 = 12.5
culprit_nvml_pcie_link_max_width gpu=0 = 10.5
culprit_nvml_pcie_link_width gpu=0 = 9.5
culprit_nvml_pcie_replays_total gpu=0 = 13.5
culprit_nvml_power_limit_watts gpu=0 = 4.5
culprit_nvml_power_watts gpu=0 = 3.5
culprit_nvml_power_watts gpu=1 = 50
culprit_nvml_process_info gpu=0 job_id= pid=1 rank= = 1
culprit_nvml_process_info gpu=0 job_id=llm pid=3 rank=5 = 1
culprit_nvml_remapped_rows gpu=0 severity=corrected = 16.5
culprit_nvml_remapped_rows gpu=0 severity=uncorrected = 17.5
culprit_nvml_row_remap_failed gpu=0 = 19.5
culprit_nvml_row_remap_pending gpu=0 = 18.5
culprit_nvml_sm_clock_hertz gpu=0 = 0.5
culprit_nvml_sm_max_clock_hertz gpu=0 = 1.5
culprit_nvml_temperature_celsius gpu=0 = 5.5
culprit_nvml_utilization_ratio gpu=0 = 6.5
culprit_nvml_xid_errors_total gpu=0 xid=79 = 2
`)
}

func TestNVMLUnavailable(t *testing.T) {
	driver := t.TempDir()
	if err := os.MkdirAll(filepath.Join(driver, "driver/nvidia"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(driver, "driver/nvidia/version"), []byte("NVRM version: 580\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trouble := errors.New("driver trouble")
	for _, tc := range []struct {
		err    error
		procfs string
		said   string // Empty: nothing, a node without GPUs is none to worry about.
	}{
		{nvml.ErrUnavailable, t.TempDir(), ""},
		{nvml.ErrUnavailable, driver, "the node has the driver"},
		{trouble, driver, "driver trouble"},
	} {
		err := tc.err
		var log bytes.Buffer
		c := NewNVML(func() (nvml.Library, error) { return nil, err }, slog.New(slog.NewTextHandler(&log, nil)), sysfile.Root(tc.procfs), fakeRanks(nil))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.Run(ctx)
		if said := log.String(); !strings.Contains(said, tc.said) || tc.said == "" && said != "" {
			t.Errorf("after %v with %s the log says %q, want %q", err, tc.procfs, said, tc.said)
		}
		if got := c.Collect(t.Context(), func(prometheus.Metric) {}); !errors.Is(got, ErrNoData) {
			t.Errorf("after %v: %v", err, got)
		}
		facts(t, c.Facts())
	}
}

// TestDriverThatComesLate has the driver loaded after the exporter has started.
func TestDriverThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c := NewNVML(func() (nvml.Library, error) {
			if tries++; tries < 4 {
				return nil, nvml.ErrUnavailable
			}
			return &fakeLibrary{}, nil
		}, promslog.NewNopLogger(), sysfile.Root(t.TempDir()), fakeRanks(nil))
		began := time.Now()
		c.Run(t.Context())
		if err := c.Collect(t.Context(), func(prometheus.Metric) {}); err != nil || time.Since(began) != 3*retryNVML {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// collected gives the lines of one collection of the series that tell of a GPU's state.
func collected(t *testing.T, c *NVML) ([]string, error) {
	t.Helper()
	var lines []string
	err := c.Collect(t.Context(), func(m prometheus.Metric) {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			t.Fatal(err)
		}
		if d := m.Desc(); d == nvmlAnswersDesc || d == nvmlXIDDesc || d == nvmlMetrics[0].desc {
			lines = append(lines, fmt.Sprintf("%s %v", out.Label[0].GetValue(), out.GetGauge().GetValue()+out.GetCounter().GetValue()))
		}
	})
	return lines, err
}

// TestNVMLLostGPU loses a GPU: its XIDs and its fact stay, and so does all of the other GPU.
func TestNVMLLostGPU(t *testing.T) {
	lib := &fakeLibrary{devices: []nvml.Device{busyGPU(0, 1980e6), busyGPU(1, 1980e6)}, xids: []nvml.XID{{UUID: "GPU-0", Code: 79, At: time.Now()}}}
	c := newNVML(t, lib, fakeRanks{{Rank: 4, UUID: "GPU-0"}})
	if _, err := collected(t, c); err != nil {
		t.Fatal(err)
	}
	lib.devices[0] = nil
	lines, err := collected(t, c)
	if diff := cmp.Diff([]string{"0 0", "0 1", "1 1", "1 1.98e+09"}, lines); diff != "" || !errors.Is(err, nvml.ErrLost) {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got := c.Facts()
	for i := range got {
		got[i].AgeSeconds = 0
	}
	of := func(kind string, value float64) nodeapi.Fact {
		return nodeapi.Fact{Component: "gpu", Device: "gpu0", Kind: kind, Rank: 4, Value: value}
	}
	facts(t, got, of("xid", 79), of("gpu_lost", 1))
}

// TestNVMLHangingGPU has a GPU for which the driver does not answer: it costs its own series only, and is asked again once it has
// answered.
func TestNVMLHangingGPU(t *testing.T) {
	stuck := busyGPU(0, 1980e6)
	lib := &fakeLibrary{devices: []nvml.Device{stuck, busyGPU(1, 1980e6)}}
	c := newNVML(t, lib, fakeRanks{{Rank: 4, UUID: "GPU-0"}})
	if _, err := collected(t, c); err != nil {
		t.Fatal(err)
	}
	stuck.hang = make(chan struct{})
	for range 2 {
		lines, err := collected(t, c)
		if diff := cmp.Diff([]string{"0 0", "1 1", "1 1.98e+09"}, lines); diff != "" || !errors.Is(err, errNoAnswer) {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	got := c.Facts()
	if len(got) != 1 || got[0].Kind != "driver_hang" || got[0].Rank != 4 || got[0].Value < gpuPatience.Seconds() {
		t.Errorf("%+v", got)
	}
	close(stuck.hang)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		lines, err := collected(t, c)
		if err == nil {
			if diff := cmp.Diff([]string{"0 1", "0 1.98e+09", "1 1", "1 1.98e+09"}, lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			break
		}
		<-tick.C
	}
}

func TestNVMLWithoutCount(t *testing.T) {
	c := newNVML(t, &fakeLibrary{err: errors.New("driver trouble")}, fakeRanks(nil))
	if _, err := collected(t, c); err == nil {
		t.Error("no error")
	}
	facts(t, c.Facts())
}

func TestNVMLFacts(t *testing.T) {
	now := time.Unix(10000, 0)
	gpu := func(index int, kind string, rank int32, value float64) nodeapi.Fact {
		return nodeapi.Fact{Component: "gpu", Device: fmt.Sprintf("gpu%d", index), Kind: kind, Rank: rank, Value: value}
	}
	clock := func(index int, rank int32, mhz, expected float64) nodeapi.Fact {
		f := gpu(index, "clock_throttled", rank, mhz)
		f.Expected, f.Unit = expected, "MHz"
		return f
	}
	xid := gpu(0, "xid", 4, 79)
	xid.AgeSeconds = 60
	idle := busyGPU(0, 300e6, nvml.ReasonThermal)
	idle.r.Values[nvml.Utilization] = 0
	failed := busyGPU(0, 1980e6)
	failed.r.Values[nvml.RemapFailed] = 1
	shared := busyGPU(0, 1980e6)
	shared.r.Processes = map[int]uint64{100: 1 << 40, 101: 1 << 30, 102: 1 << 20}
	for _, tt := range []struct {
		name    string
		devices []nvml.Device
		xids    []nvml.XID
		ranks   fakeRanks
		want    []nodeapi.Fact
	}{
		{"healthy", []nvml.Device{busyGPU(0, 1980e6), busyGPU(1, 1900e6)}, nil, nil, nil},
		{"power cap alone is usual", []nvml.Device{busyGPU(0, 1400e6, nvml.ReasonPowerCap)}, nil, nil, nil},
		{
			"power cap on one of four",
			[]nvml.Device{busyGPU(0, 1700e6), busyGPU(1, 1400e6, nvml.ReasonPowerCap), busyGPU(2, 1700e6), busyGPU(3, 1710e6)},
			nil,
			fakeRanks{{Rank: 9, GPU: "1"}},
			[]nodeapi.Fact{clock(1, 9, 1400, 1700)},
		},
		{"heat", []nvml.Device{busyGPU(0, 1400e6, nvml.ReasonHWThermal)}, nil, nil, []nodeapi.Fact{clock(0, -1, 1400, 1980)}},
		{"heat that costs nothing", []nvml.Device{busyGPU(0, 1970e6, nvml.ReasonThermal)}, nil, nil, nil},
		{"idle", []nvml.Device{idle}, nil, nil, nil},
		{
			"xid, found by uuid",
			[]nvml.Device{busyGPU(0, 1980e6)},
			[]nvml.XID{{UUID: "GPU-0", Code: 79, At: now.Add(-time.Minute)}},
			fakeRanks{{Rank: 3, GPU: "0"}, {Rank: 4, UUID: "GPU-0"}},
			[]nodeapi.Fact{xid},
		},
		{"old xid", []nvml.Device{busyGPU(0, 1980e6)}, []nvml.XID{{UUID: "GPU-0", Code: 79, At: now.Add(-time.Hour)}}, nil, nil},
		{
			"row that could not be remapped, found by bus",
			[]nvml.Device{failed},
			nil,
			fakeRanks{{Rank: 5, PCIBusID: "0000:10:00.0"}},
			[]nodeapi.Fact{gpu(0, "row_remap_failed", 5, 1)},
		},
		{
			"somebody else computes",
			[]nvml.Device{shared},
			nil,
			fakeRanks{{Rank: 5, GPU: "0", HostPID: 100}},
			[]nodeapi.Fact{gpu(0, "foreign_process", 5, 1)},
		},
		{"rank that the kernel does not show", []nvml.Device{shared}, nil, fakeRanks{{Rank: 5, GPU: "0"}}, nil},
		{"no rank uses it", []nvml.Device{shared}, nil, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newNVML(t, &fakeLibrary{devices: tt.devices, xids: tt.xids}, tt.ranks)
			c.now = func() time.Time { return now }
			facts(t, c.Facts(), tt.want...)
		})
	}
}

func TestNVMLCountersMustGrow(t *testing.T) {
	g := busyGPU(0, 1980e6)
	c := newNVML(t, &fakeLibrary{devices: []nvml.Device{g}}, fakeRanks{{Rank: 1, GPU: "0"}})
	facts(t, c.Facts())
	g.r.Values[nvml.ECCUncorrected]++
	f := nodeapi.Fact{Component: "gpu", Device: "gpu0", Kind: "ecc_uncorrectable", Value: 1, Rank: 1}
	got := c.Facts()
	for i := range got {
		got[i].AgeSeconds = 0
	}
	facts(t, got, f)
}

func TestNormalPCI(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:1B:00.0": "0000:1b:00.0", "0000:1b:00.0": "0000:1b:00.0", "00010000:1B:00.0": "00010000:1b:00.0", "": "", "x": "x",
	} {
		if got := node.NormalPCI(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestNVLinkDown has links that were up and are not any more, on a GPU that never had all of them.
func TestNVLinkDown(t *testing.T) {
	gpu := &fakeGPU{info: nvml.Info{UUID: "GPU-0"}, r: nvml.Reading{Values: map[nvml.Quantity]float64{nvml.NVLinksActive: 12, nvml.NVLinksInactive: 6}}}
	c := newNVML(t, &fakeLibrary{devices: []nvml.Device{gpu}}, fakeRanks{{Rank: 3, UUID: "GPU-0"}})
	facts(t, c.Facts())
	gpu.r.Values[nvml.NVLinksActive], gpu.r.Values[nvml.NVLinksInactive] = 10, 8
	facts(t, c.Facts(), nodeapi.Fact{Component: "gpu", Device: "gpu0", Kind: "nvlink_down", Value: 10, Expected: 12, Unit: "links", Rank: 3})
	gpu.r.Values[nvml.NVLinksActive], gpu.r.Values[nvml.NVLinksInactive] = 12, 6
	facts(t, c.Facts())
}
