// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/evidence"
)

// warned answers everything with warnings.
type warned v1.Warnings

func (w warned) Query(context.Context, string, time.Time, ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	return model.Vector{}, v1.Warnings(w), nil, nil
}

// An answer that a store is missing from is an error, with what there is.
func TestPartialAnswers(t *testing.T) {
	for _, tc := range []struct {
		name     string
		warnings warned
		refused  bool
	}{
		{"none", nil, false},
		{"about the query", warned{"PromQL warning: bucket label \"le\" is missing"}, false},
		{"a store is down", warned{"receive series from Addr: store-1:10901: rpc error: code = Unavailable"}, true},
		{"both", warned{"PromQL info: metric might not be a counter", "No StoreAPIs matched for this query"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			value, _, _, err := (whole{tc.warnings}).Query(t.Context(), "up", time.Time{})
			if errors.Is(err, evidence.ErrIncomplete) != tc.refused {
				t.Errorf("error is %v, want one: %t", err, tc.refused)
			}
			if _, ok := value.(model.Vector); !ok {
				t.Errorf("the answer is %v", value)
			}
		})
	}
}
