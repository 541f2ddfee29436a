// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package browser tests the analyzer's pages in a real Chromium. It is a module of its own: nothing that ships is built with what
// drives the browser.
package browser
