// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Series of dcgm-exporter and node_exporter under the names and in the units of our own collectors, so that every rule and dashboard
// works where those exporters take the place of the collectors nvml and host. Each name is that of the series it stands for, not one of
// level, metric and operations.
{
  culpritRecords+:: {
    local config = $._config,

    // The instance of culprit-exporter on the same host, by the other exporter's.
    local here(vector, labels) =
      local i = config.sourceInstance;
      'max by (%s) (label_replace(%s, "instance", "%s", "%s", "%s"))' % [std.join(', ', ['instance'] + labels), vector, i.replacement, i.label, i.regex],
    local set(vector, label, from) = 'label_replace(%s, "%s", "$1", "%s", "(.*)")' % [vector, label, from],
    local gpu(vector, labels=[]) = here(vector, ['gpu'] + labels),
    local with(name, value, vector) = 'label_replace(%s, "%s", "%s", "", "")' % [vector, name, value],
    local either(vectors) = std.join('\nor\n', vectors),
    local mega = 1000000,
    local mebi = 1048576,

    // dcgm-exporter 3 and 4. Series after the empty line need counters that its default file leaves out.
    local reasons = { power_cap: 4, hw_slowdown: 8, sync_boost: 16, sw_thermal: 32, hw_thermal: 64, power_brake: 128 },
    local counters = { replay: 'REPLAY', recovery: 'RECOVERY', crc: 'CRC_FLIT' },
    local answering = gpu('DCGM_FI_DEV_GPU_TEMP'),
    'dcgm-exporter': [
      {
        record: 'culprit_nvml_gpu_info',
        expr: 'group by (instance, gpu, uuid, name, pci_bus_id, driver_version) (%s)' %
              gpu(set(set(set('DCGM_FI_DEV_GPU_TEMP', 'uuid', 'UUID'), 'name', 'modelName'), 'driver_version', 'DCGM_FI_DRIVER_VERSION'), ['uuid', 'name', 'pci_bus_id', 'driver_version']),
      },
      {
        // A GPU that was there and is missing, while another one of the node answers.
        record: 'culprit_nvml_gpu_answers',
        expr: 'group by (instance, gpu) (%s)\nor\n(0 * group by (instance, gpu) (%s) and on (instance) %s)' % [answering, gpu('max_over_time(DCGM_FI_DEV_GPU_TEMP[1h])'), answering],
      },
      { record: 'culprit_nvml_temperature_celsius', expr: answering },
      { record: 'culprit_nvml_sm_clock_hertz', expr: gpu('DCGM_FI_DEV_SM_CLOCK * %d' % mega) },
      { record: 'culprit_nvml_memory_clock_hertz', expr: gpu('DCGM_FI_DEV_MEM_CLOCK * %d' % mega) },
      { record: 'culprit_nvml_power_watts', expr: gpu('DCGM_FI_DEV_POWER_USAGE') },
      { record: 'culprit_nvml_utilization_ratio', expr: gpu('DCGM_FI_DEV_GPU_UTIL / 100') },
      { record: 'culprit_nvml_memory_used_bytes', expr: gpu('DCGM_FI_DEV_FB_USED * %d' % mebi) },
      { record: 'culprit_nvml_memory_bytes', expr: gpu('(DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) * %d' % mebi) },
      { record: 'culprit_nvml_pcie_replays_total', expr: gpu('DCGM_FI_DEV_PCIE_REPLAY_COUNTER') },
      // The gauge is the number of the last Xid.
      { record: 'culprit_nvml_xid_errors_total', expr: 'count_values by (instance, gpu) ("xid", %s > 0)' % gpu('DCGM_FI_DEV_XID_ERRORS') },
      {
        record: 'culprit_nvml_remapped_rows',
        expr: either([
          gpu(with('severity', 'uncorrected', 'DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS'), ['severity']),
          gpu(with('severity', 'corrected', 'DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS'), ['severity']),
        ]),
      },
      { record: 'culprit_nvml_row_remap_failed', expr: gpu('DCGM_FI_DEV_ROW_REMAP_FAILURE') },

      { record: 'culprit_nvml_row_remap_pending', expr: gpu('DCGM_FI_DEV_ROW_REMAP_PENDING') },
      {
        record: 'culprit_nvml_ecc_errors_total',
        expr: either([
          gpu(with('severity', 'uncorrected', 'DCGM_FI_DEV_ECC_DBE_AGG_TOTAL'), ['severity']),
          gpu(with('severity', 'corrected', 'DCGM_FI_DEV_ECC_SBE_AGG_TOTAL'), ['severity']),
        ]),
      },
      {
        record: 'culprit_nvml_nvlink_errors_total',
        expr: either([
          gpu(with('kind', kind, 'DCGM_FI_DEV_NVLINK_%s_ERROR_COUNT_TOTAL' % counters[kind]), ['kind'])
          for kind in std.objectFields(counters)
        ]),
      },
      {
        record: 'culprit_nvml_clock_limited',
        expr: either([
          gpu(with('reason', reason, 'floor((DCGM_FI_DEV_CLOCKS_EVENT_REASONS or DCGM_FI_DEV_CLOCK_THROTTLE_REASONS) / %d) %% 2' % reasons[reason]), ['reason'])
          for reason in std.objectFields(reasons)
        ]),
      },
      { record: 'culprit_nvml_power_limit_watts', expr: gpu('DCGM_FI_DEV_POWER_MGMT_LIMIT') },
      { record: 'culprit_nvml_sm_max_clock_hertz', expr: gpu('DCGM_FI_DEV_MAX_SM_CLOCK * %d' % mega) },
      { record: 'culprit_nvml_pcie_link_width', expr: gpu('DCGM_FI_DEV_PCIE_LINK_WIDTH') },
      { record: 'culprit_nvml_pcie_link_max_width', expr: gpu('DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH') },
      { record: 'culprit_nvml_pcie_link_generation', expr: gpu('DCGM_FI_DEV_PCIE_LINK_GEN') },
      { record: 'culprit_nvml_pcie_link_max_generation', expr: gpu('DCGM_FI_DEV_PCIE_MAX_LINK_GEN') },
    ],

    local plain(name, metric) = { record: 'culprit_host_' + name, expr: here(metric, []) },
    node_exporter: [
      plain('pressure_%s_seconds_total' % kind, 'node_pressure_%s_seconds_total' % kind)
      for kind in ['cpu_waiting', 'memory_waiting', 'memory_stalled', 'io_waiting', 'io_stalled']
    ] + [
      { record: 'culprit_host_cpu_seconds_total', expr: here('sum by (instance, mode) (node_cpu_seconds_total)', ['mode']) },
      plain('cpus', 'count by (instance) (node_cpu_seconds_total{mode="idle"})'),
      plain('memory_bytes', 'node_memory_MemTotal_bytes'),
      plain('memory_available_bytes', 'node_memory_MemAvailable_bytes'),
      plain('oom_kills_total', 'node_vmstat_oom_kill'),
      plain('cpu_frequency_hertz', 'avg by (instance) (node_cpu_scaling_frequency_hertz)'),
      plain('cpu_frequency_limit_hertz', 'min by (instance) (node_cpu_scaling_frequency_max_hertz)'),
      plain('cpu_max_frequency_hertz', 'max by (instance) (node_cpu_frequency_max_hertz)'),
      { record: 'culprit_host_cpu_governor_cpus', expr: here('sum by (instance, governor) (node_cpu_scaling_governor)', ['governor']) },
      plain('cpu_thermal_throttles_total', 'sum by (instance) (node_cpu_core_throttles_total)'),
      {
        record: 'culprit_host_memory_errors_total',
        expr: either([
          here(with('severity', 'uncorrected', 'sum by (instance) (node_edac_uncorrectable_errors_total)'), ['severity']),
          here(with('severity', 'corrected', 'sum by (instance) (node_edac_correctable_errors_total)'), ['severity']),
        ]),
      },
    ],
  },

  prometheusAlerts+:: {
    groups+: [
      { name: 'culprit-source-' + source, interval: $._config.healthInterval, rules: $.culpritRecords[source] }
      for source in $._config.sources
    ],
  },
}
