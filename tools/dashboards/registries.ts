// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Grafana's application fills these registries when it starts; its packages come with them empty. An option that is not registered is ignored.

import {
  FieldConfigPropertyItem,
  FieldConfigSource,
  ThresholdsMode,
  booleanOverrideProcessor,
  dataLinksOverrideProcessor,
  displayNameOverrideProcessor,
  identityOverrideProcessor,
  numberOverrideProcessor,
  standardEditorsRegistry,
  standardFieldConfigEditorRegistry,
  standardTransformers,
  standardTransformersRegistry,
  stringOverrideProcessor,
  thresholdsOverrideProcessor,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';
import { TableFieldOptions, GraphFieldConfig } from '@grafana/schema';

const none = () => null;

const standard: Record<string, FieldConfigPropertyItem['process']> = {
  unit: unitOverrideProcessor,
  min: numberOverrideProcessor,
  max: numberOverrideProcessor,
  decimals: numberOverrideProcessor,
  displayName: displayNameOverrideProcessor,
  noValue: stringOverrideProcessor,
  color: identityOverrideProcessor,
  thresholds: thresholdsOverrideProcessor,
  mappings: valueMappingsOverrideProcessor,
  links: dataLinksOverrideProcessor,
  filterable: booleanOverrideProcessor,
};

const defaults: Record<string, unknown> = {
  mappings: [],
  links: [],
  thresholds: { mode: ThresholdsMode.Absolute, steps: [{ value: -Infinity, color: 'green' }, { value: 80, color: 'red' }] },
};

export function fillRegistries() {
  standardEditorsRegistry.setInit(() => []);
  standardFieldConfigEditorRegistry.setInit(() =>
    Object.entries(standard).map(([id, process]) => ({
      id, path: id, name: id, editor: none, override: none, process, settings: {}, defaultValue: defaults[id], shouldApply: () => true,
    } as unknown as FieldConfigPropertyItem))
  );
  standardTransformersRegistry.setInit(() =>
    [...new Map(Object.values(standardTransformers).map((t) => [t.id, t])).values()].map((t) => ({ id: t.id, name: t.name, transformation: t, editor: none, imageDark: '', imageLight: '' } as never))
  );
}

// Which custom options each kind of panel has, with its defaults in Grafana.
export const graphOptions: Partial<Record<keyof GraphFieldConfig, unknown>> = {
  drawStyle: 'line', lineInterpolation: 'linear', barAlignment: 0, lineWidth: 1, fillOpacity: 0, gradientMode: 'none', lineStyle: undefined, spanNulls: false,
  showPoints: 'auto', pointSize: 5, stacking: { mode: 'none', group: 'A' }, axisPlacement: 'auto', axisLabel: undefined, axisColorMode: 'text',
  axisBorderShow: false, axisCenteredZero: false, scaleDistribution: { type: 'linear' }, hideFrom: undefined, thresholdsStyle: { mode: 'off' }, lineColor: undefined,
};
export const tableOptions: Partial<Record<keyof TableFieldOptions, unknown>> = {
  width: undefined, minWidth: undefined, align: 'auto', cellOptions: { type: 'auto' }, inspect: false, filterable: undefined, hideFrom: undefined,
};

export const custom = (options: Record<string, unknown>) => ({
  useCustomConfig: (builder: { addCustomEditor(item: unknown): unknown }) => {
    for (const [id, defaultValue] of Object.entries(options)) {
      builder.addCustomEditor({ id, path: id, name: id, editor: none, override: none, process: identityOverrideProcessor, shouldApply: () => true, defaultValue, settings: {} });
    }
  },
});

export const noConfig: FieldConfigSource = { defaults: {}, overrides: [] };
