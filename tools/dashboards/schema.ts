// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What a dashboard's JSON may have, as Grafana's schema package declares it. The compiler refuses an option that Grafana does not know, a value that
// is not on its list, and a field that is missing.

import type { AnnotationQuery, Dashboard, FieldConfig, VariableModel } from '@grafana/schema';
import type * as dashboard from '@grafana/schema/dist/esm/raw/dashboard/x/Dashboard_types.gen';
import type * as heatmap from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as timeseries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

// JSON<T> has the names of an enumeration as text. Options that a panel leaves out have Grafana's defaults.
type JSON<T> = unknown extends T
  ? T
  : T extends string
    ? `${T}`
    : T extends number | boolean | null | undefined
      ? T
      : T extends Array<infer E>
        ? Array<JSON<E>>
        : { [K in keyof T]: JSON<T[K]> };
type Some<T> = unknown extends T ? T : T extends Array<infer E> ? Array<Some<E>> : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;

// What Grafana's data source for Prometheus adds; its types are not in the package.
type Source = { type: 'prometheus'; uid: string };
type Query = { refId: string; datasource: Source; expr: string; format?: 'time_series' | 'table' | 'heatmap'; instant: boolean; range: boolean; legendFormat?: string };
type Annotation = AnnotationQuery & { expr: string; step?: string; titleFormat: string; textFormat: string; useValueForTime: boolean };
type Variable = Omit<VariableModel, 'current'> & { current?: Some<VariableModel['current']>; definition?: string };

interface Kind<Type extends string, Options, Custom> extends Omit<dashboard.Panel, 'type' | 'options' | 'fieldConfig' | 'targets'> {
  type: Type;
  options: Some<Options>;
  fieldConfig: { defaults: Omit<FieldConfig, 'custom'> & { custom?: Some<Custom> }; overrides: dashboard.FieldConfigSource['overrides'] };
  targets: Query[];
}
type Drawn =
  | Kind<'timeseries', timeseries.Options, timeseries.FieldConfig>
  | Kind<'stat', stat.Options, {}>
  | Kind<'table', table.Options, table.FieldConfig>
  | Kind<'heatmap', heatmap.Options, heatmap.FieldConfig>;
type Row = Omit<dashboard.RowPanel, 'panels'> & { panels: Drawn[] };

type Changed = 'panels' | 'annotations' | 'templating' | 'links';

export type Board = JSON<
  Omit<Dashboard, Changed> & { panels: Array<Drawn | Row>; annotations: { list: Annotation[] }; templating: { list: Variable[] }; links: Array<Some<dashboard.DashboardLink>> }
>;
