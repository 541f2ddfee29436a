// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Renders a unit test for promtool of panels whose queries are more than a metric: each gives what its description says.
local mixin = import '../mixin.libsonnet';

local everything(panels) = std.flattenArrays([[p] + (if std.objectHas(p, 'panels') then everything(p.panels) else []) for p in panels]);

// The query of a panel, with what Grafana would fill in.
local of(board, title, query=0) =
  local panel = [p for p in everything(mixin.grafanaDashboards[board].panels) if std.get(p, 'title') == title && p.type != 'row'][0];
  std.strReplace(std.strReplace(std.strReplace(std.strReplace(panel.targets[query].expr, '$job_id', '.+'), '$owner', '.*'), '$__range', '1h'), '$__rate_interval', '1m');

local verdict(incident, job, host, values, paged='true') = {
  series: 'culprit_verdict_info{job_id="%s", incident="%s", host="%s", rank="1", gpu="0", class="fault", cause="gpu", paged="%s"}' % [job, incident, host, paged],
  values: values,
};
local expect(expr, samples) = { expr: expr, eval_time: '60m', exp_samples: [{ labels: s[0], value: s[1] } for s in samples] };

{
  'dashboards.json': {
    rule_files: [],
    evaluation_interval: '1m',
    tests: [
      {
        name: 'hosts to blame',
        interval: '1m',
        input_series: [
          verdict('a', 'j', 'bad', '_x10 1x14 stale'),  // A quarter of an hour.
          verdict('b', 'k', 'bad', '_x30 1x29 stale'),  // Half an hour.
          verdict('c', 'k', 'worse', '_x30 1x5 stale', paged='false'),
          { series: 'job_id:culprit_nccl_process_up:count{job_id="j"}', values: '8x60' },
          { series: 'job_id:culprit_nccl_process_up:count{job_id="k"}', values: '64x60' },
        ],
        promql_expr_test: [
          expect(of('culprit-jobs.json', 'Hosts to blame', 0), [['{host="bad"}', 2]]),
          expect(of('culprit-jobs.json', 'Hosts to blame', 1), [['{host="bad"}', 2]]),
          expect(of('culprit-jobs.json', 'Hosts to blame', 2), [['{host="bad"}', 8 * 15 / 60 + 64 * 30 / 60]]),
          expect(of('culprit-jobs.json', 'Past verdicts'), [
            ['{job_id="j", incident="a", host="bad", rank="1", gpu="0", class="fault", cause="gpu"}', 24 * 60000],
            ['{job_id="k", incident="b", host="bad", rank="1", gpu="0", class="fault", cause="gpu"}', 59 * 60000],
            ['{job_id="k", incident="c", host="worse", rank="1", gpu="0", class="fault", cause="gpu"}', 35 * 60000],
          ]),
        ],
      },
      {
        name: 'bus bandwidth: the slowest communicator of each name, whatever number the names end with',
        interval: '1m',
        input_series: [
          { series: 'culprit_nccl_comm_info{job="culprit-exporter", job_id="j", comm="%s", comm_name="%s", rank="%d"}' % c, values: '1x60' }
          for c in [['a', 'tp_0', 0], ['a', 'tp_0', 1], ['b', 'tp_1', 2], ['c', 'dp', 0], ['d', '', 0], ['d', 'odd', 1]]
        ] + [
          { series: 'job_id:culprit_nccl_comm_bus_bandwidth:max{job_id="j", comm="%s", function="AllReduce", size="<=1MiB", algorithm="%s"}' % x[0], values: '%dx60' % x[1] }
          for x in [[['a', 'ring'], 7], [['b', 'ring'], 5], [['b', 'tree'], 6], [['c', 'ring'], 3], [['d', 'ring'], 2]]
        ] + [{ series: 'job_id:culprit_nccl_comm_network_rate:min{job_id="j", comm="c"}', values: '9x60' }],
        promql_expr_test: [
          expect('sort(sum by (comm_name) (%s))' % of('culprit-jobs.json', 'Bus bandwidth') + ' != 2', [['{comm_name="dp"}', 3], ['{comm_name="tp"}', 5]]),
          expect('count(%s)' % of('culprit-jobs.json', 'Bus bandwidth'), [['{}', 3]]),
          expect(of('culprit-jobs.json', 'Bus bandwidth', 1), [['{job_id="j", comm_name="dp"}', 9]]),
        ],
      },
      {
        name: 'waiting by rank: rows are in the order of ranks',
        interval: '15s',
        input_series: [
          { series: 'culprit_nccl_wait_seconds_total{job="culprit-exporter", job_id="j", rank="%d", reason="peer"}' % r[0], values: '0+%gx240' % r[1] }
          for r in [[0, 3], [7, 0], [10, 6], [128, 15], [10239, 1.5]]
        ],
        // Rounded: the last bit of a rate differs between machines.
        promql_expr_test: [expect('round(%s, 0.001)' % of('culprit-jobs.json', 'Waiting'), [
          ['{job_id="j", row="00000"}', 0.2],
          ['{job_id="j", row="00007"}', 0],
          ['{job_id="j", row="00010"}', 0.4],
          ['{job_id="j", row="00128"}', 1],
          ['{job_id="j", row="10239"}', 0.1],
        ])],
      },
    ],
  },
}
