// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Alerts on Culprit itself: a part that is down, blind, lossy or mute.
{
  prometheusAlerts+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),
    local alert = (import '../lib/alert.libsonnet')(config),
    local exporter = config.exporterSelector,
    local analyzer = config.analyzerSelector,

    groups+: [
      {
        name: 'culprit-health',
        interval: config.healthInterval,
        rules: [
          alert.health(
            'CulpritExporterDown',
            'warning',
            'up{%s} == 0' % exporter,
            'A Culprit exporter cannot be scraped.',
            'The exporter at {{ $labels.instance }} cannot be scraped: the ranks on that node are not watched, and a verdict that needs them will say so.',
            pending=config.exporterDownFor,
          ),
          alert.health(
            'CulpritScrapedTooRarely',
            'warning',
            // Prometheus writes up for every scrape, those that fail among them. An exporter that is new has few of them yet.
            '600 / count_over_time(up{%(x)s}[10m]) > %(limit)g\nand\nup{%(x)s} offset 10m' % { x: exporter, limit: config.scrapeTolerance * config.scrapeIntervalSeconds },
            'A Culprit exporter is scraped less often than the loaded rules need.',
            'The exporter at {{ $labels.instance }} is scraped every {{ $value | printf "%%.0f" }} s; the loaded rules are made for every %g s. Slowness is not seen: load the rules for your interval.' % config.scrapeIntervalSeconds,
            pending='10m',
          ),
          alert.health(
            'CulpritCollectorFailing',
            'warning',
            // Hardware that is not there never worked; a collector that worked within a day and stopped is broken.
            |||
              culprit_exporter_collector_success{%(x)s, collector="nccl"} == 0
              or
              (
                culprit_exporter_collector_success{%(x)s} == 0
                and
                max_over_time(culprit_exporter_collector_success{%(x)s}[1d]) == 1
              )
            ||| % { x: exporter },
            'A collector of a Culprit exporter fails.',
            'Collector {{ $labels.collector }} at {{ $labels.instance }} fails: evidence of that kind is missing for the node.',
            pending=config.collectorFailingFor,
          ),
          alert.health(
            'CulpritTraceUnreadable',
            'warning',
            |||
              sum by (instance) (culprit_exporter_trace_files{%(x)s, state=~"unreadable|left_out"}) > 0
              or
              sum by (instance) (increase(culprit_exporter_trace_read_errors_total{%(x)s, reason=~"header|layout|hostile"}[10m])) > 0
            ||| % { x: exporter },
            'Trace files on a node cannot be read.',
            'The exporter at {{ $labels.instance }} finds trace files that it cannot read, does not trust, or leaves out because there are too many: the ranks that write them are not watched.',
            pending='2m',
          ),
          alert.health(
            'CulpritTraceUnseen',
            'warning',
            |||
              culprit_exporter_nccl_processes{%(x)s, state="unseen"} > 0
              or
              culprit_exporter_trace_dirs_missing{%(x)s} > 0
            ||| % { x: exporter },
            'Processes write trace files that the exporter does not see.',
            'On {{ $labels.instance }} {{ if $labels.state }}{{ $value }} process(es) have the plugin loaded and no trace file of theirs is seen{{ else }}{{ $value }} trace director(ies) do not exist{{ end }}: their ranks are not watched.',
            pending=config.coverageFor,
          ),
          alert.health(
            'CulpritProcessUnwatched',
            'info',
            // Every process of PyTorch with CUDA has NCCL loaded: beside it, a GPU that is used.
            |||
              culprit_exporter_nccl_processes{%(x)s, state="without_plugin"} > 0
              and on (instance)
              (
                max by (instance, gpu) (culprit_nvml_utilization_ratio) > %(busy)g
                unless on (instance, gpu)
                culprit_nccl_process_info
              )
            ||| % { x: exporter, busy: config.gpuBusyRatio },
            'GPUs are used by processes that Culprit does not watch.',
            '{{ $value }} process(es) on {{ $labels.instance }} have NCCL loaded without the plugin, and a GPU without a traced process is in use: if they hang, nobody is told.',
            pending=config.gpuUnwatchedFor,
          ),
          alert.health(
            'CulpritRanksUnseen',
            'warning',
            |||
              max by (%(job)s) (%(size)s)
              - on (%(job)s)
              count by (%(job)s) (max by (%(rank)s) (%(up)s))
              > 0
            ||| % { job: q.job, rank: q.rank, size: q.metric('culprit_nccl_world_size'), up: q.metric('culprit_nccl_process_up') },
            'Ranks of a job are not seen.',
            '{{ $value }} rank(s) of job {{ $labels.job_id }} are not seen: the rank that holds up the job may be missing from a verdict.',
            pending=config.coverageFor,
          ),
          alert.health(
            'CulpritClaimsDisputed',
            'warning',
            // What exporters see on their own node, and what none of them can see: one claim on two nodes.
            |||
              sum by (instance) (culprit_exporter_disputed_claims{%(x)s}) > 0
              or
              count by (%(rank)s) (%(up)s == 1) > 1
              or
              count by (%(name)s) (count by (%(job)s) (%(up)s == 1)) > 1
              or
              count by (host) (count by (host, instance) (culprit_exporter_build_info{%(x)s, host!=""})) > 1
            ||| % { x: exporter, name: std.join(', ', std.filter(function(l) l != 'owner', config.jobLabels)), job: q.job, rank: q.rank, up: q.metric('culprit_nccl_process_up') },
            'Several processes, users or exporters claim the same name.',
            '{{ if $labels.host }}Several exporters say that they run on host {{ $labels.host }}. No verdict names this host, and no action touches it.{{ else if $labels.rank }}Several processes claim rank {{ $labels.rank }} of job {{ $labels.job_id }}. A disputed claim is no evidence, so no verdict names the rank.{{ else if $labels.job_id }}Several users run a job {{ $labels.job_id }}. Each is watched as a job of its own.{{ else }}Exporter {{ $labels.instance }} sees two processes that claim the same rank. A disputed claim is no evidence, so no verdict names the rank.{{ end }}',
            pending='1m',
          ),
          alert.health(
            'CulpritSeriesDropped',
            'warning',
            'increase(culprit_exporter_series_dropped_total{%s}[10m]) > 0' % exporter,
            'A Culprit exporter leaves series out.',
            'The exporter at {{ $labels.instance }} reached its cap and left out {{ $value | humanize }} series in 10 minutes.',
            pending='1m',
          ),
        ],
      },
      {
        // It reads ten minutes of four series a rank. At healthInterval that would be half of what all other groups read.
        name: 'culprit-health-losses',
        interval: config.lossInterval,
        rules: [
          alert.health(
            'CulpritTraceLoss',
            'info',
            'sum by (%s, reason) (increase(%s[10m])) > %g' % [q.job, q.metric('culprit_nccl_events_lost_total', 'reason=~"%s"' % config.eventsLostReasons), config.eventsLostPerTenMinutes],
            'Trace events of a job are lost.',
            'Job {{ $labels.job_id }} lost {{ $value | humanize }} trace event(s) in 10 minutes ({{ $labels.reason }}): verdicts about it rest on less.',
          ),
        ],
      },
      {
        // A group of its own, as Mimir takes no group of more than 20 rules.
        name: 'culprit-health-analyzer',
        interval: config.healthInterval,
        rules: [
          alert.health(
            'CulpritAnalyzerDown',
            'critical',
            'absent(up{%s} == 1)' % analyzer,
            'No Culprit analyzer is up.',
            'No analyzer can be scraped: triggers are not turned into verdicts, and nobody is paged for a hanging job.',
            pending=config.analyzerDownFor,
          ),
          alert.health(
            'CulpritAnalyzerReplicaDown',
            'warning',
            'up{%(x)s} == 0 and on () up{%(x)s} == 1' % { x: analyzer },
            'One of the Culprit analyzers is down.',
            'The analyzer at {{ $labels.instance }} cannot be scraped. Another one is up and makes the verdicts; if that fails too, nobody is paged for a hanging job.',
            pending=config.analyzerDownFor,
          ),
          alert.health(
            'CulpritNoVerdict',
            'critical',
            'group by (%(job)s) (%(triggered)s)\nunless on (%(job)s) group by (%(job)s) (%(verdicts)s)' % { job: q.job, triggered: q.triggered, verdicts: q.verdicts() },
            'A job is in trouble and has no verdict.',
            'A trigger fires for job {{ $labels.job_id }} and the analyzer shows no verdict for it: look at the job by hand, then at the path from Alertmanager to the analyzer.',
            pending=config.noVerdictFor,
          ),
          alert.health(
            'CulpritAnalyzerSourceFailing',
            'warning',
            |||
              sum by (instance, source) (rate(culprit_analyzer_source_requests_total{%(a)s, outcome="error"}[5m]))
              /
              sum by (instance, source) (rate(culprit_analyzer_source_requests_total{%(a)s}[5m]))
              > %(ratio)g
            ||| % { a: analyzer, ratio: config.sourceErrorRatio },
            'The Culprit analyzer cannot reach a source of evidence.',
            '{{ $value | humanizePercentage }} of the requests of the analyzer at {{ $labels.instance }} to {{ $labels.source }} fail: verdicts rest on less, or do not arrive.',
          ),
          alert.health(
            'CulpritNotificationsFailing',
            'critical',
            'sum by (instance) (increase(culprit_analyzer_notifications_total{%s, outcome="error"}[5m])) > 0' % analyzer,
            'The Culprit analyzer cannot hand its verdicts to Alertmanager.',
            'The analyzer at {{ $labels.instance }} failed to post {{ $value | humanize }} verdict(s) in 5 minutes: the page that names the culprit may not arrive.',
          ),
          alert.health(
            'CulpritWebhookErrors',
            'warning',
            'sum by (instance, code) (increase(culprit_analyzer_webhook_requests_total{%s, code=~"[45].."}[5m])) > 0' % analyzer,
            'The Culprit analyzer refuses webhook requests.',
            'The analyzer at {{ $labels.instance }} answered {{ $value | humanize }} webhook request(s) with {{ $labels.code }} in 5 minutes: Alertmanager retries after 5xx, and gives up after 4xx.',
          ),
          alert.health(
            'CulpritTriggersRefused',
            'warning',
            'sum by (instance, reason) (increase(culprit_analyzer_triggers_refused_total{%s, reason!="past"}[5m])) > 0' % analyzer,
            'The Culprit analyzer refuses triggers.',
            'The analyzer at {{ $labels.instance }} refused or cut {{ $value | humanize }} trigger(s) in 5 minutes: too many, or too large ({{ $labels.reason }}).',
          ),
          alert.health(
            'CulpritTriggersUnheard',
            'warning',
            'sum by (instance) (increase(culprit_analyzer_triggers_unheard_total{%s}[15m])) > 0' % analyzer,
            'Triggers do not reach the Culprit analyzer through Alertmanager.',
            'The analyzer at {{ $labels.instance }} took {{ $value | humanize }} trigger(s) from Prometheus in 15 minutes because no notification came: verdicts are late.',
          ),
          alert.health(
            'CulpritAnalysisQuarantined',
            'critical',
            'culprit_analyzer_quarantined_incidents{%s} > 0' % analyzer,
            'An incident is not analysed any more.',
            'The analysis of {{ $value }} open incident(s) crashed the analyzer at {{ $labels.instance }} twice: it is not repeated, and nobody is told who holds up the job.',
          ),
          alert.health(
            'CulpritStorageFailing',
            'warning',
            'culprit_analyzer_storage_failing{%s} > 0' % analyzer,
            'The Culprit analyzer cannot store incidents.',
            'The analyzer at {{ $labels.instance }} cannot write its incidents: it goes on, and a restart forgets them.',
            pending='1m',
          ),
          alert.health(
            'CulpritAnalyzerBacklog',
            'warning',
            'culprit_analyzer_queue_length{%s} > %g' % [analyzer, config.queueLength],
            'Analyses pile up in the Culprit analyzer.',
            '{{ $value }} analyses wait in the analyzer at {{ $labels.instance }}: verdicts are late.',
            pending='1m',
          ),
          alert.health(
            'CulpritAnalysisCrashed',
            'warning',
            'sum by (instance) (increase(culprit_analyzer_analysis_panics_total{%s}[5m])) > 0' % analyzer,
            'An analysis of the Culprit analyzer crashes.',
            '{{ $value | humanize }} analysis(es) of the analyzer at {{ $labels.instance }} crashed in 5 minutes: the job they were for has no verdict, or an old one.',
          ),
        ],
      },
    ],
  },
}
