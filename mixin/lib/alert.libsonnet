// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Makes a trigger: an alert that goes to the analyzer's webhook and never to a person.
function(config) {
  trigger(name, severity, expr, summary, description, pending=''):: {
    alert: name,
    expr: expr,
    [if pending != '' then 'for']: pending,
    keep_firing_for: config.keepFiringFor,
    labels: { severity: severity, culprit: 'trigger' },
    annotations: { summary: summary, description: description },
  },

  // Makes an alert on our own health: it goes to whoever runs Culprit.
  health(name, severity, expr, summary, description, pending=''):: {
    alert: name,
    expr: expr,
    [if pending != '' then 'for']: pending,
    labels: { severity: severity, culprit: 'health' },
    annotations: { summary: summary, description: description },
  },
}
