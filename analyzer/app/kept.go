// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/kept"
)

// newKept makes the store of evidence, in memory where there is no folder.
func newKept(cfg *config.Config, storage string, logger *slog.Logger) (*kept.Store, error) {
	dir, bounds := "", keptBounds(cfg)
	if storage != "" {
		dir = filepath.Join(storage, "evidence")
	}
	return kept.NewStore(dir, bounds, logger.With("component", "evidence"), clock.System)
}

func keptBounds(cfg *config.Config) kept.Bounds {
	return kept.Bounds{PerIncident: cfg.Evidence.PerIncident, Total: cfg.Evidence.Total, Retention: time.Duration(cfg.Evidence.Retention)}
}
