// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/evidence"
)

// whole marks answers that are incomplete by evidence.ErrIncomplete. Thanos and others leave out what a store did not give and say so in a
// warning: ranks would be missing from a job that has them.
type whole struct{ evidence.Querier }

// Query implements evidence.Querier.
func (w whole) Query(ctx context.Context, query string, ts time.Time, opts ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	value, warnings, infos, err := w.Querier.Query(ctx, query, ts, opts...)
	if err != nil {
		return value, warnings, infos, err
	}
	for _, warning := range warnings {
		// Prometheus's own are about the query, and not about what was left out.
		if !strings.HasPrefix(warning, "PromQL ") {
			return value, warnings, infos, fmt.Errorf("%w: %s", evidence.ErrIncomplete, warning)
		}
	}
	return value, warnings, infos, nil
}
