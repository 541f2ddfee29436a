// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nonvml

package nvml

import (
	"bytes"
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Open loads and initialises the library. Without a driver the error wraps ErrUnavailable.
func Open() (Library, error) {
	lib := nvml.New()
	switch ret := lib.Init(); {
	case ret == nvml.SUCCESS:
		return &library{lib}, nil
	case ret == nvml.ERROR_LIBRARY_NOT_FOUND, ret == nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("%w: %s", ErrUnavailable, nvml.ErrorString(ret))
	default:
		return nil, fmt.Errorf("initialising NVML: %s", nvml.ErrorString(ret))
	}
}

type library struct{ lib nvml.Interface }

func (l *library) Close() error {
	if ret := l.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shutting NVML down: %s", nvml.ErrorString(ret))
	}
	return nil
}

func (l *library) Driver() string {
	v, ret := l.lib.SystemGetDriverVersion()
	if ret != nvml.SUCCESS {
		return ""
	}
	return v
}

func (l *library) Count() (int, error) {
	n, ret := l.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return 0, fmt.Errorf("counting GPUs: %s", nvml.ErrorString(ret))
	}
	return n, nil
}

func (l *library) Device(index int) (Device, error) {
	handle, ret := l.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return nil, failed("opening", index, ret)
	}
	return newDevice(index, handle)
}

func failed(what string, index int, ret nvml.Return) error {
	if ret == nvml.ERROR_GPU_IS_LOST {
		return fmt.Errorf("%s GPU %d: %w", what, index, ErrLost)
	}
	return fmt.Errorf("%s GPU %d: %s", what, index, nvml.ErrorString(ret))
}

// source is the part of nvml.Device that is used.
type source interface {
	GetUUID() (string, nvml.Return)
	GetName() (string, nvml.Return)
	GetPciInfo() (nvml.PciInfo, nvml.Return)
	GetClockInfo(nvml.ClockType) (uint32, nvml.Return)
	GetMaxClockInfo(nvml.ClockType) (uint32, nvml.Return)
	GetPowerUsage() (uint32, nvml.Return)
	GetEnforcedPowerLimit() (uint32, nvml.Return)
	GetTemperature(nvml.TemperatureSensors) (uint32, nvml.Return)
	GetUtilizationRates() (nvml.Utilization, nvml.Return)
	GetMemoryInfo() (nvml.Memory, nvml.Return)
	GetCurrPcieLinkWidth() (int, nvml.Return)
	GetMaxPcieLinkWidth() (int, nvml.Return)
	GetCurrPcieLinkGeneration() (int, nvml.Return)
	GetMaxPcieLinkGeneration() (int, nvml.Return)
	GetPcieReplayCounter() (int, nvml.Return)
	GetTotalEccErrors(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return)
	GetRemappedRows() (int, int, bool, bool, nvml.Return)
	GetNvLinkState(int) (nvml.EnableState, nvml.Return)
	GetNvLinkErrorCounter(int, nvml.NvLinkErrorCounter) (uint64, nvml.Return)
	GetCurrentClocksEventReasons() (uint64, nvml.Return)
	GetComputeRunningProcesses() ([]nvml.ProcessInfo, nvml.Return)
}

type device struct {
	info   Info
	source source
}

func newDevice(index int, s source) (*device, error) {
	d := &device{info: Info{Index: index}, source: s}
	var ret nvml.Return
	if d.info.UUID, ret = s.GetUUID(); ret == nvml.ERROR_GPU_IS_LOST {
		return nil, failed("opening", index, ret)
	}
	d.info.Name, _ = s.GetName()
	if pci, ret := s.GetPciInfo(); ret == nvml.SUCCESS {
		id, _, _ := bytes.Cut(pci.BusId[:], []byte{0})
		d.info.PCIBusID = string(id)
	}
	return d, nil
}

func (d *device) Info() Info { return d.info }

func (d *device) Read() (Reading, error) {
	r := Reading{Values: map[Quantity]float64{}}
	s := d.source
	clock := func(q Quantity, mhz uint32, ret nvml.Return) { put(r, q, mhz, 1e6, ret) }
	mhz, ret := s.GetClockInfo(nvml.CLOCK_SM)
	clock(SMClock, mhz, ret)
	mhz, ret = s.GetMaxClockInfo(nvml.CLOCK_SM)
	clock(SMMaxClock, mhz, ret)
	mhz, ret = s.GetClockInfo(nvml.CLOCK_MEM)
	clock(MemoryClock, mhz, ret)
	milliwatts, ret := s.GetPowerUsage()
	put(r, Power, milliwatts, 1e-3, ret)
	milliwatts, ret = s.GetEnforcedPowerLimit()
	put(r, PowerLimit, milliwatts, 1e-3, ret)
	celsius, ret := s.GetTemperature(nvml.TEMPERATURE_GPU)
	put(r, Temperature, celsius, 1, ret)
	used, ret := s.GetUtilizationRates()
	put(r, Utilization, used.Gpu, 0.01, ret)
	memory, ret := s.GetMemoryInfo()
	put(r, MemoryUsed, memory.Used, 1, ret)
	put(r, MemoryTotal, memory.Total, 1, ret)
	d.readPCIe(r)
	d.readErrors(r)
	d.readNVLink(r)
	if bits, ret := s.GetCurrentClocksEventReasons(); ret == nvml.SUCCESS {
		r.Reasons = reasons(bits)
	}
	if list, ret := s.GetComputeRunningProcesses(); ret == nvml.SUCCESS {
		r.Processes = make(map[int]uint64, len(list))
		for _, p := range list {
			if !told(p.UsedGpuMemory) {
				p.UsedGpuMemory = 0
			}
			r.Processes[int(p.Pid)] = p.UsedGpuMemory
		}
	}
	// Asked last: what was read of a GPU that was lost meanwhile is not all of it.
	if _, ret := s.GetUUID(); ret == nvml.ERROR_GPU_IS_LOST {
		return Reading{}, failed("reading", d.info.Index, ret)
	}
	return r, nil
}

func put[N int | uint32 | uint64](r Reading, q Quantity, v N, scale float64, ret nvml.Return) {
	if ret == nvml.SUCCESS && told(v) {
		r.Values[q] = float64(v) * scale
	}
}

// told is false for NVML_VALUE_NOT_AVAILABLE, which is -1 in whatever type, and may come with success: on virtual GPUs,
// with MIG, and for another user's processes.
func told[N int | uint32 | uint64](v N) bool {
	if v == ^N(0) {
		return false
	}
	n, isInt := any(v).(int) // What the library gives as unsigned int arrives as int here.
	return !isInt || n >= 0 && uint64(n) != math.MaxUint32
}

func (d *device) readPCIe(r Reading) {
	for q, read := range map[Quantity]func() (int, nvml.Return){
		PCIeWidth: d.source.GetCurrPcieLinkWidth, PCIeMaxWidth: d.source.GetMaxPcieLinkWidth,
		PCIeGeneration: d.source.GetCurrPcieLinkGeneration, PCIeMaxGeneration: d.source.GetMaxPcieLinkGeneration,
		PCIeReplays: d.source.GetPcieReplayCounter,
	} {
		v, ret := read()
		put(r, q, v, 1, ret)
	}
}

func (d *device) readErrors(r Reading) {
	n, ret := d.source.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC)
	put(r, ECCCorrected, n, 1, ret)
	n, ret = d.source.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC)
	put(r, ECCUncorrected, n, 1, ret)
	corrected, uncorrected, pending, failed, ret := d.source.GetRemappedRows()
	put(r, RemappedCorrected, corrected, 1, ret)
	put(r, RemappedUncorrected, uncorrected, 1, ret)
	put(r, RemapPending, bit(pending), 1, ret)
	put(r, RemapFailed, bit(failed), 1, ret)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readNVLink counts the links by their state and sums up the errors of those that are up. A GPU without links offers no
// state.
func (d *device) readNVLink(r Reading) {
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := d.source.GetNvLinkState(link)
		if ret != nvml.SUCCESS {
			continue
		}
		up := bit(state == nvml.FEATURE_ENABLED)
		r.Values[NVLinksActive] += float64(up)
		r.Values[NVLinksInactive] += float64(1 - up)
		if up == 0 {
			continue
		}
		for counter, q := range map[nvml.NvLinkErrorCounter]Quantity{
			nvml.NVLINK_ERROR_DL_REPLAY: NVLinkReplayErrors, nvml.NVLINK_ERROR_DL_RECOVERY: NVLinkRecoveryErrors,
			nvml.NVLINK_ERROR_DL_CRC_FLIT: NVLinkCRCErrors, nvml.NVLINK_ERROR_DL_CRC_DATA: NVLinkCRCErrors,
		} {
			if n, ret := d.source.GetNvLinkErrorCounter(link, counter); ret == nvml.SUCCESS && told(n) {
				r.Values[q] += float64(n)
			}
		}
	}
}

func reasons(bits uint64) map[Reason]bool {
	set := map[Reason]bool{}
	for r, b := range map[Reason]uint64{
		ReasonPowerCap: nvml.ClocksEventReasonSwPowerCap, ReasonHardware: nvml.ClocksThrottleReasonHwSlowdown,
		ReasonThermal: nvml.ClocksEventReasonSwThermalSlowdown, ReasonHWThermal: nvml.ClocksThrottleReasonHwThermalSlowdown,
		ReasonPowerBrake: nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, ReasonSyncBoost: nvml.ClocksEventReasonSyncBoost,
	} {
		if bits&b != 0 {
			set[r] = true
		}
	}
	return set
}
