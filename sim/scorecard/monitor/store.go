// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// series has its samples in columns: times in milliseconds, rising, and values.
type series struct {
	labels labels.Labels
	at     []int64
	value  []float64
}

func (s *series) append(at int64, v float64) error {
	if n := len(s.at); n > 0 && s.at[n-1] >= at {
		return storage.ErrOutOfOrderSample
	}
	s.at, s.value = append(s.at, at), append(s.value, v)
	return nil
}

// stale marks the series as gone.
func (s *series) stale(at int64) error { return s.append(at, math.Float64frombits(value.StaleNaN)) }

// store keeps series in memory, by metric name. It may be read by several at once, while nobody writes.
type store struct {
	names  map[string][]*series
	hashes map[uint64][]*series
}

func newStore() *store { return &store{names: map[string][]*series{}, hashes: map[uint64][]*series{}} }

// get gives the series with these labels, made where there is none.
func (s *store) get(l labels.Labels) *series {
	hash := l.Hash()
	for _, known := range s.hashes[hash] {
		if labels.Equal(known.labels, l) {
			return known
		}
	}
	fresh := &series{labels: l}
	s.hashes[hash] = append(s.hashes[hash], fresh)
	name := l.Get(model.MetricNameLabel)
	s.names[name] = append(s.names[name], fresh)
	return fresh
}

// Appender implements storage.Appendable, for what rules record.
func (s *store) Appender(context.Context) storage.Appender { return &appender{store: s} }

// appender has what recording rules call; the rest of the interface is never called for plain samples.
type appender struct {
	storage.Appender
	store *store
}

func (a *appender) SetOptions(*storage.AppendOptions) {}

func (a *appender) Append(_ storage.SeriesRef, l labels.Labels, at int64, v float64) (storage.SeriesRef, error) {
	return 0, a.store.get(l).append(at, v)
}

func (a *appender) Commit() error   { return nil }
func (a *appender) Rollback() error { return nil }

// view is the store without what somebody cannot see.
type view struct {
	*store
	hidden func(labels.Labels) bool // Nil: nothing.
}

// Querier implements storage.Queryable.
func (v view) Querier(mint, maxt int64) (storage.Querier, error) { return &querier{v, mint, maxt}, nil }

type querier struct {
	view
	mint, maxt int64
}

// Select implements storage.Querier.
func (q *querier) Select(_ context.Context, sorted bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	out := &selected{at: -1}
	add := func(list []*series) {
		for _, s := range list {
			if n := len(s.at); n > 0 && s.at[n-1] >= q.mint && s.at[0] <= q.maxt && matches(s.labels, matchers) && (q.hidden == nil || !q.hidden(s.labels)) {
				out.list = append(out.list, s)
			}
		}
	}
	i := slices.IndexFunc(matchers, func(m *labels.Matcher) bool { return m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual })
	if i >= 0 {
		add(q.names[matchers[i].Value])
	} else {
		for _, list := range q.names {
			add(list)
		}
	}
	if sorted || i < 0 {
		slices.SortFunc(out.list, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
	}
	return out
}

func matches(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

var errNoLabels = errors.New("the simulated Prometheus has no label index")

// LabelValues implements storage.LabelQuerier; no query of PromQL needs it.
func (q *querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errNoLabels
}

// LabelNames implements storage.LabelQuerier; no query of PromQL needs it.
func (q *querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errNoLabels
}

// Close implements storage.Querier.
func (q *querier) Close() error { return nil }

// selected is the answer of Select.
type selected struct {
	list []*series
	at   int
}

func (s *selected) Next() bool {
	s.at++
	return s.at < len(s.list)
}

func (s *selected) At() storage.Series                { return s.list[s.at] }
func (s *selected) Err() error                        { return nil }
func (s *selected) Warnings() annotations.Annotations { return nil }

// Labels implements storage.Series.
func (s *series) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s *series) Iterator(again chunkenc.Iterator) chunkenc.Iterator {
	if it, ok := again.(*iterator); ok {
		it.series, it.i = s, -1
		return it
	}
	return &iterator{series: s, i: -1}
}

// iterator implements chunkenc.Iterator over plain samples.
type iterator struct {
	series *series
	i      int
}

func (it *iterator) Next() chunkenc.ValueType {
	if it.i < len(it.series.at) {
		it.i++
	}
	return it.kind()
}

func (it *iterator) Seek(t int64) chunkenc.ValueType { //nolint:govet // As chunkenc.Iterator has it, not io.Seeker.
	from := max(it.i, 0)
	it.i = from + sort.Search(len(it.series.at)-from, func(k int) bool { return it.series.at[from+k] >= t })
	return it.kind()
}

func (it *iterator) kind() chunkenc.ValueType {
	if it.i >= len(it.series.at) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

func (it *iterator) At() (int64, float64) { return it.series.at[it.i], it.series.value[it.i] }
func (it *iterator) AtT() int64           { return it.series.at[it.i] }
func (it *iterator) AtST() int64          { return 0 }
func (it *iterator) Err() error           { return nil }

func (it *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return it.AtT(), nil
}

func (it *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return it.AtT(), nil
}
