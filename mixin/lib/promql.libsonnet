// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Pieces of PromQL that the rules share.
function(config) {
  local join = std.join(', ', config.jobLabels),
  // Label lists for by () and on ().
  job: join,
  rank: join + ', rank',
  process: 'instance, ' + join + ', rank',

  // A metric with matchers, and what follows the braces. selectors.libsonnet adds those that say whose series is read.
  metric(name, matchers='', suffix=''): name + (if matchers == '' then '' else '{%s}' % matchers) + suffix,

  // The same of the ranks that stand for all.
  sampled(name, matchers=''): self.metric(name, std.join(', ', std.filter(function(s) s != '', [config.sampleSelector, matchers]))),

  // A vector of the processes that the last scrape saw alive. What a dead process left behind stays readable, and would stall
  // for ever; and a rate goes on for its window after its series ended, and would fall to nothing at the end of every job.
  // The vector's labels must include those of a process.
  living(vector):
    '%s\nand on (%s) (%s == 1)' % [vector, self.process, self.metric('culprit_nccl_process_up')],

  // At most config.namedPerJob elements of a vector a job, with their labels; of a job that has more, the largest, with those of the job. So a trigger
  // that knows a rank says so, and one that knows a thousand is still one alert.
  few(vector): '(%(v)s)\nand on (%(job)s) (count by (%(job)s) (%(v)s) <= %(n)d)\nor on (%(job)s)\nmax by (%(job)s) (%(v)s)' %
               { v: std.rstripChars(vector, '\n'), job: join, n: config.namedPerJob },

  // Jobs of which a trigger fires. ALERTS holds the previous evaluation's state.
  triggered: $.alerts('alertstate="firing", culprit="trigger"'),
  // The same without the look at each new job, which tells of no trouble.
  troubled: $.alerts('alertstate="firing", culprit="trigger", kind!="start"'),
  alerts(matchers): 'ALERTS{%s}' % std.join(', ', std.filter(function(s) s != '', [config.recordedSelector, matchers])),
  // What the analyzer shows of its verdicts.
  verdicts(matchers=''): 'culprit_verdict_info{%s}' % std.join(', ', std.filter(function(s) s != '', [config.analyzerSelector, matchers])),
}
