// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nonvml

package nvml

import (
	"testing"

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

func TestRead(t *testing.T) {
	d := newDevice(3, fake())
	if diff := cmp.Diff(Info{Index: 3, UUID: "GPU-1", Name: "H200", PCIBusID: "00000000:1B:00.0"}, d.Info()); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	want := Reading{
		Values: map[Quantity]float64{
			SMClock: 1980e6, SMMaxClock: 1980e6, MemoryClock: 3201e6, Power: 700.5, Temperature: 60, Utilization: 0.97, MemoryUsed: 5,
			MemoryTotal: 10, PCIeWidth: 8, PCIeMaxWidth: 16, PCIeGeneration: 5, PCIeMaxGeneration: 5, PCIeReplays: 3, ECCCorrected: 1,
			ECCUncorrected: 2, RemappedCorrected: 1, RemappedUncorrected: 2, RemapPending: 1, RemapFailed: 0, NVLinkReplayErrors: 2,
			NVLinkRecoveryErrors: 20, NVLinkCRCErrors: 2200,
		},
		Reasons:   map[Reason]bool{ReasonPowerCap: true, ReasonHWThermal: true},
		Processes: map[int]uint64{77: 1 << 30},
	}
	if diff := cmp.Diff(want, d.Read(), cmp.Comparer(func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 })); diff != "" {
		t.Errorf("reading (-want +got):\n%s", diff)
	}
}
