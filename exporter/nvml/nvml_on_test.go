// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nonvml

package nvml

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"
)

func ok[T any](v T) func() (T, nvml.Return) {
	return func() (T, nvml.Return) { return v, nvml.SUCCESS }
}

func unsupported[T any]() func() (T, nvml.Return) {
	return func() (T, nvml.Return) {
		var zero T
		return zero, nvml.ERROR_NOT_SUPPORTED
	}
}

func fake() *mock.Device {
	info := nvml.PciInfo{}
	copy(info.BusId[:], "00000000:1B:00.0")
	return &mock.Device{
		GetUUIDFunc: ok("GPU-1"), GetNameFunc: ok("H200"), GetPciInfoFunc: ok(info),
		GetClockInfoFunc: func(c nvml.ClockType) (uint32, nvml.Return) {
			return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1980, nvml.CLOCK_MEM: 3201}[c], nvml.SUCCESS
		},
		GetMaxClockInfoFunc:           func(nvml.ClockType) (uint32, nvml.Return) { return 1980, nvml.SUCCESS },
		GetPowerUsageFunc:             ok(uint32(700_500)),
		GetEnforcedPowerLimitFunc:     unsupported[uint32](),
		GetTemperatureFunc:            func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 60, nvml.SUCCESS },
		GetUtilizationRatesFunc:       ok(nvml.Utilization{Gpu: 97}),
		GetMemoryInfoFunc:             ok(nvml.Memory{Used: 5, Total: 10}),
		GetCurrPcieLinkWidthFunc:      ok(8),
		GetMaxPcieLinkWidthFunc:       ok(16),
		GetCurrPcieLinkGenerationFunc: ok(5),
		GetMaxPcieLinkGenerationFunc:  ok(5),
		GetPcieReplayCounterFunc:      ok(3),
		GetTotalEccErrorsFunc: func(kind nvml.MemoryErrorType, _ nvml.EccCounterType) (uint64, nvml.Return) {
			return uint64(kind) + 1, nvml.SUCCESS
		},
		GetRemappedRowsFunc: func() (int, int, bool, bool, nvml.Return) { return 1, 2, true, false, nvml.SUCCESS },
		GetNvLinkStateFunc: func(link int) (nvml.EnableState, nvml.Return) {
			if link < 2 {
				return nvml.FEATURE_ENABLED, nvml.SUCCESS
			}
			return nvml.FEATURE_DISABLED, nvml.SUCCESS
		},
		GetNvLinkErrorCounterFunc: func(_ int, c nvml.NvLinkErrorCounter) (uint64, nvml.Return) {
			return map[nvml.NvLinkErrorCounter]uint64{
				nvml.NVLINK_ERROR_DL_REPLAY: 1, nvml.NVLINK_ERROR_DL_RECOVERY: 10, nvml.NVLINK_ERROR_DL_CRC_FLIT: 100,
				nvml.NVLINK_ERROR_DL_CRC_DATA: 1000,
			}[c], nvml.SUCCESS
		},
		GetCurrentClocksEventReasonsFunc: ok(uint64(nvml.ClocksEventReasonGpuIdle | nvml.ClocksEventReasonSwPowerCap | nvml.ClocksThrottleReasonHwThermalSlowdown)),
		GetComputeRunningProcessesFunc:   ok([]nvml.ProcessInfo{{Pid: 77, UsedGpuMemory: 1 << 30}}),
	}
}

func read(t *testing.T, d Device) Reading {
	t.Helper()
	r, err := d.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func opened(t *testing.T, s source) Device {
	t.Helper()
	d, err := newDevice(0, s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRead(t *testing.T) {
	d, err := newDevice(3, fake())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Info{Index: 3, UUID: "GPU-1", Name: "H200", PCIBusID: "00000000:1B:00.0"}, d.Info()); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	want := Reading{
		Values: map[Quantity]float64{
			SMClock: 1980e6, SMMaxClock: 1980e6, MemoryClock: 3201e6, Power: 700.5, Temperature: 60, Utilization: 0.97, MemoryUsed: 5,
			MemoryTotal: 10, PCIeWidth: 8, PCIeMaxWidth: 16, PCIeGeneration: 5, PCIeMaxGeneration: 5, PCIeReplays: 3, ECCCorrected: 1,
			ECCUncorrected: 2, RemappedCorrected: 1, RemappedUncorrected: 2, RemapPending: 1, RemapFailed: 0, NVLinkReplayErrors: 2,
			NVLinkRecoveryErrors: 20, NVLinkCRCErrors: 2200, NVLinksActive: 2, NVLinksInactive: 16,
		},
		Reasons:   map[Reason]bool{ReasonPowerCap: true, ReasonHWThermal: true},
		Processes: map[int]uint64{77: 1 << 30},
	}
	if diff := cmp.Diff(want, read(t, d), cmp.Comparer(func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 })); diff != "" {
		t.Errorf("reading (-want +got):\n%s", diff)
	}
}

// TestSentinelsAreAbsent has a GPU that offers nothing, and one that answers "not available" with success.
func TestSentinelsAreAbsent(t *testing.T) {
	const none = math.MaxUint32
	unavailable := fake()
	unavailable.GetPowerUsageFunc = ok(uint32(none))
	unavailable.GetEnforcedPowerLimitFunc = ok(uint32(none))
	unavailable.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return none, nvml.SUCCESS }
	unavailable.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return none, nvml.SUCCESS }
	unavailable.GetMaxClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return none, nvml.SUCCESS }
	unavailable.GetUtilizationRatesFunc = ok(nvml.Utilization{Gpu: none})
	unavailable.GetMemoryInfoFunc = ok(nvml.Memory{Used: math.MaxUint64, Total: math.MaxUint64})
	unavailable.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
		return math.MaxUint64, nvml.SUCCESS
	}
	unavailable.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.ERROR_NOT_SUPPORTED }
	for _, f := range []*func() (int, nvml.Return){
		&unavailable.GetCurrPcieLinkWidthFunc, &unavailable.GetMaxPcieLinkWidthFunc, &unavailable.GetCurrPcieLinkGenerationFunc,
		&unavailable.GetMaxPcieLinkGenerationFunc, &unavailable.GetPcieReplayCounterFunc,
	} {
		*f = ok(none)
	}
	unavailable.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	unavailable.GetCurrentClocksEventReasonsFunc = unsupported[uint64]()
	unavailable.GetComputeRunningProcessesFunc = ok([]nvml.ProcessInfo{{Pid: 77, UsedGpuMemory: math.MaxUint64}})
	want := Reading{Values: map[Quantity]float64{}, Processes: map[int]uint64{77: 0}}
	if diff := cmp.Diff(want, read(t, opened(t, unavailable))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	unavailable.GetCurrPcieLinkWidthFunc = ok(-1)
	unavailable.GetComputeRunningProcessesFunc = unsupported[[]nvml.ProcessInfo]()
	if diff := cmp.Diff(Reading{Values: map[Quantity]float64{}}, read(t, opened(t, unavailable))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDevice has a GPU that fell off the bus, before it was opened and while it was read: the others are there.
func TestDevice(t *testing.T) {
	lib := &library{&mock.Interface{
		DeviceGetCountFunc: ok(3),
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			switch i {
			case 1:
				return nil, nvml.ERROR_GPU_IS_LOST
			case 2:
				return nil, nvml.ERROR_UNKNOWN
			}
			return fake(), nvml.SUCCESS
		},
		SystemGetDriverVersionFunc: ok("580.1"),
		ShutdownFunc:               func() nvml.Return { return nvml.SUCCESS },
	}}
	if n, err := lib.Count(); n != 3 || err != nil {
		t.Errorf("%d GPUs, %v", n, err)
	}
	if d, err := lib.Device(0); err != nil || d.Info().UUID != "GPU-1" {
		t.Error(err)
	}
	if _, err := lib.Device(1); !errors.Is(err, ErrLost) {
		t.Errorf("GPU 1: %v", err)
	}
	if _, err := lib.Device(2); err == nil || errors.Is(err, ErrLost) {
		t.Errorf("GPU 2: %v", err)
	}
	if lib.Driver() != "580.1" || lib.Close() != nil {
		t.Error("driver or end")
	}
	gpu := fake()
	d := opened(t, gpu)
	gpu.GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	if _, err := d.Read(); !errors.Is(err, ErrLost) {
		t.Errorf("reading: %v", err)
	}
	if _, err := newDevice(0, gpu); !errors.Is(err, ErrLost) {
		t.Errorf("opening: %v", err)
	}
	lib = &library{&mock.Interface{DeviceGetCountFunc: unsupported[int](), SystemGetDriverVersionFunc: unsupported[string](), ShutdownFunc: func() nvml.Return { return nvml.ERROR_UNKNOWN }}}
	if _, err := lib.Count(); err == nil || lib.Driver() != "" || lib.Close() == nil {
		t.Errorf("no error: %v", err)
	}
}

// TestWatchXIDs has time-outs, an XID, an event of another kind, a GPU that is lost and tells why, and the end of the driver.
func TestWatchXIDs(t *testing.T) {
	gpu, registered := fake(), 0
	gpu.RegisterEventsFunc = func(types uint64, _ nvml.EventSet) nvml.Return {
		if types != nvml.EventTypeXidCriticalError {
			t.Errorf("registered for %#x", types)
		}
		registered++
		return nvml.SUCCESS
	}
	lost := func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	waits := []struct {
		data nvml.EventData
		ret  nvml.Return
	}{
		{ret: nvml.ERROR_TIMEOUT},
		{data: nvml.EventData{Device: gpu, EventType: nvml.EventTypeXidCriticalError, EventData: 79}},
		{data: nvml.EventData{Device: gpu, EventType: nvml.EventTypeClock, EventData: 5}},
		{ret: nvml.ERROR_GPU_IS_LOST},
		{data: nvml.EventData{Device: gpu, EventType: nvml.EventTypeXidCriticalError, EventData: 48}}, // It is back.
		{ret: nvml.ERROR_UNINITIALIZED},
	}
	freed := 0
	set := &mock.EventSet{
		WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
			w := waits[0]
			waits = waits[1:]
			uuid := ok("GPU-1")
			if w.data.EventData == 79 {
				uuid = lost
			}
			gpu.GetUUIDFunc = uuid
			return w.data, w.ret
		},
		FreeFunc: func() nvml.Return { freed++; return nvml.SUCCESS },
	}
	lib := &library{&mock.Interface{
		EventSetCreateFunc:         func() (nvml.EventSet, nvml.Return) { return set, nvml.SUCCESS },
		DeviceGetCountFunc:         ok(1),
		DeviceGetHandleByIndexFunc: func(int) (nvml.Device, nvml.Return) { return gpu, nvml.SUCCESS },
	}}
	var got []XID
	if err := lib.WatchXIDs(t.Context(), 0, func(x XID) { got = append(got, x) }); err == nil {
		t.Error("the end of the driver is no error")
	}
	if len(got) != 2 || got[0].Code != 79 || got[0].UUID != "GPU-1" || time.Since(got[0].At) > time.Hour || got[1].Code != 48 || registered != 2 || freed != 2 {
		t.Errorf("%+v, registered %d times, freed %d times", got, registered, freed)
	}
	// A GPU without events, and a context that has ended.
	gpu.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.ERROR_NOT_SUPPORTED }
	if err := lib.WatchXIDs(t.Context(), 0, func(XID) {}); err == nil {
		t.Error("no events, no error")
	}
	gpu.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lib.WatchXIDs(ctx, 0, func(XID) {}); err != nil {
		t.Errorf("ended: %v", err)
	}
}
