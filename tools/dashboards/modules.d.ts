// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Packages without types.
declare module 'd3-scale-chromatic';
declare module 'react-dom/client';
