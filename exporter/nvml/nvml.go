// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package nvml reads NVIDIA GPUs through the driver's management library. The library is loaded when it is there;
// builds without cgo, or with the tag nonvml, have none. Consumers see a small interface that tests can stand in for.
package nvml

import (
	"context"
	"errors"
	"time"
)

// ErrUnavailable says that there is no library or no driver on this node.
var ErrUnavailable = errors.New("NVML is not available")

// ErrLost says that a GPU fell off the bus or cannot be reached otherwise.
var ErrLost = errors.New("GPU is lost")

// Library is an initialised management library. Its methods are safe for concurrent use and may hang in the driver.
type Library interface {
	Driver() string
	// Count gives the number of GPUs, lost ones among them.
	Count() (int, error)
	// Device opens a GPU by its index. The error wraps ErrLost for a GPU that is lost.
	Device(index int) (Device, error)
	// WatchXIDs tells of a GPU's critical errors until ctx ends or the library cannot tell any more. It goes on when a GPU
	// that was lost is back.
	WatchXIDs(ctx context.Context, index int, tell func(XID)) error
	Close() error
}

// Device is one GPU.
type Device interface {
	Info() Info
	// Read gives what the device offers; quantities that it does not offer are missing. The error wraps ErrLost for a GPU
	// that is lost.
	Read() (Reading, error)
}

// Info identifies a GPU.
type Info struct {
	Index    int
	UUID     string
	Name     string
	PCIBusID string // As NVML writes it: eight digits of domain.
}

// XID is a critical error that the driver reported.
type XID struct {
	UUID string
	Code uint64
	At   time.Time
}

// Quantity is something that can be read of a GPU.
type Quantity int

// Quantities, in base units.
const (
	SMClock        Quantity = iota // Hertz.
	SMMaxClock                     // Hertz.
	MemoryClock                    // Hertz.
	Power                          // Watts.
	PowerLimit                     // Watts, as enforced.
	Temperature                    // Celsius.
	Utilization                    // Ratio of time in which a kernel ran.
	MemoryUsed                     // Bytes.
	MemoryTotal                    // Bytes.
	PCIeWidth                      // Lanes.
	PCIeMaxWidth                   // Lanes.
	PCIeGeneration                 // Present generation; lower while idle.
	PCIeMaxGeneration
	PCIeReplays          // Counter.
	ECCCorrected         // Counter over the device's life.
	ECCUncorrected       // Counter over the device's life.
	RemappedCorrected    // Rows remapped because of corrected errors.
	RemappedUncorrected  // Rows remapped because of uncorrected errors.
	RemapPending         // 1: a reset is needed.
	RemapFailed          // 1: the device needs replacing.
	NVLinkReplayErrors   // Counter, all links.
	NVLinkRecoveryErrors // Counter, all links.
	NVLinkCRCErrors      // Counter, all links.
	NVLinksActive        // Links that are up.
	NVLinksInactive      // Links that the GPU has and that are not up.
)

// Reading is what a device said at one moment.
type Reading struct {
	Values map[Quantity]float64
	// Reasons why the clocks are not higher; a subset of ClockReasons. Nil when the device does not tell.
	Reasons map[Reason]bool
	// Processes that compute on the GPU, by their number on the host, with the GPU memory they hold in bytes; 0 unknown.
	Processes map[int]uint64
}

// Reason is why clocks are limited.
type Reason string

// Clock reasons.
const (
	ReasonPowerCap   Reason = "power_cap"   // Software power cap: usual under full load.
	ReasonHardware   Reason = "hw_slowdown" // The hardware halves the clocks, for one of the next two or an external reason.
	ReasonThermal    Reason = "sw_thermal"  // The driver lowers clocks because of heat.
	ReasonHWThermal  Reason = "hw_thermal"
	ReasonPowerBrake Reason = "power_brake" // The power supply asks for less.
	ReasonSyncBoost  Reason = "sync_boost"
)

// ClockReasons lists the reasons.
var ClockReasons = []Reason{ReasonPowerCap, ReasonHardware, ReasonThermal, ReasonHWThermal, ReasonPowerBrake, ReasonSyncBoost}
