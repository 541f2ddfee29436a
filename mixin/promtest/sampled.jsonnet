// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Renders rules that read one rank of ten for slowness, and a unit test for promtool: a job that gets slow is seen by the ranks that stand for all,
// the others are not read, and a standstill is seen by any rank.
local groups = ((import '../mixin.libsonnet') + { _config+:: { sampleSelector: 'rank=~".*0"' } }).prometheusAlerts.groups;

local rank(job, rank, bytes, stall='0.4x120') =
  local of = 'job="culprit-exporter", instance="n%s", job_id="%s", rank="%s"' % [rank, job, rank];
  local op = of + ', comm="c", function="AllReduce", algorithm="ring", protocol="simple", path="network", size="<=1MiB"';
  [
    { series: 'culprit_nccl_process_up{%s}' % of, values: '1x120' },
    { series: 'culprit_nccl_process_age_seconds{%s}' % of, values: '0+5x120' },
    { series: 'culprit_nccl_function_ops_total{%s, function="AllReduce"}' % of, values: '0+10x120' },
    { series: 'culprit_nccl_bytes_total{%s, function="AllReduce"}' % of, values: bytes },
    { series: 'culprit_nccl_stall_seconds{%s}' % of, values: stall },
    { series: 'culprit_nccl_op_bytes_total{%s}' % op, values: '0+1000x120' },
    { series: 'culprit_nccl_op_seconds_total{%s}' % op, values: '0+%dx120' % (1 + std.parseInt(rank)) },
  ];

local steady = '0+1000x120';
local slow = '0+1000x60 60300+300x60';

local firing(name) = 'group by (alertname, job_id) (ALERTS{alertstate="firing", alertname="%s"})' % name;
local alert(name, job) = [{ labels: '{alertname="%s", job_id="%s"}' % [name, job], value: 1 }];

{
  'sampled-rules.json': { groups: groups },
  'sampled.json': {
    rule_files: ['sampled-rules.json'],
    evaluation_interval: '5s',
    group_eval_order: ['culprit-progress', 'culprit-launch', 'culprit-age', 'culprit-calls', 'culprit-stall', 'culprit-slow-long', 'culprit-slow-short'],
    tests: [{
      name: 'one rank of ten',
      interval: '5s',
      input_series: rank('slow', '0', slow) + rank('slow', '1', slow) +
                    rank('hung', '0', steady) + rank('hung', '1', steady, '0.4x60 5+5x60'),
      promql_expr_test: [
        { expr: firing('CulpritThroughputLow'), eval_time: '400s', exp_samples: alert('CulpritThroughputLow', 'slow') },
        { expr: firing('CulpritJobStalled'), eval_time: '400s', exp_samples: alert('CulpritJobStalled', 'hung') },
        // Rank 1 is inside longer, and is not read.
        { expr: 'job_id:culprit_nccl_comm_seconds_per_byte:max{job_id="slow", instance=""} * 1000', eval_time: '400s', exp_samples: [{
          labels: '{job_id="slow", comm="c", function="AllReduce", algorithm="ring", protocol="simple", path="network", size="<=1MiB"}',
          value: 1,
        }] },
      ],
    }],
  },
}
