// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Bundles the page that draws dashboards, into dist/.

import { readFile } from 'node:fs/promises';
import { build } from 'esbuild';

// Scenes imports an empty constant that the schema package no longer exports.
const tableDefaults = {
  name: 'table-defaults',
  setup(b) {
    b.onLoad({ filter: /schema\/dist\/esm\/raw\/composable\/table\/panelcfg\/x\/types\.gen\.mjs$/ }, async ({ path }) => ({
      contents: (await readFile(path, 'utf8')) + '\nexport const defaultOptions = {};\n',
    }));
  },
};

await build({
  entryPoints: ['page.tsx'],
  outfile: 'dist/page.js',
  bundle: true,
  minify: true,
  format: 'iife',
  jsx: 'automatic',
  define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  // The runtime package wants the router's version 5 beside 6; what it takes of it is in 6.
  alias: { 'react-router-dom-v5-compat': 'react-router-dom' },
  loader: { '.svg': 'dataurl', '.ttf': 'empty' },
  plugins: [tableDefaults],
  logLevel: 'warning',
});
