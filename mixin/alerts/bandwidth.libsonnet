// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// How fast each communicator moves data, as nccl-tests define it: algorithm bandwidth is bytes over time, bus bandwidth that times a
// factor by which it compares with the hardware's rate, whatever the function and the number of ranks. The time of an operation holds the
// waiting for other ranks, so each is that of the rank that waits least. And what the network could do at most, and triggers on communicators
// and on transfers that got slow.
{
  prometheusAlerts+:: {
    local config = $._config,
    local alert = (import '../lib/alert.libsonnet')(config),
    local q = (import '../lib/promql.libsonnet')(config),
    local kind = q.job + ', comm, function, algorithm, protocol, path, size',
    local algorithm(functions) = 'job_id:culprit_nccl_comm_algorithm_bandwidth:max{function%s}' % functions,
    local rate(metric) = 'rate(%s[%s])' % [q.metric(metric, 'comm!=""'), config.bandwidthWindow],
    local sampledRate(metric) = 'rate(%s[%s])' % [q.sampled(metric, 'comm!="", function!~"Send|Recv"'), config.bandwidthWindow],
    // How many times its usual value each series of a record has.
    local againstPast(record) = |||
      %(record)s
      / quantile_over_time(0.25, %(record)s[%(history)s] offset %(lag)s)
      and count_over_time(%(record)s[%(history)s] offset %(lag)s) >= %(samples)d
    ||| % { record: record, history: config.slowdownHistory, lag: config.slowdownLag, samples: config.slowdownSamples },

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
          // CCL-D's T_max, by byte as sizes vary: of each host's rank that is inside longest. Point-to-point operations wait for the pipeline as
          // a rule.
          record: 'job_id:culprit_nccl_comm_seconds_per_byte:host_max',
          expr: 'max by (instance, %s) (\n  %s\n  /\n  (%s > 0)\n) > 0 < Inf' % [
            kind,
            sampledRate('culprit_nccl_op_seconds_total'),
            sampledRate('culprit_nccl_op_bytes_total'),
          ],
        },
        {
          record: 'job_id:culprit_nccl_comm_seconds_per_byte:max',
          expr: q.hosts('job_id:culprit_nccl_comm_seconds_per_byte:host_max', kind),
        },
        {
          // CCL-D's R: by how much of its usual time more an operation takes.
          record: 'job_id:culprit_nccl_comm_slowdown:max',
          expr: 'max by (%s, comm) (\n%s) - 1' % [q.job, againstPast('job_id:culprit_nccl_comm_seconds_per_byte:max')],
        },
        {
          // Of evaluations in which no trigger fired and none was on its way: theta is of the evaluation before.
          record: 'job_id:culprit_nccl_comm_slowdown:max_healthy',
          expr: |||
            job_id:culprit_nccl_comm_slowdown:max
            unless on (%(job)s, comm)
            job_id:culprit_nccl_comm_slowdown:max > on (%(job)s, comm) job_id:culprit_nccl_comm_slowdown:theta
            unless on (%(job)s)
            %(troubled)s
          ||| % { job: q.job, troubled: q.troubled },
        },
        {
          // CCL-D's theta, of the communicator's own statistics, and at most the usual one: of few hosts one can make its own figures vary.
          record: 'job_id:culprit_nccl_comm_slowdown:theta',
          expr:
            local history = 'job_id:culprit_nccl_comm_slowdown:max_healthy[%s] offset %s' % [config.slowdownHistory, config.slowdownLag];
            |||
              clamp(avg_over_time(%(history)s) + %(deviations)g * stddev_over_time(%(history)s), %(least)g, %(theta)g)
              and
              count_over_time(%(history)s) >= %(samples)d
              or
              job_id:culprit_nccl_comm_slowdown:max * 0 + %(theta)g
            ||| % {
              history: history,
              deviations: config.slowdownThetaDeviations,
              least: config.slowdownThetaLeast,
              samples: config.slowdownThetaSamples,
              theta: config.slowdownTheta,
            },
        },
        alert.trigger(
          'CulpritCommunicatorSlow',
          'slow',
          q.few('job_id:culprit_nccl_comm_slowdown:max > on (%s, comm) job_id:culprit_nccl_comm_slowdown:theta' % q.job),
          'The operations of a communicator take much longer than they did.',
          'Operations of {{ if $labels.comm }}communicator {{ $labels.comm }}{{ else }}more than %d communicators{{ end }} of job {{ $labels.job_id }} take {{ if not $labels.comm }}up to {{ end }}{{ $value | humanizePercentage }} more time than usual on the ranks that are inside them longest.' % config.namedPerJob,
          pending=config.slowdownFor,
        ),
        {
          // Pulse's actual communication time, by step as traffic varies: gaps, and with them waiting for other ranks, are left out. Of one
          // process of one run, as its past says nothing of another place in another ring.
          record: 'job_id:culprit_nccl_step_active_seconds:mean',
          expr: |||
            sum by (%(process)s) (rate(%(active)s[%(window)s]))
            /
            (sum by (%(process)s) (rate(%(steps)s[%(window)s])) > 0)
            * on (%(job)s) group_left (run)
            job_id:culprit_nccl_run:info{instance=""}
          ||| % {
            process: q.process,
            job: q.job,
            window: config.bandwidthWindow,
            active: q.metric('culprit_nccl_active_seconds_total'),
            steps: q.metric('culprit_nccl_send_steps_total', 'stage="done"'),
          },
        },
        {
          record: 'job_id:culprit_nccl_step_active_seconds:growth',
          expr: 'max by (%s) (\n%s)' % [q.process, againstPast('job_id:culprit_nccl_step_active_seconds:mean')],
        },
        {
          record: 'job_id:culprit_nccl_step_active_seconds:host_growth',
          expr: 'quantile by (%s) (0.5, %s)' % [q.host, q.sane('job_id:culprit_nccl_step_active_seconds:growth')],
        },
        alert.trigger(
          'CulpritTransfersSlow',
          'slow',
          // Where the transfers of most ranks take longer, the job's traffic is another, or its network slow as a whole: no rank stands out.
          q.few(|||
            max by (%(rank)s) (
              job_id:culprit_nccl_step_active_seconds:growth
              / on (%(job)s) group_left ()
              clamp_min(min by (%(job)s) (
                %(hosts)s
              ), 1)
            ) > %(ratio)g
          ||| % { job: q.job, rank: q.rank, hosts: std.strReplace(std.rstripChars(q.hosts('job_id:culprit_nccl_step_active_seconds:host_growth', q.job), '\n'), '\n', '\n    '), ratio: config.transferRatio }),
          'Transfers of a rank are in flight longer than they were and than on its peers.',
          'Transfers of {{ if $labels.rank }}rank {{ $labels.rank }}{{ else }}several ranks{{ end }} of job {{ $labels.job_id }} are in flight {{ if not $labels.rank }}up to {{ end }}{{ printf `%.1f` $value }}× longer than before and than on other ranks.',
          pending=config.slowdownFor,
        ),
      ],
    }],
  },
}
