// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Rank: one process: what it does, what it waits for, and what its node says.
{
  local config = $._config,
  local g = import '../lib/grafana.libsonnet',
  local s = (import 'shared.libsonnet')(config),
  local ofRank(metric, matchers='') = s.ofJob(metric, std.join(', ', ['rank=~"$rank"'] + (if matchers == '' then [] else [matchers]))),
  local others(metric, matchers='') = s.ofJob(metric, std.join(', ', ['rank!~"$rank"'] + (if matchers == '' then [] else [matchers]))),

  // What the node of this rank, its GPU, or the GPUs of the whole job show.
  local ofNode(vector) = '%s and on (instance) %s' % [vector, ofRank('culprit_nccl_process_info')],
  local ofGPU(vector) = '%s and on (instance, gpu) %s' % [vector, ofRank('culprit_nccl_process_info')],
  local ofJobGPUs(vector) = '%s and on (instance, gpu) %s' % [vector, s.ofJob('culprit_nccl_process_info')],
  local gpuBeside(metric) = [
    g.query(ofGPU(metric), 'this GPU'),
    g.query('quantile(0.5, %s)' % ofJobGPUs(metric), 'median of the job'),
  ],

  // This rank's rate beside the median of the other ranks of the job.
  local beside(metric, matchers='') = [
    g.query('sum(rate(%s[$__rate_interval]))' % ofRank(metric, matchers), 'this rank'),
    g.query('quantile(0.5, sum by (rank) (rate(%s[$__rate_interval])))' % others(metric, matchers), 'median of the others'),
  ],

  // Operations of each communicator divided by the probes that found their counts changed, of this rank and the lowest of the job's.
  local rates(metric, name) =
    local by(labels, of) = 'sum by (%s) (rate(%s[$__rate_interval])) / sum by (%s) (rate(%s[$__rate_interval]))' % [labels, of('culprit_nccl_ops_completed_total'), labels, of(metric)];
    [
      g.query(by('comm', ofRank), '{{comm}} ' + name),
      g.query('min by (comm) (%s and on (comm) %s)' % [by('comm, rank', s.ofJob), ofRank(metric)], '{{comm}} lowest ' + name + ' of the job'),
    ],

  grafanaDashboards+:: {
    'culprit-rank.json': g.dashboard(
      config,
      s.uid.rank,
      'Culprit / Rank',
      'One rank of a job: progress, waits by reason, network steps, and the facts of its node.',
      [s.job, s.owner, s.rank] + s.analyzer,
      [
        g.row('Process', [
          g.table(
            'Who it is',
            'The process behind the rank, and where it runs.',
            [g.now('max by (host, gpu, gpu_uuid, local_rank, world_size, pid, namespace, pod, container, slurm_job_id, instance) (%s)' % ofRank('culprit_nccl_process_info'))],
            {
              host: { title: 'Host' },
              gpu: { title: 'GPU' },
              gpu_uuid: { title: 'GPU UUID' },
              local_rank: { title: 'Local rank' },
              world_size: { title: 'World size' },
              pid: { title: 'PID' },
              namespace: { title: 'Namespace' },
              pod: { title: 'Pod' },
              container: { title: 'Container' },
              slurm_job_id: { title: 'Slurm job' },
              instance: { title: 'Exporter', links: [s.toNode('Exporter')] },
            },
            hidden=['Value'],
            height=4,
          ),
          g.stat('Process', 'Whether the process lives; gone means that it vanished without an orderly end.', 'short', [g.query('max(%s)' % ofRank('culprit_nccl_process_up'))], width=4, mappings=g.mapping({ '0': ['gone', 'red'], '1': ['up', 'green'] })),
          g.stat('Age', 'Time since the process made its first communicator.', 's', [g.query('min(%s)' % ofRank('culprit_nccl_process_age_seconds'))], width=4),
          g.stat('No progress', 'Longest time that a communicator of this rank with an operation in flight has seen no progress.', 's', [g.query('max(%s)' % ofRank('culprit_nccl_stall_seconds'))], width=4, steps=[{ color: 'orange', value: config.stallFloorSeconds }], links=[s.seriesToJob]),
          g.stat('Inside ncclGroupEnd', 'How long the process has been inside ncclGroupEnd: the CPU is in the call.', 's', [g.query('max(%s)' % ofRank('culprit_nccl_group_open_seconds'))], width=4, steps=[{ color: 'orange', value: 1 }]),
          g.stat('In flight', 'Operations enqueued and not left, over all communicators.', 'short', [g.query('sum(%s - %s)' % [ofRank('culprit_nccl_ops_started_total'), ofRank('culprit_nccl_ops_completed_total')])], width=4),
          g.stat('Events lost', 'Trace events of this rank lost in the time range: its picture is incomplete.', 'short', [g.query('sum(increase(%s[$__range]))' % ofRank('culprit_nccl_events_lost_total'))], width=4, steps=[{ color: 'orange', value: 1 }]),
        ]),
        g.row('Communicators', [
          g.table(
            'Its communicators',
            'The communicators of this rank: operations called and left here, how far that is behind the first rank of each, and the oldest operation in flight.',
            [
              g.now('max by (comm, comm_name, comm_rank, nranks) (%s)' % ofRank('culprit_nccl_comm_info')),
              g.now('max by (comm) (%s)' % ofRank('culprit_nccl_ops_started_total')),
              g.now('max by (comm) (%s)' % ofRank('culprit_nccl_ops_completed_total')),
              g.now('max by (comm) (%s) - max by (comm) (%s)' % [s.ofJob('culprit_nccl_ops_started_total'), ofRank('culprit_nccl_ops_started_total')]),
              g.now('max by (comm) (%s)' % ofRank('culprit_nccl_op_age_seconds')),
            ],
            {
              comm: { title: 'Communicator', links: [s.toCommunicator()] },
              comm_name: { title: 'Name' },
              comm_rank: { title: 'Rank in it' },
              nranks: { title: 'Ranks' },
              'Value #B': { title: 'Called' },
              'Value #C': { title: 'Completed' },
              'Value #D': { title: 'Behind', color: [{ color: 'orange', value: 1 }] },
              'Value #E': { title: 'Oldest', unit: 's', color: [{ color: 'orange', value: config.stallFloorSeconds }] },
            },
            hidden=['Value #A'],
            join='comm',
            order=['comm', 'comm_name', 'comm_rank', 'nranks', 'Value #B', 'Value #C', 'Value #D', 'Value #E'],
            sort='Oldest',
          ),
          g.timeseries('Operations completed', 'Operations left per second, by communicator.', 'ops', [g.query('sum by (job_id, owner, comm) (rate(%s[$__rate_interval]))' % ofRank('culprit_nccl_ops_completed_total'), '{{comm}}')], links=[s.seriesToCommunicator]),
          g.timeseries('Operations in flight', 'Operations enqueued and not left, by communicator.', 'short', [g.query('max by (job_id, owner, comm) (%s - %s)' % [ofRank('culprit_nccl_ops_started_total'), ofRank('culprit_nccl_ops_completed_total')], '{{comm}}')], links=[s.seriesToCommunicator]),
        ]),
        g.row('Waiting', [
          g.timeseries(
            'Waits by reason',
            'Time that the head steps of its flows waited, by what for, per second and summed over flows. gpu: its own GPU; peer: the receiver; network: delivery; receive: the sender or the network; flush and consume: its own PCIe and GPU.',
            's',
            [g.query('sum by (reason) (rate(%s[$__rate_interval]))' % ofRank('culprit_nccl_wait_seconds_total'), '{{reason}}')],
            stack=true,
          ),
          g.timeseries(
            'Waits for others, against the other ranks',
            'Waiting for peers and network here and at the median of the other ranks. A rank far below the others is the one they wait for.',
            's',
            beside('culprit_nccl_wait_seconds_total', 'reason=~"peer|network|receive"'),
          ),
          g.timeseries(
            'Waits for its own GPU, against the other ranks',
            'Waiting for its own GPU here and at the median of the other ranks. Far above the others: this GPU is slow to produce or consume.',
            's',
            beside('culprit_nccl_wait_seconds_total', 'reason=~"gpu|flush|consume"'),
          ),
          g.timeseries(
            'Active communication time',
            'Time with a transfer outstanding, per second and summed over send flows, here and at the median of the other ranks: waiting for late peers does not count. Far above the others: a slow network path.',
            's',
            beside('culprit_nccl_active_seconds_total'),
          ),
          g.timeseries(
            'Active epochs',
            'Epochs of 32.768 µs with a transfer outstanding, per second and summed over send flows (Pulse), here and at the median of the other ranks. Many epochs for little active time: many short transfers.',
            'short',
            beside('culprit_nccl_active_epochs_total'),
          ),
        ]),
        g.row('Network steps', [
          g.timeseries('Send steps', 'Steps per second through each stage of sending. Where the stages part, steps pile up.', 'ops', [g.query('sum by (stage) (rate(%s[$__rate_interval]))' % ofRank('culprit_nccl_send_steps_total'), '{{stage}}')]),
          g.timeseries('Receive steps', 'Steps per second through each stage of receiving. Where the stages part, steps pile up.', 'ops', [g.query('sum by (stage) (rate(%s[$__rate_interval]))' % ofRank('culprit_nccl_receive_steps_total'), '{{stage}}')]),
          g.timeseries(
            'Send and receive rate',
            'SendRate and RecvRate of CCL-D by communicator: one divided by the number of 1 ms probes that find the count changed during an operation, here and the lowest of the job. A slow link spreads its steps over more probes. In a ring the other links follow its pace, and rates differ little.',
            'short',
            rates('culprit_nccl_send_probes_total', 'send') + rates('culprit_nccl_receive_probes_total', 'receive'),
          ),
          g.timeseries('Bytes by function', 'Payload of completed operations per second, by function.', 'Bps', [g.query('sum by (function) (rate(%s[$__rate_interval]))' % ofRank('culprit_nccl_bytes_total'), '{{function}}')], stack=true),
          g.timeseries(
            'Time in operations',
            'Time from the start of the kernel to its end per operation, by function; from the enqueuing where no kernel is seen. The rank with the shortest time came last: the others waited for it.',
            's',
            [g.query('sum by (function) (rate(%s[$__rate_interval]))\n/\n(sum by (function) (rate(%s[$__rate_interval])) > 0)' % [ofRank('culprit_nccl_op_seconds_total'), ofRank('culprit_nccl_function_ops_total')], '{{function}}')],
            width=24,
          ),
          g.table(
            'Flows in progress',
            'Shown only while a communicator makes no progress: steps of each flow of the operation in progress through its stages.',
            [
              g.now('max by (comm, channel, direction, peer, stage) (%s)' % ofRank('culprit_nccl_flow_steps')),
              g.now('max by (comm, channel, direction, peer, state, function, op) (%s)' % ofRank('culprit_nccl_flow_info')),
            ],
            {
              comm: { title: 'Communicator', links: [s.toCommunicator()] },
              channel: { title: 'Channel' },
              direction: { title: 'Direction' },
              peer: { title: 'Peer' },
              stage: { title: 'Stage' },
              state: { title: 'Waits for' },
              'function': { title: 'Function' },
              op: { title: 'Operation' },
              'Value #A': { title: 'Steps' },
            },
            hidden=['Value #B'],
            order=['comm', 'channel', 'direction', 'peer', 'state', 'function', 'op', 'stage', 'Value #A'],
            height=10,
          ) + { transformations: [{ id: 'merge', options: {} }] + super.transformations },
        ]),
        g.row('GPU', [
          g.timeseries(
            'SM clock',
            'Clock of the GPU, the median of the GPUs of the job, and the highest it offers (dashed). Below the others under load: it is throttled.',
            'hertz',
            gpuBeside('culprit_nvml_sm_clock_hertz') + [g.query(ofGPU('culprit_nvml_sm_max_clock_hertz'), 'limit')],
          ) + { fieldConfig+: { overrides: [g.limit('limit')] } },
          g.timeseries(
            'Clocks limited by',
            'Reasons for which the clocks are held down now, 1 each. hw_slowdown, hw_thermal and power_brake are trouble; power_cap is normal at full load when all GPUs show it.',
            'short',
            [g.query(ofGPU('culprit_nvml_clock_limited'), '{{reason}}')],
          ),
          g.timeseries('Power', 'Power of the GPU, the median of the GPUs of the job, and its limit (dashed).', 'watt', gpuBeside('culprit_nvml_power_watts') + [g.query(ofGPU('culprit_nvml_power_limit_watts'), 'limit')]) + { fieldConfig+: { overrides: [g.limit('limit')] } },
          g.timeseries('Temperature', 'Temperature of the GPU and the median of the GPUs of the job.', 'celsius', gpuBeside('culprit_nvml_temperature_celsius')),
          g.timeseries('Utilization', 'Share of time in which a kernel ran; a kernel that waits for a collective counts as running.', 'percentunit', gpuBeside('culprit_nvml_utilization_ratio'), max=1),
          g.timeseries(
            'Errors',
            'Errors of the GPU in the last rate interval: memory (corrected, uncorrected) and PCIe replays. Any uncorrected error is trouble.',
            'short',
            [
              g.query('increase(%s[$__rate_interval]) and on (instance, gpu) %s' % ['culprit_nvml_ecc_errors_total', ofRank('culprit_nccl_process_info')], 'memory, {{severity}}'),
              g.query('increase(%s[$__rate_interval]) and on (instance, gpu) %s' % ['culprit_nvml_pcie_replays_total', ofRank('culprit_nccl_process_info')], 'PCIe replays'),
            ],
          ),
        ], collapsed=true),
        g.row('Node', [
          g.timeseries(
            'Pressure',
            'Share of time in which some task of the node waited for a CPU, memory or storage.',
            'percentunit',
            [
              g.query('rate(culprit_host_pressure_cpu_waiting_seconds_total[$__rate_interval]) and on (instance) %s' % ofRank('culprit_nccl_process_info'), 'CPU'),
              g.query('rate(culprit_host_pressure_memory_waiting_seconds_total[$__rate_interval]) and on (instance) %s' % ofRank('culprit_nccl_process_info'), 'memory'),
              g.query('rate(culprit_host_pressure_io_waiting_seconds_total[$__rate_interval]) and on (instance) %s' % ofRank('culprit_nccl_process_info'), 'storage'),
            ],
            max=1,
          ),
          g.timeseries('CPU frequency', 'Mean frequency of the CPUs of the node and the highest that they offer (dashed).', 'hertz', [
            g.query(ofNode('culprit_host_cpu_frequency_hertz'), 'now'),
            g.query(ofNode('culprit_host_cpu_max_frequency_hertz'), 'limit'),
          ]) + { fieldConfig+: { overrides: [g.limit('limit')] } },
          g.timeseries(
            'PCIe links below their width or speed',
            'Lanes and transfers per second of each GPU and network card as shares of what device and slot both offer: only those below 1. A GPU at rest lowers its speed.',
            'percentunit',
            [
              g.query('((%s) / culprit_pci_link_max_width) < 1' % ofNode('culprit_pci_link_width'), '{{device}} width'),
              g.query('((%s) / culprit_pci_link_max_transfers_per_second) < 1' % ofNode('culprit_pci_link_transfers_per_second'), '{{device}} speed'),
            ],
            max=1,
          ),
          g.timeseries('PCIe errors', 'Errors that the PCIe devices of the node reported in the last rate interval.', 'short', [
            g.query('(increase(culprit_pci_errors_total[$__rate_interval]) and on (instance) %s) > 0' % ofRank('culprit_nccl_process_info'), '{{device}} {{severity}}'),
          ]),
          g.timeseries(
            'Network',
            "Bytes through each RDMA port of the node, and each port's rate (dashed).",
            'Bps',
            [
              g.query('rate(culprit_rdma_transmit_bytes_total[$__rate_interval]) and on (instance) %s' % ofRank('culprit_nccl_process_info'), '{{device}} sent'),
              g.query('rate(culprit_rdma_receive_bytes_total[$__rate_interval]) and on (instance) %s' % ofRank('culprit_nccl_process_info'), '{{device}} received'),
              g.query(ofNode('culprit_rdma_port_rate_bytes_per_second'), '{{device}} rate'),
            ],
          ) + { fieldConfig+: { overrides: [g.limit('.* rate')] } },
          g.timeseries(
            'Network errors and congestion',
            'Errors of the ports and of the transport, and notifications of congestion, per second: only what occurs.',
            'ops',
            [
              g.query('(rate(culprit_rdma_port_errors_total[$__rate_interval]) and on (instance) %s) > 0' % ofRank('culprit_nccl_process_info'), '{{device}} {{kind}}'),
              g.query('(rate(culprit_rdma_transport_errors_total[$__rate_interval]) and on (instance) %s) > 0' % ofRank('culprit_nccl_process_info'), '{{device}} {{kind}}'),
              g.query('(rate(culprit_rdma_congestion_notifications_total[$__rate_interval]) and on (instance) %s) > 0' % ofRank('culprit_nccl_process_info'), '{{device}} {{kind}}'),
            ],
          ),
        ], collapsed=true),
      ],
      s.annotations,
      s.jobPages,
    ),
  },
}
