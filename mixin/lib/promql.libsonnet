// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Pieces of PromQL that the rules share.
function(config) {
  local join = std.join(', ', config.jobLabels),
  // Label lists for by () and on ().
  job: join,
  rank: join + ', rank',
  process: 'instance, ' + join + ', rank',
  host: 'instance, ' + join,
  // What hosts() gives: of a job as a whole, without an instance, and of each of few hosts.
  part: join + ', instance',

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

  // A vector by host without what no exporter counts: one NaN would be that of the whole job.
  sane(vector): '(\n%s\n) >= 0 < Inf' % vector,

  // What the hosts of a job, or of whatever by names, have in a record by host, as no exporter decides it alone: the mean of the middle half.
  // Unlike the mean it is the same whatever one host of three or up to a quarter of many say, and unlike the median it does not jump where hosts
  // differ and one is not scraped. Of three hosts or fewer each is there by itself as well, under its instance, as of two neither outvotes the
  // other; of three, so that it has a past when one leaves.
  // A quantile between two equal values may differ from them in the last bits.
  hosts(record, by): |||
    avg by (%(by)s) (
      %(record)s
      >= on (%(by)s) group_left () (quantile by (%(by)s) (0.25, %(record)s) * (1 - 1e-9))
      <= on (%(by)s) group_left () (quantile by (%(by)s) (0.75, %(record)s) * (1 + 1e-9))
    )
    or
    quantile by (%(by)s) (0.5, %(record)s)
    or
    (%(record)s and on (%(by)s) count by (%(by)s) (%(record)s) <= 3)
  ||| % { record: record, by: by },

  // Jobs of which a trigger fires. ALERTS holds the previous evaluation's state.
  triggered: $.alerts('alertstate="firing", culprit="trigger"'),
  // The same without the look at each new job, which tells of no trouble.
  troubled: $.alerts('alertstate="firing", culprit="trigger", kind!="start"'),
  alerts(matchers): 'ALERTS{%s}' % std.join(', ', std.filter(function(s) s != '', [config.recordedSelector, matchers])),
  // What the analyzer shows of its verdicts.
  verdicts(matchers=''): 'culprit_verdict_info{%s}' % std.join(', ', std.filter(function(s) s != '', [config.analyzerSelector, matchers])),
}
