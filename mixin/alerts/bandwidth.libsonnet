// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// How fast each communicator moves data, as nccl-tests define it: algorithm bandwidth is bytes over time, bus bandwidth that times a
// factor by which it compares with the hardware's rate, whatever the function and the number of ranks. The time of an operation holds the
// waiting for other ranks, so each is that of the rank that waits least. And what the network could do at most, and a trigger on communicators
// that got slow.
{
  prometheusAlerts+:: {
    local config = $._config,
    local alert = (import '../lib/alert.libsonnet')(config),
    local q = (import '../lib/promql.libsonnet')(config),
    local kind = q.job + ', comm, function, algorithm, protocol, path, size',
    local algorithm(functions) = 'job_id:culprit_nccl_comm_algorithm_bandwidth:max{function%s}' % functions,
    local rate(metric, matchers='') = 'rate(%s[%s])' % [q.metric(metric, 'comm!=""' + (if matchers == '' then '' else ', ' + matchers)), config.bandwidthWindow],
    // Names the communicator in an alert about a job; %q quotes what the job calls itself.
    local matchers = 'printf `%s` %s' % [std.join(',', [l + '=%q' for l in config.jobLabels]), std.join(' ', ['$labels.' + l for l in config.jobLabels])],
    local slowest = '{{ $job := %s }}{{ range query (printf `topk(1, job_id:culprit_nccl_comm_slowdown:max{%%s})` $job) }} The slowest is {{ .Labels.comm }}.{{ end }}' % matchers,

    groups+: [{
      name: 'culprit-bandwidth',
      interval: config.bandwidthInterval,
      rules: [
        {
          record: 'job_id:culprit_nccl_comm_algorithm_bandwidth:max',
          expr: 'max by (%s) (\n  %s\n  /\n  (%s > 0)\n) > 0' % [kind, rate('culprit_nccl_op_bytes_total'), rate('culprit_nccl_op_seconds_total')],
        },
        {
          // The ranks that are seen stand for all: the fewer of a small communicator are, the lower the factor.
          record: 'job_id:culprit_nccl_comm_bus_bandwidth:max',
          expr: |||
            (
              2 * %(twice)s
              or
              %(once)s
            )
            * on (%(comm)s) group_left ()
            (1 - 1 / count by (%(comm)s) (group by (%(comm)s, rank) (%(info)s)) > 0)
            or
            %(plain)s
          ||| % {
            twice: algorithm('="AllReduce"'),
            once: algorithm('=~"AllGather|ReduceScatter|AlltoAll|Gather|Scatter"'),
            plain: algorithm('=~"Broadcast|Reduce|Send|Recv"'),
            comm: q.job + ', comm',
            info: q.metric('culprit_nccl_comm_info'),
          },
        },
        {
          // Of each node, the share of its ports that falls to the communicator's ranks there; of those, the least.
          record: 'job_id:culprit_nccl_comm_network_rate:min',
          expr: |||
            min by (%(comm)s) (
              count by (instance, %(comm)s) (%(info)s)
              / on (instance) group_left ()
              count by (instance) (%(up)s == 1)
              * on (instance) group_left ()
              sum by (instance) (culprit_rdma_port_rate_bytes_per_second and on (instance, device, port) culprit_rdma_port_up == 1)
            )
          ||| % { comm: q.job + ', comm', info: q.metric('culprit_nccl_comm_info'), up: q.metric('culprit_nccl_process_up') },
        },
        {
          // CCL-D's T_max, by byte as sizes vary: of the rank that is inside longest. Point-to-point operations wait for the pipeline as a rule.
          record: 'job_id:culprit_nccl_comm_seconds_per_byte:max',
          expr: 'max by (%s) (\n  %s\n  /\n  (%s > 0)\n) > 0' % [
            kind,
            rate('culprit_nccl_op_seconds_total', 'function!~"Send|Recv"'),
            rate('culprit_nccl_op_bytes_total', 'function!~"Send|Recv"'),
          ],
        },
        {
          // CCL-D's R: by how much of its usual time more an operation takes.
          record: 'job_id:culprit_nccl_comm_slowdown:max',
          expr: |||
            max by (%(comm)s) (
              job_id:culprit_nccl_comm_seconds_per_byte:max
              / quantile_over_time(0.25, job_id:culprit_nccl_comm_seconds_per_byte:max[%(history)s] offset %(lag)s)
              - 1
              and count_over_time(job_id:culprit_nccl_comm_seconds_per_byte:max[%(history)s] offset %(lag)s) >= %(samples)d
            )
          ||| % { comm: q.job + ', comm', history: config.slowdownHistory, lag: config.slowdownLag, samples: config.slowdownSamples },
        },
        alert.trigger(
          'CulpritCommunicatorSlow',
          'slow',
          'max by (%s) (job_id:culprit_nccl_comm_slowdown:max) > %g' % [q.job, config.slowdownTheta],
          'The operations of a communicator take much longer than they did.',
          'Operations of a communicator of job {{ $labels.job_id }} take {{ $value | humanizePercentage }} more time than usual on the rank that is inside them longest.' + slowest,
          pending=config.slowdownFor,
        ),
      ],
    }],
  },
}
