// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Writes the dashboards of a folder as constants of the type in schema.ts, for the compiler to check.

import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = process.argv[2];
mkdirSync('schema', { recursive: true });
const files = readdirSync(folder).filter((f) => f.endsWith('.json'));
const constants = files.map((f, i) => `// ${f}\nexport const board${i}: Board = ${readFileSync(join(folder, f), 'utf8').trim()};\n`);
writeFileSync('schema/all.ts', `import type { Board } from '../schema';\n\n${constants.join('\n')}`);
console.log(`checking ${files.length} dashboards against the types of Grafana's schema`);
