// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/lab/fakegpu/nvml/nvmltest"
)

const childEnv = "FAKEGPU_NVML_TEST_CHILD"

var (
	lib    nvml.Interface
	played nvmltest.Host
	gpus   int // Handed out; each test has its own.
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	lib = nvml.New(nvml.WithLibraryPath(library))
	if os.Getenv(childEnv) != "" {
		return describe()
	}
	dir, err := os.MkdirTemp("", "fakegpu-nvml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if played, err = nvmltest.NewHost(dir, "alpha", 16); err == nil {
		err = os.Setenv("FAKEGPU_DIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if ret := lib.Init(); ret != nvml.SUCCESS {
		fmt.Fprintf(os.Stderr, "loading %s: %v; make -C lab/fakegpu/nvml builds it\n", library, ret)
		return 1
	}
	return m.Run()
}

// device gives a healthy GPU that no other test uses.
func device(t *testing.T) (int, nvml.Device) {
	t.Helper()
	n := gpus % 16
	gpus++
	writeState(t, played, n, state{})
	played.Control(t, n)
	var d nvml.Device
	nvmltest.Eventually(t, func() error {
		handle, ret := lib.DeviceGetHandleByIndex(n)
		if ret != nvml.SUCCESS {
			return fmt.Errorf("opening GPU %d: %w", n, ret)
		}
		d = handle
		return expect("power", value(d.GetPowerUsage()), uint32(60000))
	})
	t.Cleanup(func() { played.Control(t, n) })
	return n, d
}

// value drops the result of a getter that must work.
func value[T any](v T, ret nvml.Return) any {
	if ret != nvml.SUCCESS {
		return ret
	}
	return v
}

func expect(what string, got, want any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return nil
}

func TestSystem(t *testing.T) {
	for _, err := range []error{
		expect("driver", value(lib.SystemGetDriverVersion()), "580.95.05"),
		expect("library", value(lib.SystemGetNVMLVersion()), "13.580.95.05"),
		expect("CUDA", value(lib.SystemGetCudaDriverVersion_v2()), 13000),
		expect("count", value(lib.DeviceGetCount()), 16),
		expect("error", lib.ErrorString(nvml.ERROR_GPU_IS_LOST), "GPU is lost"),
		expect("unknown error", lib.ErrorString(12345), "Unknown Error"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	name, ret := lib.SystemGetProcessName(os.Getpid())
	if ret != nvml.SUCCESS || name != os.Args[0] {
		t.Errorf("own name %q, %v", name, ret)
	}
}

func TestHandles(t *testing.T) {
	index, d := device(t)
	uuid, ret := d.GetUUID()
	if ret != nvml.SUCCESS || !regexp.MustCompile(`^GPU(-[0-9a-f]+){5}$`).MatchString(uuid) || len(uuid) != 40 {
		t.Errorf("UUID %q, %v", uuid, ret)
	}
	serial, ret := d.GetSerial()
	if ret != nvml.SUCCESS || len(serial) != 13 {
		t.Errorf("serial number %q, %v", serial, ret)
	}
	pci, ret := d.GetPciInfo()
	bus := fmt.Sprintf("00000000:%02X:00.0", 0x10+index)
	if text := strings.TrimRight(string(pci.BusId[:]), "\x00"); ret != nvml.SUCCESS || text != bus || pci.Bus != uint32(0x10+index) {
		t.Errorf("PCI %q, bus %d, %v", text, pci.Bus, ret)
	}
	ext, ret := d.GetPciInfoExt()
	if ret != nvml.SUCCESS || ext.BusId != pci.BusId || ext.PciDeviceId != pci.PciDeviceId {
		t.Errorf("extended PCI %+v, %v", ext, ret)
	}
	for _, find := range []struct {
		by string
		f  func() (nvml.Device, nvml.Return)
	}{
		{"UUID", func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUID(uuid) }},
		{"serial number", func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleBySerial(serial) }},
		{"PCI", func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId(bus) }},
		{"short PCI", func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId(bus[4:]) }},
	} {
		got, ret := find.f()
		if ret != nvml.SUCCESS || got != d {
			t.Errorf("by %s: %v, %v", find.by, got, ret)
		}
	}
	if _, ret := lib.DeviceGetHandleByIndex(16); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("GPU 16 of 16: %v", ret)
	}
	if _, ret := lib.DeviceGetHandleByUUID("GPU-none"); ret != nvml.ERROR_NOT_FOUND {
		t.Errorf("no UUID: %v", ret)
	}
	major, minor, ret := d.GetCudaComputeCapability()
	if ret != nvml.SUCCESS || major != 8 || minor != 0 {
		t.Errorf("capability %d.%d, %v", major, minor, ret)
	}
	for _, err := range []error{
		expect("index", value(d.GetIndex()), index),
		expect("minor number", value(d.GetMinorNumber()), index),
		expect("name", value(d.GetName()), "Fake GPU"),
		expect("compute mode", value(d.GetComputeMode()), nvml.COMPUTEMODE_DEFAULT),
		expect("accounting", value(d.GetAccountingMode()), nvml.FEATURE_DISABLED),
		expect("compute instance", value(d.GetComputeInstanceId()), nvml.ERROR_NOT_SUPPORTED),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if now, pending, ret := d.GetMigMode(); ret != nvml.SUCCESS || now != 0 || pending != 0 {
		t.Errorf("MIG %d, %d, %v", now, pending, ret)
	}
}

// readings are what the control file can change, by name.
func readings(d nvml.Device) map[string]any {
	_, uncorrected, pending, failed, rows := d.GetRemappedRows()
	down := 0
	for link := range nvml.NVLINK_MAX_LINKS {
		if state, ret := d.GetNvLinkState(link); ret == nvml.SUCCESS && state == nvml.FEATURE_DISABLED {
			down++
		}
	}
	fields := []nvml.FieldValue{{FieldId: nvml.FI_DEV_ECC_DBE_AGG_TOTAL}, {FieldId: nvml.FI_DEV_NVLINK_GET_STATE, ScopeId: 3}, {FieldId: nvml.FI_DEV_RETIRED_SBE}}
	if ret := d.GetFieldValues(fields); ret != nvml.SUCCESS {
		return map[string]any{"fields": ret}
	}
	memory, _ := d.GetUtilizationRates()
	return map[string]any{
		"sm": value(d.GetClockInfo(nvml.CLOCK_SM)), "memory": value(d.GetClockInfo(nvml.CLOCK_MEM)),
		"reasons": value(d.GetCurrentClocksEventReasons()), "old reasons": value(d.GetCurrentClocksThrottleReasons()),
		"state": value(d.GetPerformanceState()), "celsius": value(d.GetTemperature(nvml.TEMPERATURE_GPU)),
		"milliwatts": value(d.GetPowerUsage()), "busy": memory.Gpu,
		"generation": value(d.GetCurrPcieLinkGeneration()), "width": value(d.GetCurrPcieLinkWidth()),
		"replays":     value(d.GetPcieReplayCounter()),
		"corrected":   value(d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC)),
		"uncorrected": value(d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC)),
		"rows":        []any{uncorrected, pending, failed, rows}, "links down": down,
		"link errors":       value(d.GetNvLinkErrorCounter(0, nvml.NVLINK_ERROR_DL_REPLAY)),
		"field uncorrected": binary.NativeEndian.Uint64(fields[0].Value[:]),
		"field link 3":      binary.NativeEndian.Uint32(fields[1].Value[:]),
		"field retired":     nvml.Return(fields[2].NvmlReturn),
	}
}

// TestTelemetry asks for each thing that a control file can ask for.
func TestTelemetry(t *testing.T) {
	index, d := device(t)
	healthy := map[string]any{
		"sm": uint32(210), "memory": uint32(1215), "reasons": uint64(nvml.ClocksEventReasonGpuIdle), "old reasons": uint64(nvml.ClocksEventReasonGpuIdle),
		"state": nvml.PSTATE_8, "celsius": uint32(38), "milliwatts": uint32(60000), "busy": uint32(0), "generation": 4, "width": 16, "replays": 0,
		"corrected": uint64(0), "uncorrected": uint64(0), "rows": []any{0, false, false, nvml.SUCCESS}, "links down": 0, "link errors": uint64(0),
		"field uncorrected": uint64(0), "field link 3": uint32(1), "field retired": nvml.ERROR_NOT_SUPPORTED,
	}
	busy := map[string]any{
		"sm": uint32(1410), "reasons": uint64(0), "old reasons": uint64(0), "state": nvml.PSTATE_0, "celsius": uint32(71), "milliwatts": uint32(390000),
		"busy": uint32(100),
	}
	limited := func(sm uint32, reasons uint64, milliwatts, celsius uint32) map[string]any {
		return map[string]any{"sm": sm, "reasons": reasons, "old reasons": reasons, "milliwatts": milliwatts, "celsius": celsius}
	}
	for _, tt := range []struct {
		name    string
		control []string
		busy    bool
		want    map[string]any // Where it differs.
	}{
		{name: "healthy and idle"},
		{name: "healthy and busy", busy: true},
		{"slow", []string{"speed 0.5"}, true, limited(705, nvml.ClocksThrottleReasonHwSlowdown, 225000, 54)},
		{"power cap", []string{"throttle power"}, true, limited(1128, nvml.ClocksEventReasonSwPowerCap, 324000, 64)},
		{"heat", []string{"throttle thermal"}, true, limited(846, nvml.ClocksEventReasonSwThermalSlowdown, 258000, 92)},
		{
			"two reasons and a speed",
			[]string{"throttle hw_thermal, sync_boost", "speed 0.25"},
			true,
			limited(353, nvml.ClocksThrottleReasonHwThermalSlowdown|nvml.ClocksThrottleReasonHwSlowdown|nvml.ClocksEventReasonSyncBoost, 142617, 92),
		},
		{
			"power brake",
			[]string{"throttle power_brake"},
			true,
			limited(705, nvml.ClocksThrottleReasonHwPowerBrakeSlowdown|nvml.ClocksThrottleReasonHwSlowdown, 225000, 54),
		},
		{"application clocks", []string{"throttle app"}, true, limited(1269, nvml.ClocksEventReasonApplicationsClocksSetting, 357000, 67)},
		{"clocks", []string{"clock.sm 600", "clock.mem 400"}, true, map[string]any{"sm": uint32(600), "memory": uint32(400), "milliwatts": uint32(200425), "celsius": uint32(52)}},
		{"heat and power", []string{"temperature 77", "power 123.5"}, false, map[string]any{"celsius": uint32(77), "milliwatts": uint32(123500)}},
		{"PCI Express", []string{"pcie.gen 1", "pcie.width 8", "pcie.replays 12"}, false, map[string]any{"generation": 1, "width": 8, "replays": 12}},
		{"NVLink", []string{"nvlink.down 3,5", "nvlink.errors 9"}, false, map[string]any{"links down": 2, "link errors": uint64(9), "field link 3": uint32(0)}},
		{
			"memory errors",
			[]string{"ecc.corrected 5", "ecc.uncorrected 2"},
			false,
			map[string]any{"corrected": uint64(5), "uncorrected": uint64(2), "field uncorrected": uint64(2)},
		},
		{"rows", []string{"rows.pending 1", "rows.failed 1"}, false, map[string]any{"rows": []any{1, true, true, nvml.SUCCESS}}},
		{name: "healthy again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := map[string]any{}
			for _, from := range []map[string]any{healthy, tt.want} {
				maps.Copy(want, from)
			}
			if tt.busy {
				for k, v := range busy {
					if _, ok := tt.want[k]; !ok {
						want[k] = v
					}
				}
				tt.control = append(tt.control, "utilization 100")
			}
			played.Control(t, index, tt.control...)
			nvmltest.Eventually(t, func() error { return expect("readings", readings(d), want) })
		})
	}
}

// TestLoad has what the runtime leaves: work, memory, transfers, processes.
func TestLoad(t *testing.T) {
	index, d := device(t)
	utilization := func(want uint32) {
		nvmltest.Eventually(t, func() error {
			u, ret := d.GetUtilizationRates()
			if ret != nvml.SUCCESS || u.Gpu != want {
				return fmt.Errorf("utilization %d%%, %w; want %d%%", u.Gpu, ret, want)
			}
			return nil
		})
	}
	utilization(0)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	s := state{Memory: 5 << 20, PCIeOut: 1 << 20}
	s.Processes[0] = process{PID: uint32(gone.Process.Pid), Memory: 2 << 20}
	s.Processes[3] = process{PID: uint32(os.Getpid()), Memory: 3 << 20}
	s.BusyNS = uint64(time.Hour)
	writeState(t, played, index, s)
	utilization(100)
	utilization(0) // It is of the time since the last sample.
	memory, ret := d.GetMemoryInfo()
	if ret != nvml.SUCCESS || memory.Used != 3<<20 || memory.Total != 16<<30 || memory.Free != memory.Total-memory.Used {
		t.Errorf("memory %+v, %v", memory, ret)
	}
	v2, ret := d.GetMemoryInfo_v2()
	if ret != nvml.SUCCESS || v2.Used != memory.Used || v2.Total != memory.Total {
		t.Errorf("memory v2 %+v, %v", v2, ret)
	}
	list, ret := d.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS || len(list) != 1 || list[0].Pid != uint32(os.Getpid()) || list[0].UsedGpuMemory != 3<<20 {
		t.Errorf("processes %+v, %v; the one that is gone is not there", list, ret)
	}
	if list, ret := d.GetGraphicsRunningProcesses(); ret != nvml.SUCCESS || len(list) != 0 {
		t.Errorf("graphics %+v, %v", list, ret)
	}
	sent := uint64(1 << 20)
	nvmltest.Eventually(t, func() error {
		sent += 1 << 30
		s.PCIeOut = sent
		writeState(t, played, index, s)
		kib, ret := d.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES)
		if ret != nvml.SUCCESS || kib == 0 {
			return fmt.Errorf("%d KiB/s, %w", kib, ret)
		}
		return nil
	})
}

func TestEnergyIntegratesPower(t *testing.T) {
	index, d := device(t)
	read := func() uint64 {
		mj, ret := d.GetTotalEnergyConsumption()
		if ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
		return mj
	}
	played.Control(t, index, "power 100000") // 100 kW: a joule takes 10 µs.
	start := time.Now()
	first := read()
	nvmltest.Eventually(t, func() error {
		if grown := read() - first; grown < 1_000_000 {
			return fmt.Errorf("grew by %d mJ in %v", grown, time.Since(start))
		}
		return nil
	})
	if grown, most := read()-first, time.Since(start).Seconds()*100e6; float64(grown) > most {
		t.Errorf("grew by %d mJ, and 100 kW are %.0f mJ in that time", grown, most)
	}
}

func TestTopology(t *testing.T) {
	_, a := device(t)
	_, b := device(t)
	for _, err := range []error{
		expect("one GPU", value(a.GetTopologyCommonAncestor(a)), nvml.TOPOLOGY_INTERNAL),
		expect("two GPUs", value(a.GetTopologyCommonAncestor(b)), nvml.TOPOLOGY_NODE),
		expect("P2P", value(a.GetP2PStatus(b, nvml.P2P_CAPS_INDEX_NVLINK)), nvml.P2P_STATUS_NOT_SUPPORTED),
		expect("NVLink for NCCL", value(a.GetNvLinkCapability(0, nvml.NVLINK_CAP_P2P_SUPPORTED)), uint32(0)),
		expect("NVLink's other end", value(a.GetNvLinkRemoteDeviceType(0)), nvml.NVLINK_DEVICE_TYPE_SWITCH),
		expect("NVLinks above those it has", value(a.GetNvLinkState(12)), nvml.ERROR_INVALID_ARGUMENT),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	near, ret := lib.DeviceGetTopologyNearestGpus(a, nvml.TOPOLOGY_NODE)
	if ret != nvml.SUCCESS || len(near) != 15 {
		t.Errorf("%d GPUs near, %v", len(near), ret)
	}
	cpus, ret := a.GetCpuAffinity(1024)
	if ret != nvml.SUCCESS || len(cpus) == 0 || cpus[0]&1 == 0 {
		t.Errorf("CPUs %v, %v", cpus, ret)
	}
	v2, ret := a.GetGpuFabricInfoV().V2()
	if ret != nvml.SUCCESS || v2.State != nvml.GPU_FABRIC_STATE_NOT_SUPPORTED {
		t.Errorf("fabric %+v, %v", v2, ret)
	}
	v3, ret := a.GetGpuFabricInfoV().V3()
	if ret != nvml.SUCCESS || v3.State != nvml.GPU_FABRIC_STATE_NOT_SUPPORTED {
		t.Errorf("fabric %+v, %v", v3, ret)
	}
}

// events registers a GPU with a set of its own.
func events(t *testing.T, d nvml.Device, types uint64) nvml.EventSet {
	t.Helper()
	set, ret := lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	t.Cleanup(func() {
		if ret := set.Free(); ret != nvml.SUCCESS {
			t.Error(ret)
		}
	})
	if ret := d.RegisterEvents(types, set); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	return set
}

func wait(t *testing.T, set nvml.EventSet) nvml.EventData {
	t.Helper()
	e, ret := set.Wait(uint32(nvmltest.Patience.Milliseconds()))
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	return e
}

func TestEvents(t *testing.T) {
	index, d := device(t)
	played.Control(t, index, "xid 13") // Before anybody registers.
	nvmltest.Eventually(t, func() error {
		// A set that registers now has seen it, or is told of it.
		set := events(t, d, nvml.EventTypeXidCriticalError)
		if e, ret := set.Wait(100); ret != nvml.ERROR_TIMEOUT {
			return fmt.Errorf("event %+v, %w", e, ret)
		}
		return nil
	})
	set := events(t, d, nvml.EventTypeXidCriticalError|nvml.EventTypeDoubleBitEccError|nvml.EventTypeSingleBitEccError|nvml.EventTypeClock)
	for _, step := range []struct {
		control []string
		kind    uint64
		data    uint64
	}{
		{[]string{"xid 79"}, nvml.EventTypeXidCriticalError, 79},
		{[]string{"xid 79 2"}, nvml.EventTypeXidCriticalError, 79}, // Again.
		{[]string{"xid 79 2", "ecc.uncorrected 1"}, nvml.EventTypeDoubleBitEccError, 0},
		{[]string{"xid 79 2", "ecc.uncorrected 1", "ecc.corrected 1"}, nvml.EventTypeSingleBitEccError, 0},
		{[]string{"xid 79 2", "ecc.uncorrected 1", "ecc.corrected 1", "clock.sm 500"}, nvml.EventTypeClock, 0},
		{[]string{"xid what", "ecc.uncorrected 1", "ecc.corrected 1", "clock.sm 500"}, nvml.EventTypeXidCriticalError, 999},
		{[]string{"xid 48", "ecc.uncorrected 1", "ecc.corrected 1", "clock.sm 500", "lost 1"}, nvml.EventTypeXidCriticalError, 48},
	} {
		played.Control(t, index, step.control...)
		e := wait(t, set)
		if e.EventType != step.kind || e.EventData != step.data || e.Device != d || e.GpuInstanceId != 0xffffffff {
			t.Errorf("%v: event %+v", step.control, e)
		}
	}
	if e, ret := set.Wait(1); ret != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("event %+v, %v, of a set with a lost GPU", e, ret)
	}
	if ret := d.RegisterEvents(nvml.EventTypePState, set); ret != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("registering a lost GPU: %v", ret)
	}
}

func TestEventsTimeOut(t *testing.T) {
	_, d := device(t)
	types, ret := d.GetSupportedEventTypes()
	if ret != nvml.SUCCESS || types&nvml.EventTypeXidCriticalError == 0 {
		t.Errorf("types %#x, %v", types, ret)
	}
	set := events(t, d, nvml.EventTypeXidCriticalError)
	start := time.Now()
	if e, ret := set.Wait(150); ret != nvml.ERROR_TIMEOUT || time.Since(start) < 150*time.Millisecond {
		t.Errorf("event %+v, %v after %v", e, ret, time.Since(start))
	}
	if ret := d.RegisterEvents(nvml.EventMigConfigChange, set); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("an event that no played GPU has: %v", ret)
	}
}

func TestLost(t *testing.T) {
	index, d := device(t)
	_, other := device(t)
	played.Control(t, index, "lost 1")
	nvmltest.Eventually(t, func() error { return expect("power", value(d.GetPowerUsage()), nvml.ERROR_GPU_IS_LOST) })
	if _, ret := lib.DeviceGetHandleByIndex(index); ret != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("a new handle: %v", ret)
	}
	for _, err := range []error{
		expect("number", value(d.GetIndex()), index),
		expect("count", value(lib.DeviceGetCount()), 16),
		expect("UUID", value(d.GetUUID()), nvml.ERROR_GPU_IS_LOST),
		expect("the other GPU", value(other.GetPowerUsage()), uint32(60000)),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	played.Control(t, index)
	nvmltest.Eventually(t, func() error { return expect("power", value(d.GetPowerUsage()), uint32(60000)) })
}

func TestHang(t *testing.T) {
	index, d := device(t)
	_, other := device(t)
	played.Control(t, index, "nvml.hang 1")
	done := make(chan bool)
	call := func() {
		_, ret := d.GetPowerUsage()
		done <- ret == nvml.SUCCESS
	}
	// A call that does not return; those before the file was looked at do.
	for hangs := false; !hangs; {
		go call()
		select {
		case <-done:
		case <-time.After(500 * time.Millisecond):
			hangs = true
		}
	}
	if _, ret := other.GetPowerUsage(); ret != nvml.SUCCESS {
		t.Errorf("the other GPU: %v", ret)
	}
	played.Control(t, index)
	select {
	case ok := <-done:
		if !ok {
			t.Error("the call failed")
		}
	case <-time.After(nvmltest.Patience):
		t.Error("the call hangs on")
	}
}

// TestSymbols has every function that go-nvml calls by name.
func TestSymbols(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "pkg", "nvml", "nvml.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`C\.(nvml[A-Z]\w*)\(`).FindAllSubmatch(text, -1) {
		names[string(m[1])] = true
	}
	if len(names) < 300 {
		t.Fatalf("%d functions found; the pattern does not fit go-nvml any more", len(names))
	}
	var missing []error
	for name := range names {
		missing = append(missing, lib.Extensions().LookupSymbol(name))
	}
	if err := errors.Join(missing...); err != nil {
		t.Error(err)
	}
}

// described is what a child process sees.
type described struct {
	GPUs  int
	UUIDs []string
	Clock uint32
}

// describe prints what this process sees of its host.
func describe() int {
	var d described
	if ret := lib.Init(); ret != nvml.SUCCESS {
		fmt.Fprintln(os.Stderr, ret)
		return 1
	}
	d.GPUs, _ = lib.DeviceGetCount()
	for i := range d.GPUs {
		gpu, ret := lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			fmt.Fprintln(os.Stderr, ret)
			return 1
		}
		uuid, _ := gpu.GetUUID()
		d.UUIDs = append(d.UUIDs, uuid)
		d.Clock, _ = gpu.GetClockInfo(nvml.CLOCK_SM)
	}
	if ret := lib.Shutdown(); ret != nvml.SUCCESS {
		fmt.Fprintln(os.Stderr, ret)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
		return 1
	}
	return 0
}

// TestTwoHosts has two hosts with a GPU each in two processes, one of them without a directory.
func TestTwoHosts(t *testing.T) {
	beta, err := nvmltest.NewHost(t.TempDir(), "beta", 2)
	if err != nil {
		t.Fatal(err)
	}
	beta.Control(t, 1, "clock.sm 777")
	look := func(dir string) described {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=1", "FAKEGPU_DIR="+dir, "CUDA_VISIBLE_DEVICES=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var d described
		if err := json.Unmarshal(out, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	b, none := look(string(beta)), look(filepath.Join(string(beta), "none"))
	if b.GPUs != 2 || b.Clock != 777 || b.UUIDs[0] == b.UUIDs[1] {
		t.Errorf("%+v", b)
	}
	if again := look(string(beta)); cmp.Diff(b, again) != "" {
		t.Errorf("%+v, then %+v", b, again)
	}
	if none.GPUs != 1 || none.Clock != 210 || none.UUIDs[0] == b.UUIDs[0] {
		t.Errorf("%+v", none)
	}
}
