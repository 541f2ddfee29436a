// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Tickets: hardware and settings that want somebody's attention in working hours, whether a job suffers now or not.
{
  prometheusAlerts+:: {
    local config = $._config,
    local alert = (import '../lib/alert.libsonnet')(config),

    groups+: [
      {
        name: 'culprit-tickets',
        interval: config.ticketInterval,
        rules: [
          alert.ticket(
            'CulpritGPUXid',
            |||
              (culprit_nvml_xid_errors_total{xid!~"13|31|43|45"} unless culprit_nvml_xid_errors_total offset 15m) > 0
              or
              increase(culprit_nvml_xid_errors_total{xid!~"13|31|43|45"}[15m]) > 0
            |||,
            'The driver reports a critical error of a GPU.',
            'GPU {{ $labels.gpu }} at {{ $labels.instance }} reported Xid {{ $labels.xid }}.',
          ),
          alert.ticket(
            'CulpritGPUMemoryFailing',
            |||
              increase(culprit_nvml_ecc_errors_total{severity="uncorrected"}[1h]) > 0
              or
              culprit_nvml_row_remap_failed > 0
              or
              culprit_nvml_row_remap_pending > 0
            |||,
            'The memory of a GPU has errors.',
            'GPU {{ $labels.gpu }} at {{ $labels.instance }} has uncorrected memory errors, or rows of it are to be remapped.',
          ),
          alert.ticket(
            'CulpritGPUNotAnswering',
            'culprit_nvml_gpu_answers == 0',
            'The driver does not answer for a GPU.',
            'The driver at {{ $labels.instance }} does not answer for GPU {{ $labels.gpu }}.',
            pending='1m',
          ),
          alert.ticket(
            'CulpritGPUThrottled',
            'culprit_nvml_clock_limited{reason=~"hw_slowdown|hw_thermal|power_brake"} > 0',
            'A GPU lowers its clocks to protect itself.',
            'GPU {{ $labels.gpu }} at {{ $labels.instance }} has lowered its clocks for 10 minutes ({{ $labels.reason }}).',
            pending='10m',
          ),
          alert.ticket(
            'CulpritNVLinkFailing',
            |||
              increase(culprit_nvml_nvlink_errors_total{kind="recovery"}[15m]) > 0
              or
              culprit_nvml_nvlink_links{state="active"} < max_over_time(culprit_nvml_nvlink_links{state="active"}[1d])
            |||,
            'NVLinks of a GPU fail.',
            'NVLinks of GPU {{ $labels.gpu }} at {{ $labels.instance }} are down or recover from errors.',
          ),
          alert.ticket(
            'CulpritPCIeLinkReduced',
            |||
              culprit_pci_link_width < culprit_pci_link_max_width
              or
              culprit_nvml_pcie_link_width < culprit_nvml_pcie_link_max_width
            |||,
            'A PCI Express link has fewer lanes than it could.',
            'The link of {{ if $labels.device }}device {{ $labels.device }}{{ else }}GPU {{ $labels.gpu }}{{ end }} at {{ $labels.instance }} has {{ $value }} lanes.',
            pending='10m',
          ),
          alert.ticket(
            'CulpritRDMAPortFailing',
            |||
              (culprit_rdma_port_up == 0 and max_over_time(culprit_rdma_port_up[1d]) == 1)
              or
              max by (instance, device, port) (increase(culprit_rdma_port_errors_total{kind="link_downed"}[1h])) > 0
            |||,
            'A port of a network card is down or flaps.',
            'Port {{ $labels.port }} of {{ $labels.device }} at {{ $labels.instance }} is down, or was within the hour.',
          ),
          alert.ticket(
            'CulpritRDMALoss',
            |||
              sum by (instance, device, port) (rate(culprit_rdma_transport_errors_total{kind=~"local_ack_timeout_err|out_of_sequence"}[5m])) > 10
              or
              sum by (instance, device, port) (rate(culprit_rdma_congestion_notifications_total{kind="cnp_handled"}[5m])) > 10000
            |||,
            'A network card constantly resends packets, or congestion slows it down.',
            'Port {{ $labels.port }} of {{ $labels.device }} at {{ $labels.instance }} resends or is slowed down by congestion ({{ $value | humanize }} a second).',
            pending='10m',
          ),
          alert.ticket(
            'CulpritHostMemoryFailing',
            |||
              increase(culprit_host_oom_kills_total[15m]) > 0
              or
              sum without (severity) (increase(culprit_host_memory_errors_total{severity="uncorrected"}[1h])) > 0
            |||,
            'A host kills processes because memory ran out, or its memory has errors.',
            '{{ $labels.instance }} killed processes because memory ran out, or its memory has uncorrected errors.',
          ),
          alert.ticket(
            'CulpritThreadsStarved',
            'culprit_host_thread_run_delay_ratio{role="proxy"} > 0.1',
            "NCCL's threads of a rank wait for a CPU.",
            "NCCL's proxy thread of rank {{ $labels.rank }} of job {{ $labels.job_id }} waits for a CPU {{ $value | humanizePercentage }} of the time.",
            pending='10m',
          ),
          alert.ticket(
            'CulpritConfigurationRefused',
            'culprit_analyzer_config_last_reload_successful == 0',
            'The Culprit analyzer refuses its new configuration.',
            'The analyzer at {{ $labels.instance }} refused its configuration file and goes on with the former one.',
          ),
          alert.ticket(
            'CulpritStreamLosing',
            'sum by (instance) (increase(culprit_exporter_kafka_records_total{outcome=~"error|dropped"}[10m])) > 0',
            'A Culprit exporter loses records on the way to Kafka.',
            'The exporter at {{ $labels.instance }} lost {{ $value | humanize }} record(s) for Kafka in 10 minutes.',
            pending='5m',
          ),
          alert.ticket(
            'CulpritTriggersNotTaken',
            'sum by (instance) (increase(culprit_exporter_trigger_posts_total{outcome=~"failed|dropped"}[10m])) > 0',
            'Alertmanager does not take the triggers of a Culprit exporter.',
            'The exporter at {{ $labels.instance }} could not post {{ $value | humanize }} trigger(s) in 10 minutes. Rules trigger as before.',
            pending='5m',
          ),
        ],
      },
    ],
  },
}
