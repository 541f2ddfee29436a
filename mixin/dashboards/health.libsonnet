// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Health: whether Culprit itself sees, keeps and delivers.
{
  local config = $._config,
  local g = import '../lib/grafana.libsonnet',
  local s = (import 'shared.libsonnet')(config),
  local exporter = config.exporterSelector,
  local analyzer = config.analyzerSelector,

  grafanaDashboards+:: {
    'culprit-health.json': g.dashboard(
      config,
      s.uid.health,
      'Culprit / Health',
      'Culprit itself: exporters, loss, the analyzer and its sources.',
      [s.jobs, s.owner],
      [
        g.row('Exporters', [
          g.stat('Exporters up', 'Exporters that the last scrape reached.', 'short', [g.query('sum(up{%s})' % exporter)], width=4),
          g.stat('Exporters down', 'Exporters that the last scrape did not reach: their ranks are not watched.', 'short', [g.query('count(up{%s} == 0) or vector(0)' % exporter)], width=4, steps=[{ color: 'red', value: 1 }]),
          g.stat('Processes watched', 'Living processes with a trace file.', 'short', [g.query('sum(job_id:culprit_nccl_process_up:count)')], width=4),
          g.stat('Unreadable trace files', 'Trace files that an exporter cannot read or does not trust.', 'short', [g.query('sum(culprit_exporter_trace_files{%s, state="unreadable"})' % exporter)], width=4, steps=[{ color: 'orange', value: 1 }]),
          g.stat('Analyzers up', 'Analyzers that the last scrape reached.', 'short', [g.query('sum(up{%s}) or vector(0)' % analyzer)], width=4, steps=[]),
          g.stat('Open incidents', 'Incidents that the analyzer holds open.', 'short', [g.query('sum(culprit_analyzer_incidents{%s, state="open"})' % analyzer)], width=4),
          g.timeseries('Slowest scrapes', 'Time to scrape an exporter: the ten slowest. The budget is 20 ms.', 's', [g.query('topk(10, scrape_duration_seconds{%s})' % exporter, '{{instance}}')]),
          g.timeseries('Series per scrape', 'Samples of a scrape: the ten largest. While healthy at most 100 a rank.', 'short', [g.query('topk(10, scrape_samples_scraped{%s})' % exporter, '{{instance}}')]),
          g.timeseries('Failing collectors', 'Collectors that fail now, by exporter and name.', 'short', [g.query('1 - culprit_exporter_collector_success{%s} > 0' % exporter, '{{instance}} {{collector}}')]),
          g.timeseries('Collector time', 'The ten slowest collectors.', 's', [g.query('topk(10, culprit_exporter_collector_duration_seconds{%s})' % exporter, '{{instance}} {{collector}}')]),
          g.timeseries('Sampling round', 'Time of one round of the sampler, 99th percentile, the ten slowest exporters.', 's', [g.query('topk(10, histogram_quantile(0.99, sum by (instance, le) (rate(culprit_exporter_sample_duration_seconds_bucket{%s}[$__rate_interval]))))' % exporter, '{{instance}}')]),
          g.timeseries('Read errors', 'Trace files that could not be read, per second, by reason.', 'ops', [g.query('sum by (instance, reason) (rate(culprit_exporter_trace_read_errors_total{%s}[$__rate_interval])) > 0' % exporter, '{{instance}} {{reason}}')]),
        ]),
        g.row('Coverage', [
          g.timeseries('Processes with NCCL', 'Processes that have NCCL or its plugin loaded. Unseen: no trace file of theirs is seen. Without plugin: also programs of a single GPU.', 'short', [g.query('sum by (state) (culprit_exporter_nccl_processes{%s})' % exporter, '{{state}}')], stack=true),
          g.timeseries('Ranks not seen', 'Ranks that a job was started with, less those that an exporter sees, by job.', 'short', [
            g.query('(max by (job_id, owner) (%s) - on (job_id, owner) count by (job_id, owner) (max by (job_id, owner, rank) (%s))) > 0' % [s.ofJob('culprit_nccl_world_size'), s.ofJob('culprit_nccl_process_up')], '{{job_id}} ({{owner}})'),
          ], links=[s.seriesToJob]),
          g.timeseries('Used GPUs without a traced process', 'GPUs in use by processes that write no trace file.', 'percentunit', [
            g.query('culprit_nvml_utilization_ratio > %g unless on (instance, gpu) culprit_nccl_process_info' % config.gpuBusyRatio, '{{instance}} {{gpu}}'),
          ]),
          g.timeseries('Nodes that are not watched as they should be', 'Processes whose trace file is not seen, and trace directories that do not exist, by exporter.', 'short', [
            g.query('culprit_exporter_nccl_processes{%s, state="unseen"} > 0' % exporter, '{{instance}} unseen'),
            g.query('culprit_exporter_trace_dirs_missing{%s} > 0' % exporter, '{{instance}} directories missing'),
          ]),
        ]),
        g.row('Loss', [
          g.timeseries('Events lost', 'Trace events that the shim or an exporter could not keep, per second, by job and reason.', 'ops', [g.query('sum by (job_id, owner, reason) (rate(%s[$__rate_interval])) > 0' % s.ofJob('culprit_nccl_events_lost_total'), '{{job_id}} ({{owner}}) {{reason}}')], links=[s.seriesToJob]),
          g.timeseries('Series dropped', 'Series that an exporter left out at its cap, per second.', 'ops', [g.query('rate(culprit_exporter_series_dropped_total{%s}[$__rate_interval]) > 0' % exporter, '{{instance}}')]),
        ]),
        g.row('Refused', [
          g.timeseries('Requests refused', 'Requests per second that had to go without an answer, since too many were being made or one client had its share.', 'reqps', [
            g.query('sum by (instance, kind) (rate(culprit_exporter_requests_refused_total{%s}[$__rate_interval])) > 0' % exporter, '{{instance}} {{kind}}'),
            g.query('sum by (instance, kind) (rate(culprit_analyzer_requests_refused_total{%s}[$__rate_interval])) > 0' % analyzer, '{{instance}} {{kind}}'),
          ]),
          g.timeseries('Connections closed', 'Connections per second that were closed without an answer: silent ones sent no request in time, crowded ones were too many.', 'cps', [
            g.query('sum by (instance, reason) (rate(culprit_exporter_connections_closed_total{%s}[$__rate_interval])) > 0' % exporter, '{{instance}} {{reason}}'),
            g.query('sum by (instance, reason) (rate(culprit_analyzer_connections_closed_total{%s}[$__rate_interval])) > 0' % analyzer, '{{instance}} {{reason}}'),
            g.query('sum by (instance, reason) (rate(culprit_inject_connections_closed_total[$__rate_interval])) > 0', '{{instance}} {{reason}}'),
          ]),
        ]),
        g.row('Analyzer', [
          g.timeseries('Verdicts', 'Verdicts reached, by class, in the last rate interval.', 'short', [g.query('sum by (class) (increase(culprit_analyzer_verdicts_total{%s}[$__rate_interval]))' % analyzer, '{{class}}')], stack=true),
          g.timeseries('Time to the verdict', 'From evidence gathered to verdict: median and 99th percentile.', 's', [
            g.query('histogram_quantile(0.5, sum by (le) (rate(culprit_analyzer_analysis_duration_seconds_bucket{%s}[$__rate_interval])))' % analyzer, 'median'),
            g.query('histogram_quantile(0.99, sum by (le) (rate(culprit_analyzer_analysis_duration_seconds_bucket{%s}[$__rate_interval])))' % analyzer, '99th percentile'),
          ]),
          g.timeseries('Sources', 'Requests for evidence per second, by source and outcome.', 'reqps', [g.query('sum by (source, outcome) (rate(culprit_analyzer_source_requests_total{%s}[$__rate_interval]))' % analyzer, '{{source}} {{outcome}}')]),
          g.timeseries('Webhook', 'Requests from Alertmanager per second, by the code they were answered with.', 'reqps', [g.query('sum by (code) (rate(culprit_analyzer_webhook_requests_total{%s}[$__rate_interval]))' % analyzer, '{{code}}')]),
          g.timeseries('Triggers received', 'Alerts in the webhook requests per second, by status.', 'ops', [g.query('sum by (status) (rate(culprit_analyzer_webhook_alerts_total{%s}[$__rate_interval]))' % analyzer, '{{status}}')]),
          g.timeseries('Versions', 'Analyzers by version; two while an update is under way.', 'short', [g.query('count by (version) (culprit_analyzer_build_info{%s})' % analyzer, '{{version}}')]),
          g.timeseries('Configuration', 'How old the configuration of each analyzer is.', 's', [g.query('time() - culprit_analyzer_config_last_reload_success_timestamp_seconds{%s}' % analyzer, '{{instance}}')]),
          g.timeseries('Notifications and backlog', 'Verdicts posted to Alertmanager per second by outcome, and analyses that wait.', 'short', [
            g.query('sum by (outcome) (rate(culprit_analyzer_notifications_total{%s}[$__rate_interval]))' % analyzer, 'posted, {{outcome}}'),
            g.query('sum(culprit_analyzer_queue_length{%s})' % analyzer, 'waiting'),
          ]),
          g.timeseries('Actions', 'Actions on verdicts in the last rate interval: those that ran or would have, and those that matched and were refused.', 'short', [
            g.query('sum by (action, outcome) (increase(culprit_analyzer_actions_total{%s}[$__rate_interval]))' % analyzer, '{{action}} {{outcome}}'),
            g.query('sum by (action, reason) (increase(culprit_analyzer_actions_refused_total{%s}[$__rate_interval]))' % analyzer, '{{action}} refused: {{reason}}'),
          ], stack=true),
          g.timeseries('How long actions take', 'The time that commands and webhooks take.', 's', [
            g.query('histogram_quantile(0.99, sum by (le) (rate(culprit_analyzer_action_duration_seconds_bucket{%s}[$__rate_interval])))' % analyzer, '99th percentile'),
          ]),
          g.timeseries('Injection', 'Pods that the admission webhook was asked about in the last rate interval, by outcome.', 'short', [
            g.query('sum by (outcome) (increase(culprit_inject_reviews_total[$__rate_interval]))', '{{outcome}}'),
          ]),
        ]),
      ],
      [g.annotation('Health', 'ALERTS{alertstate="firing", culprit="health"}', '{{alertname}}', '{{instance}} {{job_id}}', 'purple')],
    ),
  },
}
