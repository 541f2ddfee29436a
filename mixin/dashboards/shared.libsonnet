// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the dashboards share: their ids, variables, links between them and annotations.
function(config) {
  local g = import '../lib/grafana.libsonnet',
  local q = (import '../lib/promql.libsonnet')(config),

  uid: { jobs: 'culprit-jobs', communicator: 'culprit-communicator', rank: 'culprit-rank', health: 'culprit-health', node: 'culprit-node' },

  // A metric narrowed to the chosen job, and more.
  ofJob(metric, matchers=''):: q.metric(metric, std.join(', ', ['job_id=~"$job_id", owner=~"$owner"'] + (if matchers == '' then [] else [matchers]))),

  // Adds the labels who the rank is to a vector with instance, job_id, owner and rank.
  whoIs(vector, labels='host, gpu'):: '%s\n* on (instance, job_id, owner, rank) group_left (%s)\nmax by (instance, job_id, owner, rank, %s) (%s)' % [
    vector,
    labels,
    labels,
    self.ofJob('culprit_nccl_process_info'),
  ],

  jobs:: g.labelVariable('job_id', 'Job', q.metric('culprit_nccl_process_info'), 'Training jobs; all of them, or some.', many=true),
  job:: g.labelVariable('job_id', 'Job', q.metric('culprit_nccl_process_info'), 'The training job.'),
  // Two users may run jobs of one name. Exporters of earlier releases tell no owner.
  owner:: g.labelVariable('owner', 'Owner', q.metric('culprit_nccl_process_info', 'job_id=~"$job_id"'), 'The user that the job runs as, by number.', many=true, all='.*'),
  comm:: g.labelVariable('comm', 'Communicator', q.metric('culprit_nccl_comm_info', 'job_id=~"$job_id", owner=~"$owner"'), "The communicator's id, equal on all its ranks."),
  rank:: g.labelVariable('rank', 'Rank', q.metric('culprit_nccl_process_info', 'job_id=~"$job_id", owner=~"$owner"'), 'The global rank.'),

  // The analyzer's address, where it is set, and links to its pages.
  analyzer:: if config.analyzerURL == '' then [] else [
    g.textVariable('analyzer', 'Analyzer', config.analyzerURL, "Where the analyzer's pages are, as seen from a browser."),
  ],
  atAnalyzer(title, path):: if config.analyzerURL == '' then [] else [g.external(title, '${analyzer}' + path)],
  toIncident:: self.atAnalyzer('Report', '/incidents/${__value.text}'),
  toJobPage(jobField='Job'):: self.atAnalyzer('The job now, in Culprit', '/job?id=${__data.fields["%s"]:percentencode}&owner=${__data.fields["Owner"]:percentencode}' % jobField),
  jobPages:: if config.analyzerURL == '' then [] else [
    g.pageLink('Job in Culprit', '${analyzer}/job?id=${job_id:percentencode}', 'The job now: layout, iteration time, who comes late.'),
    g.pageLink('Incidents of the job', '${analyzer}/?q=${job_id:percentencode}', 'Its incidents, open and past.'),
  ],
  allPages:: if config.analyzerURL == '' then [] else [
    g.pageLink('Incidents in Culprit', '${analyzer}/', 'All incidents: search, by host, by class.'),
    g.pageLink('Jobs in Culprit', '${analyzer}/jobs', 'The jobs that run.'),
  ],

  // Links for columns of tables: fields are what the columns are called.
  toJob(jobField='Job'):: g.drilldown('Job', self.uid.jobs, { job_id: '${__data.fields["%s"]}' % jobField, owner: '${__data.fields["Owner"]}' }),
  toCommunicator(commField='Communicator'):: g.drilldown('Communicator', self.uid.communicator, {
    job_id: '${job_id}',
    owner: '${owner}',
    comm: '${__data.fields["%s"]}' % commField,
  }),
  toRank(rankField='Rank', job='${job_id}', owner='${owner}'):: g.drilldown('Rank', self.uid.rank, { job_id: job, owner: owner, rank: '${__data.fields["%s"]}' % rankField }),
  // The exporter's instance stands for the node.
  toNode(instanceField):: g.drilldown('Node', self.uid.node, { instance: '${__data.fields["%s"]}' % instanceField }),
  // Links for time series.
  seriesToRank:: g.drilldown('Rank ${__field.labels.rank}', self.uid.rank, { job_id: '${__field.labels.job_id}', owner: '${__field.labels.owner}', rank: '${__field.labels.rank}' }),
  seriesToCommunicator:: g.drilldown('Communicator ${__field.labels.comm}', self.uid.communicator, { job_id: '${__field.labels.job_id}', owner: '${__field.labels.owner}', comm: '${__field.labels.comm}' }),
  seriesToJob:: g.drilldown('Job ${__field.labels.job_id}', self.uid.jobs, { job_id: '${__field.labels.job_id}', owner: '${__field.labels.owner}' }),

  annotations:: [
    g.annotation(
      'Triggers',
      'ALERTS{alertstate="firing", culprit="trigger", job_id=~"$job_id", owner=~"$owner"}',
      '{{alertname}}',
      'job {{job_id}} ({{owner}})',
      'orange',
    ),
    g.annotation(
      'Verdicts',
      'culprit_verdict_info{job_id=~"$job_id", owner=~"$owner"}',
      '{{class}}: {{cause}}',
      'job {{job_id}} ({{owner}}): rank {{rank}} on {{host}}, GPU {{gpu}}; incident {{incident}}',
      'red',
    ),
  ],
}
