// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Jobs: which job is in trouble, and what the verdict is. Ranks are never averaged: one slow rank in a thousand must show.
{
  local config = $._config,
  local g = import '../lib/grafana.libsonnet',
  local s = (import 'shared.libsonnet')(config),

  local verdicts = g.table(
    'Verdicts',
    "The analyzer's verdicts of open incidents: who is to blame, what for, and how sure that is. A rank of -1 or none means that no single rank is meant. Empty while nothing is wrong.",
    [g.now('max by (job_id, owner, incident, class, cause, rank, host, gpu, paged) (\n  %s\n  * on (instance, incident, job_id, owner) group_left ()\n  culprit_verdict_confidence_ratio\n)' % 'culprit_verdict_info{job_id=~"$job_id", owner=~"$owner"}')],
    {
      owner: { title: 'Owner' },
      job_id: { title: 'Job', links: [s.toJob()] + s.toJobPage() },
      rank: { title: 'Rank', links: [s.toRank(job='${__data.fields["Job"]}', owner='${__data.fields["Owner"]}')], color: [{ color: 'red', value: 0 }] },
      host: { title: 'Host', links: s.atAnalyzer('Incidents of the host', '/?host=${__value.text:percentencode}') },
      gpu: { title: 'GPU' },
      class: { title: 'Class' },
      cause: { title: 'Cause' },
      paged: { title: 'Paged' },
      incident: {
        title: 'Incident',
        links: s.toIncident,
      },
      Value: { title: 'Confidence', unit: 'percentunit' },
    },
    order=['job_id', 'owner', 'rank', 'host', 'gpu', 'class', 'cause', 'Value', 'paged', 'incident'],
    height=6,
  ),

  local triggers = g.table(
    'Triggers',
    'Alerts that set the analyzer to work. They page nobody: the verdict does.',
    [g.now('ALERTS{alertstate="firing", culprit="trigger", job_id=~"$job_id", owner=~"$owner"}')],
    {
      owner: { title: 'Owner' },
      job_id: { title: 'Job', links: [s.toJob()] + s.toJobPage() },
      alertname: { title: 'Trigger', links: [g.external('Runbook', config.runbookURLPattern % '${__value.text}')] },
      kind: { title: 'Kind' },
    },
    hidden=['alertstate', 'culprit', 'severity', 'Value'],
    order=['job_id', 'owner', 'alertname', 'kind'],
    height=6,
  ),

  // Adds the communicators' names to a vector of one sample a communicator or more. A name's number is left out: tp_0 and tp_1 are one.
  local named(vector) = '%s\n* on (job_id, owner, comm) group_left (comm_name)\ntopk by (job_id, owner, comm) (1, max by (job_id, owner, comm, comm_name) (label_replace(%s, "comm_name", "$1", "comm_name", "(.*?)[-_. ]*[0-9]*")))' % [vector, s.ofJob('culprit_nccl_comm_info')],

  // Names of rows sort as text: ranks of up to five digits get leading zeros.
  local padded(vector) = std.foldl(
    function(v, n) 'label_replace(%s, "row", "%s$1", "rank", "(%s)")' % [v, std.repeat('0', 5 - n), std.repeat('.', n)],
    std.range(1, 5),
    vector
  ),

  // Verdicts of the time range, by host. A verdict that paged is one, however long its incident lasted.
  local accusing = 'culprit_verdict_info{paged="true", host!="", job_id=~"$job_id", owner=~"$owner"}',
  local offenders = g.table(
    'Hosts to blame',
    'Hosts that verdicts which paged accused within the time range: in how many incidents, in how many jobs, and the GPU hours that those jobs spent meanwhile. Where an incident accuses two hosts, both have all of its hours. A host that returns wants repair.',
    [
      g.now('count by (host) (group by (host, incident) (max_over_time(%s[$__range])))' % accusing),
      g.now('count by (host) (group by (host, job_id, owner) (max_over_time(%s[$__range])))' % accusing),
      g.now('sum by (host) (\n  count_over_time(group by (host, job_id, owner, incident) (%s)[$__range:1m]) / 60\n  * on (job_id, owner) group_left ()\n  max by (job_id, owner) (max_over_time(job_id:culprit_nccl_process_up:count{job_id=~"$job_id", owner=~"$owner"}[$__range]))\n)' % accusing),
    ],
    {
      host: { title: 'Host', links: s.atAnalyzer('Incidents of the host', '/?host=${__value.text:percentencode}') },
      'Value #A': { title: 'Incidents', color: [{ color: 'orange', value: 2 }, { color: 'red', value: 3 }] },
      'Value #B': { title: 'Jobs' },
      'Value #C': { title: 'GPU hours' },
    },
    join='host',
    order=['host', 'Value #A', 'Value #B', 'Value #C'],
    sort='Incidents',
  ),

  local past = g.table(
    'Past verdicts',
    'Verdicts of the time range, the newest first.',
    [g.now('max by (job_id, owner, incident, class, cause, rank, host, gpu) (max_over_time(timestamp(culprit_verdict_info{job_id=~"$job_id", owner=~"$owner"})[$__range:1m])) * 1000')],
    {
      Value: { title: 'Last seen', unit: 'dateTimeAsIso' },
      owner: { title: 'Owner' },
      job_id: { title: 'Job', links: [s.toJob()] },
      rank: { title: 'Rank', links: [s.toRank(job='${__data.fields["Job"]}', owner='${__data.fields["Owner"]}')] },
      host: { title: 'Host' },
      gpu: { title: 'GPU' },
      class: { title: 'Class' },
      cause: { title: 'Cause' },
      incident: { title: 'Incident', links: s.toIncident },
    },
    order=['Value', 'job_id', 'owner', 'rank', 'host', 'gpu', 'class', 'cause', 'incident'],
    sort='Last seen',
  ),

  local overview = g.table(
    'Jobs',
    'One line a job: processes alive, longest time without progress and how much of it is more than usual, iteration time, and rates of the mean rank. A job with a red stall stands still.',
    [
      g.now('max by (job_id, owner) (job_id:culprit_nccl_process_up:count{job_id=~"$job_id", owner=~"$owner"})'),
      g.now('max by (job_id, owner) (job_id:culprit_nccl_stall_seconds:max{job_id=~"$job_id", owner=~"$owner"})'),
      g.now('max by (job_id, owner) (job_id:culprit_nccl_stall_seconds:max{job_id=~"$job_id", owner=~"$owner"} / job_id:culprit_nccl_stall_seconds:threshold)'),
      g.now('max by (job_id, owner) (job_id:culprit_nccl_iteration_seconds:mean_long{instance="", job_id=~"$job_id", owner=~"$owner"})'),
      g.now('max by (job_id, owner) (job_id:culprit_nccl_function_ops:rate_short{instance="", job_id=~"$job_id", owner=~"$owner"})'),
      g.now('max by (job_id, owner) (job_id:culprit_nccl_bytes:rate_short{instance="", job_id=~"$job_id", owner=~"$owner"})'),
    ],
    {
      owner: { title: 'Owner' },
      job_id: { title: 'Job', links: [s.toJob()] + s.toJobPage() },
      'Value #A': { title: 'Processes' },
      'Value #B': { title: 'Stall', unit: 's' },
      'Value #C': { title: 'Stall / threshold', unit: 'percentunit', color: [{ color: 'orange', value: 0.5 }, { color: 'red', value: 1 }] },
      'Value #D': { title: 'Iteration', unit: 's' },
      'Value #E': { title: 'Operations per rank', unit: 'ops' },
      'Value #F': { title: 'Bytes per rank', unit: 'Bps' },
    },
    merge=true,
    order=['job_id', 'owner', 'Value #A', 'Value #B', 'Value #C', 'Value #D', 'Value #E', 'Value #F'],
    sort='Stall / threshold',
  ),

  grafanaDashboards+:: {
    'culprit-jobs.json': g.dashboard(
      config,
      s.uid.jobs,
      'Culprit / Jobs',
      'Training jobs: which hangs or got slow, and who is to blame.',
      [s.jobs, s.owner] + s.analyzer,
      [
        g.row('Verdicts', [verdicts { gridPos+: { w: 16 } }, triggers { gridPos+: { w: 8 } }]),
        g.row('Jobs', [overview]),
        g.row('Progress', [
          g.timeseries(
            'Time without progress',
            'The longest time that a communicator with an operation in flight has seen no progress, and the threshold of the stall trigger (dashed): twice what the job usually waits, at least 3 s.',
            's',
            [
              g.query('job_id:culprit_nccl_stall_seconds:max{job_id=~"$job_id", owner=~"$owner"}', '{{job_id}} ({{owner}})'),
              g.query('job_id:culprit_nccl_stall_seconds:threshold{job_id=~"$job_id", owner=~"$owner"}', '{{job_id}} ({{owner}}) threshold'),
            ],
            links=[s.seriesToJob],
          ) + { fieldConfig+: { overrides: [g.limit('.* threshold')] } },
          g.timeseries(
            'Iteration time',
            'Mean time of the training iterations that ended in the last 10 s, found in the sequence of operations, and the upper edge of the healthy range (dashed). The trigger fires 10% above it.',
            's',
            [
              g.query('job_id:culprit_nccl_iteration_seconds:mean_short{instance="", job_id=~"$job_id", owner=~"$owner"}', '{{job_id}} ({{owner}})'),
              // Until it is known the baseline is infinite, so that nothing is above it, and those of rates are 0; a line there would look like an outage.
              g.query('last_over_time(job_id:culprit_nccl_iteration_seconds:mean_short_baseline{instance="", job_id=~"$job_id", owner=~"$owner"}[%s]) < Inf' % config.baselineMemory, '{{job_id}} ({{owner}}) baseline'),
            ],
            links=[s.seriesToJob],
          ) + { fieldConfig+: { overrides: [g.limit('.* baseline')] } },
          g.timeseries(
            'Ranks without progress for longest',
            'The ten ranks that have waited longest. In a hang they are the victims: the culprit is whom they wait for.',
            's',
            [g.query('topk(10, %s)' % s.ofJob('culprit_nccl_stall_seconds'), '{{job_id}} ({{owner}}) rank {{rank}}')],
            links=[s.seriesToRank],
          ),
          g.timeseries(
            'Ranks that wait least',
            'Share of the time that a rank waits for peers or the network, summed over its flows, so that it may exceed 100%: the ten smallest. In a slow job the rank that waits least is the one the others wait for.',
            'percentunit',
            [g.query('bottomk(10, sum by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % s.ofJob('culprit_nccl_wait_seconds_total', 'reason=~"peer|network|receive"'), '{{job_id}} ({{owner}}) rank {{rank}}')],
            links=[s.seriesToRank],
          ),
          g.timeseries(
            'Operations per rank',
            'Operations completed per second: the slowest rank, the median rank, the fastest, and the lower edge of the healthy range of the mean (dashed).',
            'ops',
            [
              g.query('min by (job_id, owner) (sum by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % s.ofJob('culprit_nccl_function_ops_total'), '{{job_id}} ({{owner}}) slowest'),
              g.query('quantile by (job_id, owner) (0.5, sum by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % s.ofJob('culprit_nccl_function_ops_total'), '{{job_id}} ({{owner}}) median'),
              g.query('max by (job_id, owner) (sum by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % s.ofJob('culprit_nccl_function_ops_total'), '{{job_id}} ({{owner}}) fastest'),
              g.query('last_over_time(job_id:culprit_nccl_function_ops:rate_short_baseline{instance="", job_id=~"$job_id", owner=~"$owner"}[%s]) > 0' % config.baselineMemory, '{{job_id}} ({{owner}}) baseline'),
            ],
          ) + { fieldConfig+: { overrides: [g.limit('.* baseline')] } },
          g.timeseries(
            'Bytes per rank',
            'Payload of completed operations per second: the rank that moved least, the median rank, the one that moved most, and the lower edge of the healthy range of the mean (dashed).',
            'Bps',
            [
              g.query('min by (job_id, owner) (sum by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % s.ofJob('culprit_nccl_bytes_total'), '{{job_id}} ({{owner}}) least'),
              g.query('quantile by (job_id, owner) (0.5, sum by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % s.ofJob('culprit_nccl_bytes_total'), '{{job_id}} ({{owner}}) median'),
              g.query('max by (job_id, owner) (sum by (job_id, owner, rank) (rate(%s[$__rate_interval])))' % s.ofJob('culprit_nccl_bytes_total'), '{{job_id}} ({{owner}}) most'),
              g.query('last_over_time(job_id:culprit_nccl_bytes:rate_short_baseline{instance="", job_id=~"$job_id", owner=~"$owner"}[%s]) > 0' % config.baselineMemory, '{{job_id}} ({{owner}}) baseline'),
            ],
          ) + { fieldConfig+: { overrides: [g.limit('.* baseline')] } },
        ]),
        g.row('Communicators', [
          g.timeseries(
            'Bus bandwidth',
            'Bus bandwidth as nccl-tests define it, by name of the communicators, function and size: of each communicator that of the rank that waits least, and of those the slowest. Compare it with the share of the network ports that falls to the ranks of such a communicator on a node (dashed), where exporters know it.',
            'Bps',
            [
              g.query('min by (job_id, owner, comm_name, function, size) (%s)' % named('job_id:culprit_nccl_comm_bus_bandwidth:max{job_id=~"$job_id", owner=~"$owner"}'), '{{job_id}} ({{owner}}) {{comm_name}} {{function}} {{size}}'),
              g.query('min by (job_id, owner, comm_name) (%s)' % named('job_id:culprit_nccl_comm_network_rate:min{job_id=~"$job_id", owner=~"$owner"}'), '{{job_id}} ({{owner}}) {{comm_name}} network rate'),
            ],
            width=24,
            links=[s.seriesToJob],
          ) + { fieldConfig+: { overrides: [g.limit('.* network rate')] } },
          g.table(
            'Communicators',
            'One line a communicator: how many ranks of how many are seen, how far the last rank is behind the first in operations called, and the oldest operation in flight. A lag that stays is a rank that did not enter.',
            [
              g.now('max by (job_id, owner, comm, comm_name, nranks) (%s)' % s.ofJob('culprit_nccl_comm_info')),
              g.now('count by (comm) (%s)' % s.ofJob('culprit_nccl_ops_started_total')),
              g.now('max by (comm) (%s) - min by (comm) (%s)' % [s.ofJob('culprit_nccl_ops_started_total'), s.ofJob('culprit_nccl_ops_started_total')]),
              g.now('max by (comm) (%s)' % s.ofJob('culprit_nccl_op_age_seconds')),
            ],
            {
              owner: { title: 'Owner' },
              job_id: { title: 'Job' },
              comm: { title: 'Communicator', links: [g.drilldown('Communicator', s.uid.communicator, { job_id: '${__data.fields["Job"]}', comm: '${__value.text}' })] },
              comm_name: { title: 'Name' },
              nranks: { title: 'Ranks' },
              'Value #B': { title: 'Ranks seen' },
              'Value #C': { title: 'Lag', color: [{ color: 'orange', value: 1 }] },
              'Value #D': { title: 'Oldest operation', unit: 's', color: [{ color: 'orange', value: config.stallFloorSeconds }] },
            },
            hidden=['Value #A'],
            join='comm',
            order=['job_id', 'owner', 'comm', 'comm_name', 'nranks', 'Value #B', 'Value #C', 'Value #D'],
            sort='Oldest operation',
          ),
        ]),
        g.row('Waiting by rank', [
          g.rows(
            'Waiting',
            'Share of the time that each rank waits for peers or the network, summed over its flows; one row a rank. In a slow job the dark row is whom the others wait for; in a hang all rows stop.',
            'percentunit',
            [g.query('sum by (job_id, owner, row) (%s)' % padded('rate(%s[$__rate_interval])' % s.ofJob('culprit_nccl_wait_seconds_total', 'reason=~"peer|network|receive"')), '{{job_id}} ({{owner}}) {{row}}')],
          ),
        ], collapsed=true),
        g.row('History', [offenders, past], collapsed=true),
        g.row('Iterations', [
          g.heatmap(
            'Iteration times',
            'Distribution of the iteration times of all ranks: spikes, fluctuation and steady degradation look different.',
            's',
            [g.query('sum by (le) (increase(%s[$__rate_interval]))' % s.ofJob('culprit_nccl_iteration_seconds_bucket'), '{{le}}')],
            width=24,
          ),
        ], collapsed=true),
      ],
      s.annotations,
      s.allPages,
    ),
  },
}
