// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Communicator: where each of its ranks is, and who waits for whom.
{
  local config = $._config,
  local g = import '../lib/grafana.libsonnet',
  local s = (import 'shared.libsonnet')(config),
  local ofComm(metric, matchers='') = s.ofJob(metric, std.join(', ', ['comm=~"$comm"'] + (if matchers == '' then [] else [matchers]))),
  local ofMembers(metric) = '%s\nand on (instance, job_id, owner, rank) %s' % [s.ofJob(metric), ofComm('culprit_nccl_comm_info')],
  local started = ofComm('culprit_nccl_ops_started_total'),
  local completed = ofComm('culprit_nccl_ops_completed_total'),

  grafanaDashboards+:: {
    'culprit-communicator.json': g.dashboard(
      config,
      s.uid.communicator,
      'Culprit / Communicator',
      'The ranks of one communicator: who has not entered, who is stuck inside, who waits for whom.',
      [s.job, s.owner, s.comm] + s.analyzer,
      [
        g.row('Communicator', [
          g.stat('Name', 'What the job calls the communicator, if anything.', 'short', [g.query('max by (comm_name) (label_replace(%s, "comm_name", "none", "comm_name", ""))' % ofComm('culprit_nccl_comm_info'), '{{comm_name}}')], width=6, text=true),
          g.stat('Size', 'Ranks that the communicator was made for.', 'short', [g.query('max by (nranks) (%s)' % ofComm('culprit_nccl_comm_info'), '{{nranks}}')], width=4, text=true),
          g.stat('Ranks seen', 'Ranks whose exporter shows the communicator. Fewer than its size: some are not watched, or never called an operation.', 'short', [g.query('count(%s)' % started)], width=4),
          g.stat('Lag', 'Operations that the last rank is behind the first. More than 0 for long: a rank did not enter.', 'short', [g.query('max(%s) - min(%s)' % [started, started])], width=5, steps=[{ color: 'orange', value: 1 }]),
          g.stat('Oldest operation', 'Age of the oldest operation in flight on any rank; barriers are left out.', 's', [g.query('max(%s) or vector(0)' % ofComm('culprit_nccl_op_age_seconds'))], width=5, steps=[{ color: 'orange', value: config.stallFloorSeconds }, { color: 'red', value: config.operationAgeSeconds }]),
        ]),
        g.row('Ranks', [
          g.table(
            'Where each rank is',
            'Operations called and left by each rank. The rank that called fewest is the one the others wait for, if it stays so; ranks inside the same operation wait for whoever is not.',
            [
              g.now('max by (rank, comm_rank) (%s)' % ofComm('culprit_nccl_comm_info')),
              g.now('max by (rank, host, gpu, pid) (%s)' % ofMembers('culprit_nccl_process_info')),
              g.now('max by (rank) (%s)' % started),
              g.now('scalar(max(%s)) - max by (rank) (%s)' % [started, started]),
              g.now('max by (rank) (%s)' % completed),
              g.now('max by (rank) (%s - %s)' % [started, completed]),
              g.now('max by (rank) (%s)' % ofComm('culprit_nccl_op_age_seconds')),
              g.now('max by (rank) (%s)' % ofMembers('culprit_nccl_stall_seconds')),
              g.now('max by (rank) (%s)' % ofMembers('culprit_nccl_process_up')),
            ],
            {
              rank: { title: 'Rank', links: [s.toRank()] },
              comm_rank: { title: 'Rank in communicator' },
              host: { title: 'Host' },
              gpu: { title: 'GPU' },
              pid: { title: 'PID' },
              'Value #C': { title: 'Called' },
              'Value #D': { title: 'Behind', color: [{ color: 'orange', value: 1 }] },
              'Value #E': { title: 'Completed' },
              'Value #F': { title: 'In flight' },
              'Value #G': { title: 'Oldest', unit: 's', color: [{ color: 'orange', value: config.stallFloorSeconds }] },
              'Value #H': { title: 'No progress (any communicator)', unit: 's' },
              'Value #I': { title: 'Process', mappings: g.mapping({ '0': ['gone', 'red'], '1': ['up', 'green'] }) },
            },
            hidden=['Value #A', 'Value #B'],
            join='rank',
            order=['rank', 'comm_rank', 'host', 'gpu', 'pid', 'Value #C', 'Value #D', 'Value #E', 'Value #F', 'Value #G', 'Value #H', 'Value #I'],
            sort='Behind',
            height=12,
          ),
        ]),
        g.row('Bandwidth', [
          g.timeseries(
            'Bus bandwidth',
            'Bus bandwidth as nccl-tests define it, by function and size, algorithm and protocol, of the rank that waits least for others. Compare it with the share of the network ports that falls to the ranks of the communicator on a node (dashed), where exporters know it; inside a node with what the links between GPUs do in nccl-tests.',
            'Bps',
            [
              g.query('max by (function, size, algorithm, protocol, path) (job_id:culprit_nccl_comm_bus_bandwidth:max{job_id=~"$job_id", owner=~"$owner", comm=~"$comm"})', '{{function}} {{size}} {{algorithm}} {{protocol}} {{path}}'),
              g.query('max(job_id:culprit_nccl_comm_network_rate:min{job_id=~"$job_id", owner=~"$owner", comm=~"$comm"})', 'network rate'),
            ],
          ) + { fieldConfig+: { overrides: [g.limit('network rate')] } },
          g.timeseries(
            'Algorithm bandwidth',
            'Bytes over time as nccl-tests count them, by function and size, of the rank that waits least for others.',
            'Bps',
            [g.query('max by (function, size, algorithm, protocol, path) (job_id:culprit_nccl_comm_algorithm_bandwidth:max{job_id=~"$job_id", owner=~"$owner", comm=~"$comm"})', '{{function}} {{size}} {{algorithm}} {{protocol}} {{path}}')],
          ),
          g.timeseries(
            'Ranks that are inside least',
            'Share of the time that a rank is inside operations of the communicator, waiting for others included: the ten smallest. The rank that is inside least comes last, and the others wait for it.',
            'percentunit',
            [g.query('bottomk(10, sum by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % ofComm('culprit_nccl_op_seconds_total'), 'rank {{rank}}')],
            width=24,
            links=[s.seriesToRank],
          ),
        ]),
        g.row('Over time', [
          g.timeseries(
            'Behind the first rank',
            'Operations that each rank is behind the rank that called most. A line that rises and stays is a rank that did not enter; a line that is never at 0 is a rank that is always late.',
            'short',
            [g.query('topk(20, scalar(max(%s)) - max by (job_id, owner, rank) (%s))' % [started, started], 'rank {{rank}}')],
            links=[s.seriesToRank],
          ),
          g.timeseries(
            'Oldest operation in flight',
            'Age of the oldest operation in flight by rank. The rank with the youngest operation came last: the others waited for it.',
            's',
            [g.query('topk(20, max by (job_id, owner, rank) (%s))' % ofComm('culprit_nccl_op_age_seconds'), 'rank {{rank}}')],
            links=[s.seriesToRank],
          ),
          g.timeseries(
            'Operations called',
            'Operations called per second by rank; equal on all ranks of a healthy communicator. The ten slowest.',
            'ops',
            [g.query('bottomk(10, max by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % started, 'rank {{rank}}')],
            links=[s.seriesToRank],
          ),
          g.timeseries(
            'Operations completed',
            'Operations left per second by rank. The ten slowest.',
            'ops',
            [g.query('bottomk(10, max by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % completed, 'rank {{rank}}')],
            links=[s.seriesToRank],
          ),
        ]),
        g.row('Who waits for whom', [
          g.table(
            'Flows in progress',
            'Shown only while the communicator makes no progress. Each line is a flow of a rank: what its head step waits for, and for how long. A send that waits for its peer points at the peer; one that is transmitted and not done points at the network or the peer; one that is not ready points at its own GPU.',
            [
              g.now('max by (rank, peer, channel, direction) (%s)' % ofComm('culprit_nccl_flow_state_seconds')),
              g.now('max by (rank, peer, channel, direction, state, function, op) (%s)' % ofComm('culprit_nccl_flow_info')),
            ],
            {
              rank: { title: 'Rank', links: [s.toRank()] },
              peer: { title: 'Peer' },
              channel: { title: 'Channel' },
              direction: { title: 'Direction' },
              state: { title: 'Waits for' },
              'function': { title: 'Function' },
              op: { title: 'Operation' },
              'Value #A': { title: 'Since', unit: 's' },
            },
            hidden=['Value #B'],
            order=['rank', 'peer', 'channel', 'direction', 'state', 'function', 'op', 'Value #A'],
            sort='Since',
            height=10,
          ) + {
            // Rows of the two queries have the same four labels: merged, not joined.
            transformations: [{ id: 'merge', options: {} }] + super.transformations,
          },
          g.timeseries(
            'Least moved',
            'Steps done by each flow of the operation in progress, as shares of the furthest flow: the twenty least. Compare within one channel and direction.',
            'percentunit',
            [g.query('bottomk(20, %s / on (direction, stage) group_left () max by (direction, stage) (%s))' % [ofComm('culprit_nccl_flow_steps', 'stage=~"done|received"'), ofComm('culprit_nccl_flow_steps', 'stage=~"done|received"')], 'rank {{rank}} channel {{channel}} {{direction}} peer {{peer}}')],
            width=24,
            links=[s.seriesToRank],
          ),
        ]),
      ],
      s.annotations,
      s.jobPages,
    ),
  },
}
