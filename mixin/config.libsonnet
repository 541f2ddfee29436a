// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Everything a site may want to change. Override it from your own jsonnet:
//   (import 'mixin/mixin.libsonnet') + { _config+:: { stallFloorSeconds: 5 } }
{
  _config+:: {
    // How our own processes are found. Any scraped target can expose a series of any name, so every series of an exporter is read with
    // exporterSelector, and every verdict with analyzerSelector.
    exporterSelector: 'job="culprit-exporter"',
    analyzerSelector: 'job="culprit-analyzer"',
    // The same for the series of jobs; narrow it where several installations share one Prometheus.
    ncclSelector: self.exporterSelector,
    // What rules record, and ALERTS, have no label job: it is a target's. So no target can put recorded series into a rule's way. Empty
    // where an external label or a relabelling gives recorded series a job.
    recordedSelector: 'job=""',

    // Ranks that stand for all in triggers on slowness, as a matcher; empty: all of them are read. For jobs of many thousand ranks: ranks of a job
    // that gets slow wait for each other, so a tenth of them shows it as well. Take whole hosts, for communicators that do not leave them.
    sampleSelector: '',

    // Exporters that take the place of our own collectors: 'dcgm-exporter' of nvml, 'node_exporter' of host.
    sources: [],
    // How the instance of culprit-exporter follows from a label of theirs, as label_replace takes it.
    sourceInstance: { label: 'instance', regex: '(.*):[0-9]+', replacement: '$1:9850' },

    // What tells one training job from another: its id, which its processes choose, and its owner, the user that the kernel shows. Add
    // 'cluster' where job ids are unique only within a cluster.
    jobLabels: ['job_id', 'owner'],

    runbookURLPattern: 'https://github.com/culprit-project/culprit/blob/main/docs/runbooks/%s.md',

    // How often the exporters are scraped, at least; windows and evaluation intervals below follow it. rules/ has what is rendered for
    // 5 s (which serves 1 s, too) and, in folders, for 15, 30 and 60 s.
    scrapeIntervalSeconds: 5,
    local scrape = self.scrapeIntervalSeconds,
    local dense = scrape <= 5,
    local duration(seconds) = if seconds % 60 == 0 then '%dm' % (seconds / 60) else '%ds' % seconds,
    // Looking three times a scrape costs a third of its interval on the way to the verdict.
    local look(denseInterval) = if dense then denseInterval else duration(scrape / 3),

    // Evaluation intervals of the rule groups. The stall group reads one series a rank and is cheap enough for 1 s, which
    // saves up to a scrape interval on the way to the verdict; the others read some a communicator and rank.
    stallInterval: look('1s'),
    progressInterval: look('5s'),
    ageInterval: duration(std.max(15, scrape)),
    callInterval: look('5s'),
    healthInterval: '15s',
    lossInterval: '1m',
    // Bandwidth is for dashboards, and its rules read most series a rank.
    bandwidthInterval: duration(std.max(30, scrape)),
    bandwidthWindow: duration(std.max(60, 4 * scrape)),
    // A communicator is slow (CCL-D) whose operations take the rank that is inside longest more than theta times as long again as usual. Theta is the
    // mean and so many standard deviations of what it was in the last hour while no trigger fired, of so many evaluations at least. Until then it is
    // slowdownTheta, which CCL-D says is usual, and it is never above that nor below slowdownThetaLeast: an operation that takes twice as long (Mycroft's interval).
    slowdownTheta: 3,
    slowdownThetaDeviations: 3,
    slowdownThetaSamples: 30,
    slowdownThetaLeast: 1,
    // Usual is the lower quarter of the last hour, of so many evaluations at least. The newest minutes do not count.
    slowdownHistory: '1h',
    slowdownLag: duration(3 * std.max(60, 4 * scrape)),
    slowdownSamples: 10,
    // One long operation, as after a checkpoint, is in the window for its length: it is no slowdown.
    slowdownFor: duration(2 * std.max(60, 4 * scrape)),
    // A rank's transfers are slow (Pulse) that are in flight so many times as long as usual and as what grew on the job's other hosts explains.
    transferRatio: 1.5,
    // A queue pair is slow that moves less than so much of what its sisters move while a send is outstanding: half, as Mycroft's throughput.
    queuePairRatio: 0.5,
    // Epochs of the shim in seconds: 2^15 ns (Pulse's 32 µs).
    epochSeconds: 0.000032768,
    ticketInterval: '1m',

    // A trigger that flaps because one scrape was missed is one incident.
    keepFiringFor: duration(std.max(10, 2 * scrape)),

    // --- Stall: no progress for longer than the job's own healthy waits explain. -----------------------------------
    // Nothing shorter is ever a stall.
    stallFloorSeconds: 3,
    // A stall is this many times the job's usual longest wait, ...
    stallFactor: 2,
    // ... but never more than this: beyond it the analyzer had better have a look.
    stallCeilingSeconds: 120,
    // A job of which no operation has ever completed: lazy connections take seconds. A rank that compiles or loads for longer is
    // known to the analyzer; a link or GPU that fails in the very first operation is not to wait for that.
    stallFirstStepSeconds: 10,
    // The usual longest wait: the longest in stallWaitWindow, exceeded for all but stallQuantile of stallHistory. A wait
    // that happened once is not usual; one that happens every iteration is, when the iteration is shorter than about the window.
    stallWaitWindow: '2m',
    stallHistory: '10m',
    stallQuantile: 0.25,

    // --- No rank calls an operation any more. It reads as much as the progress group, and is looked at more often. ---------
    launchInterval: look('2s'),
    // While members of a communicator have called different numbers: somebody is waited for, or soon will be.
    launchFloorSeconds: 4,
    // While all have called alike, all may be inside one operation, or in none.
    launchEvenFloorSeconds: 6,
    // Before a job has called so many operations on a communicator, its pauses are those of a start.
    launchFirstOperations: 16,

    // Of a trigger at most so many alerts a job have a rank or a communicator as labels: as many as a description names. Where it fits more, one alert has neither.
    namedPerJob: 4,

    // Hang triggers name ranks in their descriptions, by queries that read all communicators of the job, in jobs of at most so many.
    namesUpToRanks: 2048,

    // --- Failure (Mycroft, Algorithm 1): an operation in progress and none completed in the window. ----------------
    // Two scrapes: a counter that was read once has not changed.
    failureWindowSeconds: std.max(10, 2 * scrape),

    // --- Operation in flight too long (CCL-D); barriers are left out of the age by the exporter. --------------------
    operationAgeSeconds: 300,
    operationAgeFirstStepSeconds: 1800,

    // --- A call that makes or ends a communicator does not come back (preload hooks). --------------------------------
    // Some ranks came back from it so long ago, and others are in it still: no rank has to load anything for that.
    callSplitSeconds: 30,
    // Ranks wait in it for others that have not come. Jobs start slowly: containers, data and checkpoints are loaded meanwhile.
    callWaitSeconds: 300,
    // All are in it. Large jobs take minutes to make their first communicator.
    callCeilingSeconds: 900,

    // --- Process vanished: others make no progress for longer than is usual, at least this long. A job that is being
    // killed dies everywhere sooner. -----------------------------------------------------------------------------------
    vanishedStallSeconds: 1.5,

    // --- Straggler (Mycroft) and slow iterations (Holmes). -----------------------------------------------------------
    // Windows of the rates, how often each is evaluated, and how far its baseline stays behind, so that the beginning of an
    // anomaly does not move it. Windows before the youngest process of the job is warmUpSeconds old are left out: slow first
    // iterations in a baseline make it less sensitive. A window holds at least two scrapes, at 15 s and more four. The short window suits jobs whose traffic is steady
    // over it; the edge of its own healthy range disarms it for jobs whose traffic comes in bursts, which the long window serves.
    slowWindows:
      local short = if dense then 10 else 4 * scrape;
      local long = if dense then 60 else 12 * scrape;
      [
        { name: 'short', window: duration(short), interval: look('2s'), lag: duration(2 * short), minSamples: 10, warmUpSeconds: 2 * short },
        { name: 'long', window: duration(long), interval: if dense then '10s' else duration(scrape), lag: duration(1.5 * long), minSamples: 6, warmUpSeconds: 4 / 3 * long },
      ],
    // Runs that begin further apart than this are two. None that is shorter has a baseline: that warms up, stays behind, and wants samples.
    runApartSeconds: if dense then 60 else 20 * scrape,
    // The baseline is the edge of the healthy range: the lowest (throughput, operations) or highest (iteration time)
    // tenth of the windows of the last baselineHistory in which no trigger fired.
    baselineHistory: duration(std.max(600, 20 * scrape)),
    baselineEdge: 0.1,
    // A baseline older than this no longer says anything: the job is then taken as it is.
    baselineMemory: '2h',
    throughputRatio: 0.5,
    intervalRatio: 2,
    iterationRatio: 1.1,
    // A job is looked at once after so many iterations that took so long together: connecting, compiling and filling caches are over.
    // The trigger fires for the window; the analyzer looks at once.
    firstLookIterations: 10,
    firstLookSeconds: 60,
    firstLookWindowSeconds: std.max(15, 2 * scrape),
    // Two evaluations: the window already holds a slow iteration for its length.
    iterationFor: self.slowWindows[0].interval,

    // --- Our own health. ---------------------------------------------------------------------------------------------
    exporterDownFor: duration(std.max(60, 3 * scrape)),
    collectorFailingFor: '5m',
    analyzerDownFor: duration(std.max(60, 3 * scrape)),
    noVerdictFor: duration(std.max(60, 2 * scrape)),
    // A job's ranks start and end within so long of each other; programs load NCCL and its plugin within as long.
    coverageFor: '5m',
    // A GPU that is used for longer than this without a traced process may belong to a job that is not watched.
    gpuUnwatchedFor: '15m',
    gpuBusyRatio: 0.2,
    // Scraped more rarely than every so many scrapeIntervalSeconds, the rules' windows are empty half of the time or always.
    scrapeTolerance: 1.5,
    // contended and stale are left out: a step in a thousand that two threads met at is normal.
    eventsLostReasons: 'dropped_comm|dropped_op|dropped_flow|overrun',
    eventsLostPerTenMinutes: 0,
    sourceErrorRatio: 0.5,
    queueLength: 10,

    // --- Dashboards. ---------------------------------------------------------------------------------------------------
    dashboardTag: 'culprit',
    dashboardRefresh: '5s',
    dashboardFrom: 'now-30m',
    // Where the analyzer's pages are, as seen from a browser; the dashboard has it as a variable, too.
    analyzerURL: 'http://localhost:9851',
    // Regular expression on names of the data sources offered.
    datasourceRegex: '',
  },
}
