// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Renders a unit test for promtool: what dcgm-exporter and node_exporter say arrives under our own names and in our units, no ticket is
// opened while all is well, and each ticket that they can tell of is. ext-str rules is the folder of the rules.
local samples(text) = [
  local at = std.findSubstr(' ', line);
  local cut = at[std.length(at) - 1];
  local series = std.substr(line, 0, cut);
  { name: std.split(series, '{')[0], labels: std.rstripChars(std.substr(series, std.length(self.name), std.length(series)), '}'), value: std.substr(line, cut + 1, 40) }
  for line in std.split(text, '\n')
  if line != '' && !std.startsWith(line, '#')
];

local host = samples(importstr 'testdata/node_exporter.prom') + samples(importstr 'testdata/node_exporter-metal.prom');
local gpu = samples(importstr 'testdata/dcgm-exporter.prom');
local more = samples(importstr 'testdata/dcgm-exporter-more.prom');

// Series that stay as they are, but for those in faults, which become another value after ten minutes.
local input(list, port, faults={}) = [
  {
    series: '%s%s%sinstance="a:%d"}' % [s.name, if s.labels == '' then '{' else s.labels, if s.labels == '' then '' else ', ', port],
    values:
      if std.objectHas(faults, s.name) && (s.labels == '' || std.length(std.findSubstr('gpu="1"', s.labels)) > 0 || port == 9100)
      then '%sx40 %s' % [s.value, faults[s.name]]
      else s.value + 'x200',
  }
  for s in list
];


local nvml(suffixes) = [{ labels: '{__name__="culprit_nvml_%s"}' % n, value: 1 } for n in suffixes];
local hosts(suffixes) = [{ labels: '{__name__="culprit_host_%s"}' % n, value: 1 } for n in suffixes];
local there(prefix) = 'group by (__name__) ({__name__=~"%s_.*"})' % prefix;
local byDefault = ['gpu_info', 'gpu_answers', 'temperature_celsius', 'sm_clock_hertz', 'memory_clock_hertz', 'power_watts', 'utilization_ratio', 'memory_used_bytes', 'memory_bytes', 'pcie_replays_total', 'remapped_rows', 'row_remap_failed'];
local withMore = ['row_remap_pending', 'ecc_errors_total', 'nvlink_errors_total', 'clock_limited', 'power_limit_watts', 'sm_max_clock_hertz', 'pcie_link_width', 'pcie_link_max_width', 'pcie_link_generation', 'pcie_link_max_generation'];
local onGPU(expr, value, labels='') = { expr: expr, eval_time: '5m', exp_samples: [{ labels: '%s{gpu="0", instance="a:9850"%s}' % [std.split(std.split(expr, '{')[0], ' ')[0], labels], value: value }] };
local onHost(name, value, labels='') = { expr: name, eval_time: '5m', exp_samples: [{ labels: '%s{instance="a:9850"%s}' % [name, labels], value: value }] };
local ticket(name, of) = { labels: '{alertname="%s", %s}' % [name, of], value: 1 };

{
  'sources.json': {
    rule_files: [std.extVar('rules') + '/' + f for f in ['sources/dcgm-exporter.yaml', 'sources/node_exporter.yaml', 'culprit-tickets.yaml']],
    evaluation_interval: '15s',
    group_eval_order: ['culprit-source-dcgm-exporter', 'culprit-source-node_exporter', 'culprit-tickets'],
    tests: [
      {
        name: 'the default counters, and a node',
        interval: '15s',
        input_series: input(gpu, 9400) + input(host, 9100),
        promql_expr_test: [
          { expr: there('culprit_nvml'), eval_time: '5m', exp_samples: nvml(byDefault) },
          {
            expr: there('culprit_host'),
            eval_time: '5m',
            exp_samples: hosts(['pressure_cpu_waiting_seconds_total', 'pressure_memory_waiting_seconds_total', 'pressure_memory_stalled_seconds_total', 'pressure_io_waiting_seconds_total', 'pressure_io_stalled_seconds_total', 'cpu_seconds_total', 'cpus', 'memory_bytes', 'memory_available_bytes', 'oom_kills_total', 'cpu_frequency_hertz', 'cpu_frequency_limit_hertz', 'cpu_max_frequency_hertz', 'cpu_governor_cpus', 'cpu_thermal_throttles_total', 'memory_errors_total']),
          },
          onGPU('culprit_nvml_gpu_info{gpu="0"}', 1, ', uuid="GPU-0", name="NVIDIA H100", pci_bus_id="00000000:31:00.0", driver_version="580.105.08"'),
          onGPU('culprit_nvml_gpu_answers{gpu="0"}', 1) + { exp_samples: [{ labels: '{gpu="0", instance="a:9850"}', value: 1 }], expr: 'culprit_nvml_gpu_answers{gpu="0"} + 0' },
          onGPU('culprit_nvml_sm_clock_hertz{gpu="0"}', 1.41e9),
          onGPU('culprit_nvml_utilization_ratio{gpu="0"}', 0.5),
          onGPU('culprit_nvml_memory_used_bytes{gpu="0"}', 3 * 1073741824),
          onGPU('culprit_nvml_memory_bytes{gpu="0"}', 4 * 1073741824),
          onHost('culprit_host_cpu_frequency_hertz', 2.5e9),
          onHost('culprit_host_memory_bytes', std.parseJson([s.value for s in host if s.name == 'node_memory_MemTotal_bytes'][0])),
          { expr: 'ALERTS', eval_time: '50m', exp_samples: [] },
        ],
      },
      {
        name: 'all counters',
        interval: '15s',
        input_series: input(gpu + more, 9400),
        promql_expr_test: [
          { expr: there('culprit_nvml'), eval_time: '5m', exp_samples: nvml(byDefault + withMore) },
          { expr: 'culprit_nvml_clock_limited{gpu="0"} > 0', eval_time: '5m', exp_samples: [{ labels: 'culprit_nvml_clock_limited{gpu="0", instance="a:9850", reason="power_cap"}', value: 1 }] },
          { expr: 'ALERTS', eval_time: '50m', exp_samples: [] },
        ],
      },
      {
        name: 'faults',
        interval: '15s',
        input_series: input(gpu + more, 9400, {
          DCGM_FI_DEV_XID_ERRORS: '79x160',
          DCGM_FI_DEV_ECC_DBE_AGG_TOTAL: '1x160',
          DCGM_FI_DEV_CLOCKS_EVENT_REASONS: '72x160',
          DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL: '3x160',
          DCGM_FI_DEV_PCIE_LINK_WIDTH: '8x160',
        }) + input(host, 9100, { node_vmstat_oom_kill: '2x160' }),
        promql_expr_test: [
          {
            expr: 'group by (alertname, gpu, instance, xid, reason) (ALERTS{alertstate="firing"})',
            eval_time: '22m',
            exp_samples: [
              ticket('CulpritGPUXid', 'gpu="1", instance="a:9850", xid="79"'),
              ticket('CulpritGPUMemoryFailing', 'gpu="1", instance="a:9850"'),
              ticket('CulpritGPUThrottled', 'gpu="1", instance="a:9850", reason="hw_slowdown"'),
              ticket('CulpritGPUThrottled', 'gpu="1", instance="a:9850", reason="hw_thermal"'),
              ticket('CulpritNVLinkFailing', 'gpu="1", instance="a:9850"'),
              ticket('CulpritPCIeLinkReduced', 'gpu="1", instance="a:9850"'),
              ticket('CulpritHostMemoryFailing', 'instance="a:9850"'),
            ],
          },
        ],
      },
      {
        name: 'a GPU is lost',
        interval: '15s',
        input_series: input(gpu, 9400, { DCGM_FI_DEV_GPU_TEMP: 'stale' }),
        promql_expr_test: [
          { expr: 'group by (alertname, gpu, instance) (ALERTS{alertstate="firing"})', eval_time: '15m', exp_samples: [ticket('CulpritGPUNotAnswering', 'gpu="1", instance="a:9850"')] },
        ],
      },
    ],
  },
}
