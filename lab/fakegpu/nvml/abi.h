// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The part of NVML's binary interface that the played library answers: result codes and struct layouts. They are
// facts of the public interface, checked by the tests against the declarations of go-nvml.

#ifndef FAKEGPU_NVML_ABI_H
#define FAKEGPU_NVML_ABI_H

#include <stdint.h>

#define NVML_API __attribute__((visibility("default")))

// Results. Every function gives one.
enum nvml_result {
  NVML_OK = 0,
  NVML_UNINITIALIZED = 1,
  NVML_INVALID_ARGUMENT = 2,
  NVML_NOT_SUPPORTED = 3,
  NVML_NO_PERMISSION = 4,
  NVML_ALREADY_INITIALIZED = 5,
  NVML_NOT_FOUND = 6,
  NVML_INSUFFICIENT_SIZE = 7,
  NVML_INSUFFICIENT_POWER = 8,
  NVML_DRIVER_NOT_LOADED = 9,
  NVML_TIMEOUT = 10,
  NVML_IRQ_ISSUE = 11,
  NVML_LIBRARY_NOT_FOUND = 12,
  NVML_FUNCTION_NOT_FOUND = 13,
  NVML_CORRUPTED_INFOROM = 14,
  NVML_GPU_IS_LOST = 15,
  NVML_RESET_REQUIRED = 16,
  NVML_OPERATING_SYSTEM = 17,
  NVML_LIB_RM_VERSION_MISMATCH = 18,
  NVML_IN_USE = 19,
  NVML_MEMORY = 20,
  NVML_NO_DATA = 21,
  NVML_VGPU_ECC_NOT_SUPPORTED = 22,
  NVML_INSUFFICIENT_RESOURCES = 23,
  NVML_FREQ_NOT_SUPPORTED = 24,
  NVML_ARGUMENT_VERSION_MISMATCH = 25,
  NVML_DEPRECATED = 26,
  NVML_NOT_READY = 27,
  NVML_GPU_NOT_FOUND = 28,
  NVML_INVALID_STATE = 29,
  NVML_RESET_TYPE_NOT_SUPPORTED = 30,
  NVML_UNKNOWN = 999,
};

// NVML_NONE is "not available" in an unsigned int: the instance of a GPU without MIG.
#define NVML_NONE 0xffffffffu

// A versioned struct begins with its size and its version, which the caller sets.
#define NVML_VERSION(type, number) ((unsigned)(sizeof(type) | ((number) << 24)))

// Clock domains.
enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEMORY, CLOCK_VIDEO, CLOCKS };

// Why clocks are not higher: bits.
enum {
  REASON_IDLE = 0x1,
  REASON_APPLICATION = 0x2,
  REASON_POWER_CAP = 0x4,
  REASON_HW_SLOWDOWN = 0x8,
  REASON_SYNC_BOOST = 0x10,
  REASON_THERMAL = 0x20,
  REASON_HW_THERMAL = 0x40,
  REASON_POWER_BRAKE = 0x80,
  REASONS_ALL = 0x1ff,
};

// Events: bits.
enum {
  EVENT_SINGLE_BIT_ECC = 0x1,
  EVENT_DOUBLE_BIT_ECC = 0x2,
  EVENT_XID = 0x8,
  EVENT_CLOCK = 0x10,
  EVENTS_SUPPORTED = EVENT_SINGLE_BIT_ECC | EVENT_DOUBLE_BIT_ECC | EVENT_XID | EVENT_CLOCK,
};

struct gpu;  // What a device handle points to.

struct pci_info_v1 {
  char bus_id[16];  // Domain of four digits.
  unsigned domain, bus, device;
  unsigned device_id;  // Device in the upper half, vendor in the lower.
};

struct pci_info {  // v2 has four reserved numbers where v3 has the long bus id.
  char bus_id_short[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  char bus_id[32];  // Domain of eight digits.
};

struct pci_info_ext {
  unsigned version;
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  unsigned base_class, sub_class;
  char bus_id[32];
};

struct utilization {
  unsigned gpu, memory;  // Percent.
};

struct memory_info {
  unsigned long long total, free, used;  // Bytes.
};

struct memory_info_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;  // Bytes.
};

struct bar1_info {
  unsigned long long total, free, used;  // Bytes.
};

struct ecc_counts {
  unsigned long long l1, l2, device_memory, registers;
};

struct sram_ecc_status {
  unsigned version;
  unsigned long long aggregate_parity, aggregate_sec_ded, aggregate_corrected;
  unsigned long long volatile_parity, volatile_sec_ded, volatile_corrected;
  unsigned long long bucket_l2, bucket_sm, bucket_pcie, bucket_mcu, bucket_other;
  unsigned threshold_exceeded;
};

struct row_histogram {
  unsigned max, high, partial, low, none;  // Banks with so many spare rows left.
};

struct process_v1 {
  unsigned pid;
  unsigned long long memory;  // Bytes.
};

struct process {  // v2 and v3.
  unsigned pid;
  unsigned long long memory;  // Bytes.
  unsigned gpu_instance, compute_instance;
};

struct temperature {
  unsigned version;
  int sensor;
  int celsius;
};

struct event_data_v1 {
  struct gpu *gpu;
  unsigned long long type;
  unsigned long long data;  // The code of an Xid.
};

struct event_data {
  struct gpu *gpu;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance, compute_instance;
};

union value {
  double number;
  unsigned u32;
  unsigned long u64;
  unsigned long long u64l;
};

enum { VALUE_DOUBLE, VALUE_U32, VALUE_UNSIGNED_LONG, VALUE_U64 };

struct field_value {
  unsigned id;
  unsigned scope;              // The link of an NVLink field.
  long long timestamp_us;      // Since 1970.
  long long latency_us;
  int type;
  int result;
  union value value;
};

struct fabric_info {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;  // 0: the GPU has no fabric.
};

struct fabric_info_v2 {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};

struct fabric_info_v3 {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
  unsigned char summary;
};

struct conf_compute_state {
  unsigned environment, feature, dev_tools;
};

struct conf_compute_settings {
  unsigned version;
  unsigned environment, feature, dev_tools, multi_gpu;
};

#endif
