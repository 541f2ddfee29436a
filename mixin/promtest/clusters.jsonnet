// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Renders rules for jobs that are told apart by cluster and id, and a unit test for promtool: a job hangs in each of two clusters, under
// the same id, and the analyzer has a verdict for one of them.
local groups = ((import '../mixin.libsonnet') + { _config+:: { jobLabels: ['cluster', 'job_id', 'owner'] } }).prometheusAlerts.groups;

local series(name, values, labels) = { series: '%s{%s}' % [name, std.join(', ', ['%s="%s"' % [k, labels[k]] for k in std.objectFields(labels)])], values: values };

local job(cluster) =
  local of = { job: 'culprit-exporter', cluster: cluster, instance: cluster, job_id: '7', owner: 'user of ' + cluster, rank: '0' };
  [
    series('culprit_nccl_process_up', '1x80', of),
    series('culprit_nccl_process_info', '1x80', of),
    series('culprit_nccl_world_size', '1x80', of),
    series('culprit_nccl_process_age_seconds', '0+5x80', of),
    series('culprit_nccl_function_ops_total', '0+10x30 300x50', of { 'function': 'AllReduce' }),
    series('culprit_nccl_stall_seconds', '0.4x30 0+5x50', of),
  ];

local alert(name, cluster) = { labels: '{alertname="%s", cluster="%s", job_id="7"}' % [name, cluster], value: 1 };
local firing(name) = 'group by (alertname, cluster, job_id) (ALERTS{alertstate="firing", alertname="%s"})' % name;

{
  'clusters-rules.json': { groups: groups },
  'clusters.json': {
    rule_files: ['clusters-rules.json'],
    evaluation_interval: '5s',
    tests: [{
      name: 'two clusters',
      interval: '5s',
      input_series: job('north') + job('south') + [
        series('up', '1x80', { job: 'culprit-analyzer' }),
        series('culprit_verdict_info', '_x32 1x48', { job: 'culprit-analyzer', cluster: 'north', job_id: '7', owner: 'user of north' }),
      ],
      promql_expr_test: [
        { expr: firing('CulpritJobStalled'), eval_time: '200s', exp_samples: [alert('CulpritJobStalled', 'north'), alert('CulpritJobStalled', 'south')] },
        { expr: firing('CulpritNoVerdict'), eval_time: '320s', exp_samples: [alert('CulpritNoVerdict', 'south')] },
        // The ranks and users of one cluster dispute nothing in the other.
        { expr: 'ALERTS{alertname="CulpritClaimsDisputed"}', eval_time: '320s', exp_samples: [] },
      ],
    }],
  },
}
