// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Node: what a host shows of its GPUs, network cards, CPUs and memory, whoever uses them.
{
  local config = $._config,
  local g = import '../lib/grafana.libsonnet',
  local s = (import 'shared.libsonnet')(config),
  local here = '{instance=~"$instance"}',
  local rate(metric) = 'rate(%s%s[$__rate_interval])' % [metric, here],

  grafanaDashboards+:: {
    'culprit-node.json': g.dashboard(
      config,
      s.uid.node,
      'Culprit / Node',
      'A host: its GPUs, links, network cards, queue pairs, CPUs and memory.',
      [g.namedVariable('instance', 'host', 'Node', 'culprit_exporter_build_info', 'The host, as its exporter calls it.')],
      [
        g.row('GPUs at work', [
          g.timeseries('SM clock', 'Clock of each GPU. A GPU below the others under load is throttled.', 'hertz', [g.query('culprit_nvml_sm_clock_hertz' + here, 'GPU {{gpu}}')]),
          g.timeseries('Power', 'Power of each GPU, and the lowest limit of any (dashed).', 'watt', [
            g.query('culprit_nvml_power_watts' + here, 'GPU {{gpu}}'),
            g.query('min(culprit_nvml_power_limit_watts%s)' % here, 'limit'),
          ]) + { fieldConfig+: { overrides: [g.limit('limit')] } },
          g.timeseries('Temperature', 'Temperature of each GPU.', 'celsius', [g.query('culprit_nvml_temperature_celsius' + here, 'GPU {{gpu}}')]),
          g.timeseries('Xid errors', 'Critical errors that the driver reported since the exporter started, by GPU and Xid.', 'short', [g.query('culprit_nvml_xid_errors_total%s > 0' % here, 'GPU {{gpu}} Xid {{xid}}')]),
        ]),
        g.row('Ranks', [
          g.table(
            'Ranks here',
            'Ranks whose processes run on the node.',
            [g.now('culprit_nccl_process_info' + here)],
            { job_id: { title: 'Job', links: [s.toJob()] }, owner: { title: 'Owner' }, rank: { title: 'Rank', links: [s.toRank(job='${__data.fields["Job"]}', owner='${__data.fields["Owner"]}')] }, address: { title: 'Address' }, gpu: { title: 'GPU' }, nic: { title: 'NIC' }, pod: { title: 'Pod' } },
            hidden=['Value', 'instance', 'job', 'host', 'gpu_uuid', 'pci_bus_id', 'local_rank', 'world_size', 'pid', 'namespace', 'container', 'slurm_job_id', 'slurm_step_id', 'uid', 'abi', 'node'],
            order=['job_id', 'owner', 'rank', 'address', 'gpu', 'nic', 'pod'],
          ),
          g.timeseries('Processes on GPUs', 'Processes that compute on each GPU; two are one too many beside a rank.', 'short', [g.query('culprit_nvml_compute_processes' + here, 'GPU {{gpu}}')]),
          g.timeseries('Processes on GPUs that are no ranks', 'Processes that compute on a GPU and write no trace file.', 'short', [g.query('sum by (gpu, pid) (culprit_nvml_process_info{instance=~"$instance", job_id=""})', 'GPU {{gpu}} process {{pid}}')]),
        ]),
        g.row('GPUs', [
          g.timeseries('Memory used', 'Share of the memory of each GPU that is in use.', 'percentunit', [g.query('culprit_nvml_memory_used_bytes%s / culprit_nvml_memory_bytes%s' % [here, here], 'GPU {{gpu}}')], max=1),
          g.timeseries('Memory clock', 'Clock of the memory of each GPU.', 'hertz', [g.query('culprit_nvml_memory_clock_hertz' + here, 'GPU {{gpu}}')]),
          g.timeseries('PCIe generation', 'Generation of the link of each GPU as a share of the highest. A GPU at rest lowers it.', 'percentunit', [g.query('culprit_nvml_pcie_link_generation%s / culprit_nvml_pcie_link_max_generation%s' % [here, here], 'GPU {{gpu}}')], max=1),
          g.timeseries('Remapped rows', 'Rows of memory that were remapped over the life of each GPU.', 'short', [g.query('culprit_nvml_remapped_rows%s > 0' % here, 'GPU {{gpu}} {{severity}}')]),
          g.table(
            'GPUs',
            'What the GPUs are.',
            [g.now('culprit_nvml_gpu_info' + here)],
            { gpu: { title: 'GPU' }, name: { title: 'Model' }, uuid: { title: 'UUID' }, pci_bus_id: { title: 'Bus' }, driver_version: { title: 'Driver' } },
            hidden=['Value', 'instance', 'job', 'node'],
            order=['gpu', 'name', 'uuid', 'pci_bus_id', 'driver_version'],
          ),
        ]),
        g.row('Network', [
          g.timeseries('Packets', 'Packets through each port, per second.', 'pps', [
            g.query(rate('culprit_rdma_transmit_packets_total'), '{{device}} sent'),
            g.query(rate('culprit_rdma_receive_packets_total'), '{{device}} received'),
          ]),
          g.timeseries('Waiting for credit', 'Ticks in which a port had data and no credit, per second: the fabric takes less than is offered.', 'ops', [g.query(rate('culprit_rdma_transmit_wait_ticks_total'), '{{device}}')]),
          g.timeseries('Queue pairs', 'Bytes posted per second on queue pairs of communicators that stand, and beside those that lag; the ten busiest.', 'Bps', [
            g.query('topk(10, %s * on (instance, job_id, owner, rank, comm, qp) group_left (peer, state) culprit_nccl_qp_info%s)' % [rate('culprit_nccl_qp_send_bytes_total'), here], 'rank {{rank}} {{device}} {{qp}} to {{peer}}: {{state}}'),
          ]),
          g.timeseries('Outstanding sends', 'Work requests posted and not known done, on the same queue pairs; the ten longest queues, and errors.', 'short', [
            g.query('topk(10, culprit_nccl_qp_outstanding_sends%s)' % here, 'rank {{rank}} {{device}} {{qp}}'),
            g.query('increase(culprit_nccl_qp_errors_total%s[$__rate_interval]) > 0' % here, 'rank {{rank}} {{device}} {{qp}} errors'),
          ]),
          g.table(
            'Ports',
            'What the ports are.',
            [g.now('culprit_rdma_port_info' + here)],
            { device: { title: 'Device' }, port: { title: 'Port' }, link_layer: { title: 'Link layer' }, firmware: { title: 'Firmware' }, board: { title: 'Board' }, netdev: { title: 'Interface' }, numa_node: { title: 'NUMA node' }, pci_bus_id: { title: 'Bus' } },
            hidden=['Value', 'instance', 'job', 'node'],
            order=['device', 'port', 'link_layer', 'firmware', 'board', 'netdev', 'numa_node', 'pci_bus_id'],
          ),
          g.timeseries('GPU to network card', 'Distance between the NUMA nodes of each GPU and of the card nearest to it: 10 on the same node.', 'short', [g.query('culprit_host_gpu_nic_numa_distance' + here, '{{gpu}} to {{nic}}')]),
        ]),
        g.row('CPUs and memory', [
          g.timeseries('CPU', 'CPUs in use by mode, of those online (dashed).', 'short', [
            g.query('sum by (mode) (rate(culprit_host_cpu_seconds_total{instance=~"$instance", mode!="idle"}[$__rate_interval]))', '{{mode}}'),
            g.query('culprit_host_cpus' + here, 'online'),
          ]) + { fieldConfig+: { overrides: [g.limit('online')] } },
          g.timeseries('CPU limits', 'Lowest frequency limit of any CPU, and cores slowed down by heat per second.', 'short', [
            g.query('culprit_host_cpu_frequency_limit_hertz' + here, 'frequency limit, Hz'),
            g.query(rate('culprit_host_cpu_thermal_throttles_total'), 'slowed down by heat'),
          ]),
          g.timeseries('Governors', 'CPUs by frequency governor.', 'short', [g.query('culprit_host_cpu_governor_cpus' + here, '{{governor}}')], stack=true),
          g.timeseries('CPUs of NCCL threads', 'CPUs that the threads of each rank may run on, of the thread that has fewest.', 'short', [g.query('culprit_host_thread_allowed_cpus' + here, 'rank {{rank}} {{role}}')]),
          g.timeseries('Memory', 'Memory available, of all (dashed).', 'bytes', [
            g.query('culprit_host_memory_available_bytes' + here, 'available'),
            g.query('culprit_host_memory_bytes' + here, 'all'),
          ]) + { fieldConfig+: { overrides: [g.limit('all')] } },
          g.timeseries('Everybody waits', 'Share of time in which all tasks of the node waited for memory or storage.', 'percentunit', [
            g.query(rate('culprit_host_pressure_memory_stalled_seconds_total'), 'memory'),
            g.query(rate('culprit_host_pressure_io_stalled_seconds_total'), 'storage'),
          ], max=1),
          g.table(
            'PCIe devices',
            'GPUs and network cards, with their lanes.',
            [g.now('culprit_pci_link_width%s * on (instance, device) group_left (kind, driver, numa_node) culprit_pci_device_info%s' % [here, here])],
            { device: { title: 'Device' }, kind: { title: 'Kind' }, driver: { title: 'Driver' }, numa_node: { title: 'NUMA node' }, Value: { title: 'Lanes' } },
            hidden=['instance', 'job', 'node'],
            order=['device', 'kind', 'driver', 'numa_node', 'Value'],
          ),
        ]),
        g.row("NCCL's RAS", [
          g.timeseries('Ranks in trouble', 'Ranks that RAS counts as missing, dead or in error, by communicator.', 'short', [
            g.query('culprit_nccl_ras_missing_ranks%s > 0' % here, '{{comm}} missing'),
            g.query('culprit_nccl_ras_dead_ranks%s > 0' % here, '{{comm}} dead'),
            g.query('culprit_nccl_ras_async_error_ranks%s > 0' % here, '{{comm}} in error'),
            g.query('culprit_nccl_ras_launch_lag%s > 0' % here, '{{comm}} launches behind'),
          ]),
          g.timeseries('Reports', 'Whether RAS answered, how long it took, and how old its report is.', 's', [
            g.query('culprit_nccl_ras_up' + here, 'answered'),
            g.query('culprit_nccl_ras_collection_seconds' + here, 'took'),
            g.query('time() - culprit_nccl_ras_report_timestamp_seconds' + here, 'age'),
          ]),
        ], collapsed=true),
      ],
      [g.annotation('Tickets', 'ALERTS{alertstate="firing", culprit="ticket", instance=~"$instance"}', '{{alertname}}', '{{instance}}', 'yellow')],
    ),
  },
}
