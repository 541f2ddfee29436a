// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Renders a unit test for promtool by scrape interval: on the rules that ship for it no trigger fires while jobs are healthy, and every
// trigger fires for the job that is in trouble. ext-str rules is the folder of the rules.
// When jobs get into trouble: a baseline warms up for 8 scrapes, stays 8 behind, and wants 10 samples.
local fault(scrape) = std.max(300, 40 * scrape);
// The slowest triggers take five minutes, and are looked at once a scrape.
local end(scrape) = fault(scrape) + 330 + 2 * scrape;

// How many samples a series has until the fault, and from there to the end.
local before(scrape) = fault(scrape) / scrape;
local after(scrape) = (end(scrape) - fault(scrape)) / scrape;
local constant(scrape, value) = '%gx%d' % [value, before(scrape) + after(scrape)];
local growing(scrape, healthy, faulty) =
  '0+%gx%d %g+%gx%d' % [healthy * scrape, before(scrape), healthy * fault(scrape), faulty * scrape, after(scrape)];
// Short waits while healthy.
local stalling(scrape) = '0.4x%d %g+%gx%d' % [before(scrape), scrape, scrape, after(scrape)];

// What a rank shows, by what happens to the job. Rates are per second.
local rank(scrape, job, rank, ops=growing(scrape, 10, 10), bytes=growing(scrape, 1e6, 1e6), iterations=growing(scrape, 1, 1), spent=growing(scrape, 1, 1), stall=constant(scrape, 0.4), launch=constant(scrape, 0.4), age=constant(scrape, 1), up=constant(scrape, 1)) =
  local labels = 'job="culprit-exporter", instance="n%s", job_id="%s", rank="%s"' % [rank, job, rank];
  [
    { series: s[0] + '{' + labels + s[1] + '}', values: s[2] }
    for s in [
      ['culprit_nccl_process_up', '', up],
      ['culprit_nccl_process_age_seconds', '', '0+%gx%d' % [scrape, end(scrape) / scrape]],
      ['culprit_nccl_function_ops_total', ', function="AllReduce"', ops],
      ['culprit_nccl_ops_started_total', ', comm="c"', ops],
      ['culprit_nccl_bytes_total', ', function="AllReduce"', bytes],
      ['culprit_nccl_iteration_seconds_count', '', iterations],
      ['culprit_nccl_iteration_seconds_sum', '', spent],
      ['culprit_nccl_stall_seconds', '', stall],
      ['culprit_nccl_launch_age_seconds', '', launch],
      ['culprit_nccl_op_age_seconds', ', comm="c"', age],
    ]
  ];

local stopped(scrape) = growing(scrape, 10, 0);

// Every job has two ranks.
local series(scrape) =
  local two(name, f) = f(name, '0') + f(name, '1');
  rank(scrape, 'healthy', '0') + rank(scrape, 'healthy', '1') +
  two('hung', function(j, r) rank(scrape, j, r, ops=stopped(scrape), bytes=growing(scrape, 1e6, 0), iterations=growing(scrape, 1, 0), spent=growing(scrape, 1, 0), stall=stalling(scrape), launch=stalling(scrape), age='1x%d %g+%gx%d' % [before(scrape), scrape, scrape, after(scrape)])) +
  rank(scrape, 'lost', '0', ops=stopped(scrape), stall=stalling(scrape), launch=stalling(scrape)) +
  rank(scrape, 'lost', '1', ops=stopped(scrape), stall='0.4x%d stale' % before(scrape), launch='0.4x%d stale' % before(scrape), up='1x%d 0x%d' % [before(scrape), after(scrape)]) +
  two('starved', function(j, r) rank(scrape, j, r, ops=growing(scrape, 10, 3), bytes=growing(scrape, 1e6, 3e5), iterations=growing(scrape, 1, 0.3))) +
  rank(scrape, 'calling', '0') + rank(scrape, 'calling', '1') +
  [
    {
      series: 'culprit_nccl_call_open_seconds{job="culprit-exporter", instance="n0", job_id="calling", rank="0", call="ncclCommSplit", call_id="7"}',
      values: '_x%d %g+%gx%d' % [before(scrape), scrape, scrape, after(scrape)],
    },
    { series: 'culprit_nccl_call_ranks{job="culprit-exporter", instance="n0", job_id="calling", rank="0", call_id="7"}', values: '_x%d 2x%d' % [before(scrape), after(scrape)] },
  ];

local samples(pairs) = [{ labels: '{alertname="%s", job_id="%s"}' % p, value: 1 } for p in pairs];
local firing = 'group by (alertname, job_id) (ALERTS{alertstate="firing", culprit="trigger"})';

local test(scrape, folder) = {
  rule_files: [std.extVar('rules') + '/' + folder + 'culprit-triggers.yaml'],
  // promtool evaluates all groups alike: as often as the groups on hangs and slowness are evaluated.
  evaluation_interval: '%ds' % (if scrape == 1 then 2 else std.max(5, scrape / 3)),
  group_eval_order: ['culprit-progress', 'culprit-launch', 'culprit-age', 'culprit-calls', 'culprit-stall', 'culprit-slow-long', 'culprit-slow-short'],
  tests: [{
    name: 'scraped every %d s' % scrape,
    interval: '%ds' % scrape,
    input_series: series(scrape),
    promql_expr_test: [
      { expr: firing, eval_time: '%ds' % (fault(scrape) - scrape), exp_samples: [] },
      // Standstill: two scrapes and the floor of ten seconds.
      {
        expr: 'group by (alertname, job_id) (ALERTS{alertstate="firing", alertname=~"CulpritJobStalled|CulpritNoOperationCompleted|CulpritProcessVanished|CulpritLaunchesStopped"})',
        eval_time: '%ds' % (fault(scrape) + 4 * scrape + 15),
        exp_samples: samples([
          ['CulpritJobStalled', 'hung'],
          ['CulpritNoOperationCompleted', 'hung'],
          ['CulpritLaunchesStopped', 'hung'],
          ['CulpritJobStalled', 'lost'],
          ['CulpritProcessVanished', 'lost'],
          ['CulpritLaunchesStopped', 'lost'],
        ]),
      },
      // Slowness: its window, and two evaluations.
      {
        expr: 'group by (alertname, job_id) (ALERTS{alertstate="firing", job_id="starved"})',
        eval_time: '%ds' % (fault(scrape) + std.max(30, 7 * scrape)),
        exp_samples: samples([['CulpritThroughputLow', 'starved'], ['CulpritOperationIntervalHigh', 'starved'], ['CulpritIterationSlow', 'starved']]),
      },
      {
        expr: 'group by (alertname, job_id) (ALERTS{alertstate="firing", alertname=~"CulpritOperationTooOld|CulpritCallBlocked"})',
        eval_time: '%ds' % end(scrape),
        exp_samples: samples([['CulpritOperationTooOld', 'hung'], ['CulpritCallBlocked', 'calling']]),
      },
      { expr: 'ALERTS{job_id="healthy"}', eval_time: '%ds' % end(scrape), exp_samples: [] },
    ],
  }],
};

// Triggers against the last hour: usual takes 10 evaluations of 30 s, or a scrape, and stays three windows behind. One rank's transfers, and a
// communicator's operations, take five times as long from then on.
local past(scrape, folder) =
  local window = std.max(60, 4 * scrape);
  local fault = 4 * window + 12 * std.max(30, scrape);
  local end = fault + 4 * window;
  local growing(healthy, faulty) =
    '0+%gx%d %g+%gx%d' % [healthy * scrape, fault / scrape, healthy * fault, faulty * scrape, (end - fault) / scrape];
  local ranks(job, faulty) = [{ series: 'job_id:culprit_nccl_run:info{job_id="%s", run="1"}' % job, values: '1x%d' % (end / scrape) }] + std.flatMap(function(rank)
    local of = 'job="culprit-exporter", instance="n%d", job_id="%s", rank="%d"' % [rank, job, rank];
    local op = of + ', comm="c", function="AllReduce", algorithm="ring", protocol="simple", path="network", size="<=1MiB"';
    [
      { series: 'culprit_nccl_active_seconds_total{%s}' % of, values: growing(0.1, if rank == 2 then faulty else 0.1) },
      { series: 'culprit_nccl_send_steps_total{%s, stage="done"}' % of, values: growing(100, 100) },
      { series: 'culprit_nccl_op_seconds_total{%s}' % op, values: growing(0.1, faulty) },
      { series: 'culprit_nccl_op_bytes_total{%s}' % op, values: growing(100, 100) },
    ], std.range(0, 3));
  {
    rule_files: [std.extVar('rules') + '/' + folder + 'culprit-bandwidth.yaml'],
    evaluation_interval: '%ds' % std.max(30, scrape),
    tests: [{
      name: 'against the last hour, scraped every %d s' % scrape,
      interval: '%ds' % scrape,
      input_series: ranks('healthy', 0.1) + ranks('slow', 0.5),
      promql_expr_test: [
        { expr: 'ALERTS', eval_time: '%ds' % fault, exp_samples: [] },
        { expr: firing, eval_time: '%ds' % end, exp_samples: samples([['CulpritCommunicatorSlow', 'slow'], ['CulpritTransfersSlow', 'slow']]) },
      ],
    }],
  };

{
  ['scrape-%ds%s.json' % [scrape, kind[0]]]: kind[1](scrape, if scrape <= 5 then '' else 'scrape-%ds/' % scrape)
  for scrape in [1, 5, 15, 30, 60]
  for kind in [['', test], ['-past', past]]
}
