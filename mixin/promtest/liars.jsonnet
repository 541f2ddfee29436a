// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Renders a unit test for promtool: jobs of two hosts and more get slow, or stand still, while the exporter of one of their hosts shows what is to keep the
// triggers from firing. ext-str rules is the folder of the rules.
local scrape = 5;
local fault = 400;
local end = 520;
local before = fault / scrape;
local after = (end - fault) / scrape;

local repeated(value) = std.join(' ', std.repeat([value], before + after + 1));
local constant(value) = if value == 'NaN' || value == 'Inf' then repeated(value) else '%sx%d' % [value, before + after];
// Per second, until the fault and after it.
local growing(healthy, faulty) = '0+%gx%d %g+%gx%d' % [healthy * scrape, before, healthy * fault + faulty * scrape, faulty * scrape, after];

local honest = {
  up: constant('1'),
  age: '0+%dx%d' % [scrape, before + after],
  start: constant('1000'),
  ops: growing(10, 3),
  bytes: growing(1e6, 3e5),
  iterations: growing(1, 0.7),
  spent: growing(1, 1),
  started: growing(10, 0),
  launch: '0.4x%d %g+%gx%d' % [before, scrape, scrape, after],
  stall: constant('0.4'),
};
local healthy = honest { ops: growing(10, 10), bytes: growing(1e6, 1e6), iterations: growing(1, 1), started: growing(10, 10), launch: constant('0.4') };
local fast = healthy { ops: growing(10, 1000), bytes: growing(1e6, 1e8), iterations: growing(1, 100), spent: growing(1, 0.1) };
local all(value) = { [name]: constant(value) for name in std.objectFields(honest) } + { up: constant('1') };

local lies = {
  'goes on as before': healthy,
  'gets fast': fast,
  'is fast always': healthy { ops: growing(1000, 1000), bytes: growing(1e8, 1e8), iterations: growing(100, 100), spent: growing(0.1, 0.1) },
  'is slow always': healthy { ops: growing(0.1, 0.1), bytes: growing(1, 1), iterations: growing(0.02, 0.02), spent: growing(2, 2) },
  'does nothing': all('0'),
  'counts below zero': all('-1e9'),
  'counts nothing': all('NaN'),
  'counts beyond all numbers': all('Inf'),
  'starts again at each scrape': fast { age: constant('0'), start: '1000+%dx%d' % [scrape, before + after], iterations: constant('0'), spent: constant('0') },
  'is old': fast { age: constant('1e9'), start: constant('1'), iterations: constant('1e6'), spent: constant('1e9') },
  'leaves at the fault': {
    up: '1x%d stale' % before,
    age: '0+%dx%d stale' % [scrape, before],
    start: '1000x%d stale' % before,
    ops: '0+50x%d stale' % before,
    bytes: '0+5e6x%d stale' % before,
    iterations: '0+5x%d stale' % before,
    spent: '0+5x%d stale' % before,
    started: '0+50x%d stale' % before,
    launch: '0.4x%d stale' % before,
    stall: '0.4x%d stale' % before,
  },
  'comes at the fault': { [name]: '_x%d %s' % [before, v] for name in std.objectFields(fast) for v in ['1+1000x%d' % after] } + {
    up: '_x%d 1x%d' % [before, after],
    age: '_x%d 0+%dx%d' % [before, scrape, after],
    start: '_x%d 1400x%d' % [before, after],
    launch: '_x%d 0.4x%d' % [before, after],
    stall: '_x%d 0.4x%d' % [before, after],
  },
};

local rank(job, instance, rank, shown) =
  local labels = 'job="culprit-exporter", instance="%s", job_id="%s", owner="1001", rank="%s"' % [instance, job, rank];
  [
    { series: '%s{%s%s}' % [s[0], labels, s[1]], values: s[2] }
    for s in [
      ['culprit_nccl_process_up', '', shown.up],
      ['culprit_nccl_process_age_seconds', '', shown.age],
      ['culprit_nccl_process_start_time_seconds', '', shown.start],
      ['culprit_nccl_function_ops_total', ', function="AllReduce"', shown.ops],
      ['culprit_nccl_bytes_total', ', function="AllReduce"', shown.bytes],
      ['culprit_nccl_iteration_seconds_count', '', shown.iterations],
      ['culprit_nccl_iteration_seconds_sum', '', shown.spent],
      ['culprit_nccl_ops_started_total', ', comm="c"', shown.started],
      ['culprit_nccl_launch_age_seconds', '', shown.launch],
      ['culprit_nccl_stall_seconds', '', shown.stall],
    ]
  ];

// The liar has made-up ranks as well.
local job(name, hosts, lie) =
  std.flatMap(function(i) rank(name, 'h%d' % i, i, honest), std.range(1, hosts - 1)) +
  std.flatMap(function(r) rank(name, 'liar', r, lie), ['0', '100', '101']);

local sizes = [2, 3, 5];
local triggers = ['CulpritThroughputLow', 'CulpritOperationIntervalHigh', 'CulpritIterationSlow', 'CulpritLaunchesStopped'];
local jobs = [[lie, hosts] for lie in std.objectFields(lies) for hosts in sizes];
local name(j) = '%s, %d hosts' % j;
local firing(alert) = 'group by (alertname, job_id) (ALERTS{alertstate="firing", alertname="%s"})' % alert;
local samples(alert) = [{ labels: '{alertname="%s", job_id="%s"}' % [alert, name(j)], value: 1 } for j in jobs];

// Of the last hour: the operations of a communicator take five times as long on every honest host, and those of one rank's transfers twice as long. Each honest host has three ranks.
local minutes = 40;
local pastFault = 20;
local steps(healthy, faulty) = '0+%gx%d %g+%gx%d' % [healthy, 2 * pastFault, healthy * 2 * pastFault + faulty, faulty, 2 * (minutes - pastFault)];
local pastLies = {
  'goes on as before': [steps(1, 1), steps(1000, 1000)],
  'is slow always': [steps(100, 100), steps(1000, 1000)],
  'sends more slowly at the fault': [steps(1, 1), steps(1000, 300)],
  'counts nothing': [std.join(' ', std.repeat(['NaN'], 2 * minutes)), std.join(' ', std.repeat(['NaN'], 2 * minutes))],
  'counts beyond all numbers': [std.join(' ', std.repeat(['Inf'], 2 * minutes)), std.join(' ', std.repeat(['Inf'], 2 * minutes))],
  'leaves at the fault': ['0+1x%d stale' % (2 * pastFault), '0+1000x%d stale' % (2 * pastFault)],
};
local pastRank(job, instance, rank, seconds, active, sent) =
  local labels = 'job="culprit-exporter", instance="%s", job_id="%s", owner="1001", rank="%s"' % [instance, job, rank];
  local kind = ', comm="c", function="AllReduce", algorithm="ring", protocol="simple", path="network", size="<=1MiB"';
  [
    { series: 'culprit_nccl_op_seconds_total{%s%s}' % [labels, kind], values: seconds },
    { series: 'culprit_nccl_op_bytes_total{%s%s}' % [labels, kind], values: steps(1e6, 1e6) },
    { series: 'culprit_nccl_active_seconds_total{%s}' % labels, values: active },
    { series: 'culprit_nccl_send_steps_total{%s, stage="done"}' % labels, values: sent },
  ];
local pastJob(name, hosts, lie) =
  [{ series: 'job_id:culprit_nccl_run:info{job_id="%s", owner="1001", run="1"}' % name, values: '1x%d' % (2 * minutes) }] +
  std.flatMap(function(i) pastRank(name, 'h%d' % std.floor(1 + i / 3), 1 + i, steps(1, 5), steps(3, if i == 0 then 6 else 3), steps(1000, 1000)), std.range(0, 3 * (hosts - 1) - 1)) +
  std.flatMap(function(r) pastRank(name, 'liar', r, lie[0], steps(3, 3), lie[1]), ['0', '100', '101', '102', '103', '104', '105']);
local pastJobs = [[lie, hosts] for lie in std.objectFields(pastLies) for hosts in sizes];

{
  'liars.json': {
    rule_files: [std.extVar('rules') + '/culprit-triggers.yaml'],
    evaluation_interval: '5s',
    group_eval_order: ['culprit-progress', 'culprit-launch', 'culprit-age', 'culprit-calls', 'culprit-stall', 'culprit-slow-long', 'culprit-slow-short'],
    tests: [{
      name: 'an exporter of a job lies',
      interval: '%ds' % scrape,
      input_series: std.flatMap(function(j) job(name(j), j[1], lies[j[0]]), jobs),
      promql_expr_test: [
        { expr: firing(alert), eval_time: '%ds' % (end - 40), exp_samples: samples(alert) }
        for alert in triggers
      ] + [
        {
          expr: 'group by (job_id) (last_over_time(ALERTS{alertstate="firing", alertname="CulpritFirstLook"}[%ds]))' % (fault - scrape),
          eval_time: '%ds' % (fault - scrape),
          exp_samples: [{ labels: '{job_id="%s"}' % name(j), value: 1 } for j in jobs],
        },
      ],
    }],
  },
  'liars-past.json': {
    rule_files: [std.extVar('rules') + '/culprit-bandwidth.yaml'],
    evaluation_interval: '30s',
    tests: [{
      name: 'an exporter of a job lies of its operations and transfers',
      interval: '30s',
      input_series: std.flatMap(function(j) pastJob(name(j), j[1], pastLies[j[0]]), pastJobs),
      promql_expr_test: [
        {
          expr: firing(alert),
          eval_time: '%dm' % (pastFault + 6),
          exp_samples: [{ labels: '{alertname="%s", job_id="%s"}' % [alert, name(j)], value: 1 } for j in pastJobs],
        }
        for alert in ['CulpritCommunicatorSlow', 'CulpritTransfersSlow']
      ],
    }],
  },
}
