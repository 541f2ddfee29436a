// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What Grafana's server tells its pages before their scripts run. It must be the first import: the packages read it when they load.

import { createTheme } from '@grafana/data';

declare global {
  interface Window {
    grafanaBootData: unknown;
    __grafana_public_path__: string;
  }
}

window.__grafana_public_path__ = '/public/';
window.grafanaBootData = {
  settings: { featureToggles: {}, theme2: createTheme({ colors: { mode: 'light' } }), buildInfo: { version: '12.4.10', env: 'production' }, bootData: {} },
  user: { timezone: 'utc', locale: 'en-US', language: 'en-US', regionalFormat: 'en-US' },
  navTree: [],
};
