// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Draws one shipped dashboard with Grafana's own packages: ?dashboard=culprit-jobs&from=…&to=…&expand=Waiting+by+rank&var-rank=3, times in milliseconds.
// The server gives /dashboards and forwards /api to Prometheus. window.drawn() says what each panel shows, for the program that takes the picture.

import './boot';
import './page.css';

import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router-dom';
import { from, map } from 'rxjs';
import { DataFrame, EventBusSrv, FieldType, LoadingState, PanelData, PanelModel, createTheme, getDefaultTimeRange, toDataFrame } from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { config, setAppEvents, setDataSourceSrv, setPluginImportUtils, setRunRequest } from '@grafana/runtime';
import {
  ConstantVariable, DataSourceVariable, EmbeddedScene, QueryVariable, SceneDataTransformer, SceneGridItem, SceneGridItemLike, SceneGridLayout, SceneGridRow, SceneQueryRunner,
  SceneTimePicker, SceneTimeRange, SceneVariable, SceneVariableSet, TextBoxVariable, VariableValueSelectors, VizPanel, sceneGraph, sceneUtils,
} from '@grafana/scenes';
import { GlobalStyles, PortalContainer } from '@grafana/ui';
import { ThemeContext } from '@grafana/data';

import { plugins } from './panels';
import { Prometheus, Query } from './prometheus';
import { fillRegistries } from './registries';

interface Panel extends Omit<PanelModel, 'targets'> {
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: Query[];
  collapsed?: boolean;
  panels?: Panel[];
  interval?: string;
  description?: string;
}

const params = new URLSearchParams(location.search);

function variable(v: any): SceneVariable {
  const asked = params.getAll(`var-${v.name}`);
  const common = { name: v.name, label: v.label, hide: v.hide };
  switch (v.type) {
    case 'datasource':
      return new DataSourceVariable({ ...common, pluginId: v.query, value: 'prometheus', text: 'Prometheus' });
    case 'textbox':
      return new TextBoxVariable({ ...common, value: asked[0] ?? v.query });
    case 'query': {
      const value = asked.length ? (v.multi ? asked : asked[0]) : v.includeAll ? ['$__all'] : '';
      return new QueryVariable({
        ...common, datasource: v.datasource, query: v.query, regex: v.regex, sort: v.sort, refresh: v.refresh, isMulti: v.multi, includeAll: v.includeAll, allValue: v.allValue,
        value, text: asked.length ? value : v.includeAll ? ['All'] : '',
      });
    }
    default:
      throw new Error(`variable ${v.name} is of an unknown type, ${v.type}`);
  }
}

function gridItem(p: Panel, y: number): SceneGridItem {
  if (!plugins[p.type]) {
    throw new Error(`panel ${p.title} is of an unknown type, ${p.type}`);
  }
  const $data = new SceneDataTransformer({
    $data: new SceneQueryRunner({ queries: p.targets ?? [], minInterval: p.interval, datasource: p.datasource ?? undefined }),
    transformations: p.transformations ?? [],
  });
  return new SceneGridItem({
    x: p.gridPos.x, y, width: p.gridPos.w, height: p.gridPos.h,
    body: new VizPanel({ key: `panel-${p.id}`, title: p.title, description: p.description, pluginId: p.type, options: p.options, fieldConfig: p.fieldConfig, $data, hoverHeader: !p.title }),
  });
}

// grid has rows hold the panels that follow them, as Grafana reads them. Collapsed rows stay so but for those that are asked for.
function grid(panels: Panel[]): SceneGridItemLike[] {
  const expand = params.getAll('expand');
  const out: SceneGridItemLike[] = [];
  let row: SceneGridRow | undefined;
  let shift = 0;
  for (const p of panels) {
    const y = p.gridPos.y + shift;
    if (p.type !== 'row') {
      const item = gridItem(p, y);
      row ? row.setState({ children: [...row.state.children, item] }) : out.push(item);
      continue;
    }
    const inside = p.panels ?? [];
    const open = !p.collapsed || expand.includes(p.title ?? '') || expand.includes('*');
    row = new SceneGridRow({ title: p.title, y, isCollapsed: !open, children: inside.map((q) => gridItem(q, y + 1 + q.gridPos.y - Math.min(...inside.map((r) => r.gridPos.y)))) });
    if (open && inside.length) {
      shift += Math.max(...inside.map((q) => q.gridPos.y + q.gridPos.h)) - Math.min(...inside.map((q) => q.gridPos.y));
    }
    out.push(row);
  }
  return out;
}

// runRequest is what a panel has while its query runs and after; Grafana's application has its own.
const runRequest = (ds: any, request: any) =>
  from(ds.query(request).catch((err: Error) => ({ data: [], error: { message: err.message } })) as Promise<{ data: DataFrame[]; error?: { message: string } }>).pipe(
    map(({ data, error }): PanelData => ({
      state: error ? LoadingState.Error : LoadingState.Done, series: data.map((f) => toDataFrame(f)), errors: error && [error], error, timeRange: request.range ?? getDefaultTimeRange(), request,
    }))
  );

async function main() {
  await initPluginTranslations('culprit');
  fillRegistries();
  const theme = createTheme({ colors: { mode: 'light' } });
  config.theme2 = theme;
  const source = new Prometheus(Number(params.get('scrape') ?? 1));
  const settings = { name: 'Prometheus', uid: source.uid, type: source.type, id: 1, meta: source.meta, jsonData: {}, access: 'direct', readOnly: true, isDefault: true };
  setDataSourceSrv({ get: async () => source, getList: () => [settings], getInstanceSettings: () => settings, reload: () => undefined, registerRuntimeDataSource: () => undefined } as never);
  setAppEvents(new EventBusSrv());
  setRunRequest(runRequest as never);
  setPluginImportUtils({ importPanelPlugin: async (id: string) => { throw new Error(`no panel plugin ${id}`); }, getPanelPluginFromCache: () => undefined });
  for (const [pluginId, plugin] of Object.entries(plugins)) {
    sceneUtils.registerRuntimePanelPlugin({ pluginId, plugin });
  }

  const dashboard = await (await fetch(`/dashboards/${params.get('dashboard')}.json`)).json();
  const iso = (ms: string | null) => new Date(Number(ms)).toISOString();
  const scene = new EmbeddedScene({
    $timeRange: new SceneTimeRange({ from: iso(params.get('from')), to: iso(params.get('to')), timeZone: 'utc' }),
    $variables: new SceneVariableSet({ variables: dashboard.templating.list.map(variable) }),
    controls: [new VariableValueSelectors({}), new SceneTimePicker({})],
    body: new SceneGridLayout({ children: grid(dashboard.panels), isDraggable: false, isResizable: false, isLazy: false }),
  });
  (window as any).drawn = () => ({
    panels: sceneGraph.findAllObjects(scene, (o) => o instanceof VizPanel && o.isActive).map((o) => {
      const panel = o as VizPanel;
      const transformer = panel.state.$data as SceneDataTransformer;
      const runner = transformer.state.$data as SceneQueryRunner;
      const data = transformer.state.data;
      const values = (refId: string) =>
        (runner.state.data?.series ?? []).filter((f) => f.refId === refId).flatMap((f) => f.fields.filter((x) => x.type === FieldType.number).flatMap((x) => x.values)).filter((v) => v !== null);
      const endless = panel.state.pluginId === 'timeseries' ? runner.state.queries.filter((q) => values(q.refId).some((v) => Math.abs(v) === Infinity)).map((q) => q.refId) : [];
      return {
        title: panel.state.title,
        state: data?.state ?? LoadingState.Loading,
        // Grafana finds no scale for an axis with an infinite value, and draws nothing.
        error: panel.state._pluginLoadError ?? data?.errors?.[0]?.message ?? (endless.length ? `infinite values in query ${endless.join(', ')}` : ''),
        queries: Object.fromEntries(runner.state.queries.map((q) => [q.refId, values(q.refId).length])),
      };
    }),
  });
  createRoot(document.getElementById('page')!).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <MemoryRouter>
        <h1>{dashboard.title}</h1>
        <scene.Component model={scene} />
      </MemoryRouter>
      <PortalContainer />
    </ThemeContext.Provider>
  );
}

main().catch((err) => { (window as any).failed = String(err?.stack ?? err); throw err; });
