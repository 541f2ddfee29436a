// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/layout"
)

// prometheus is a played server: it knows queries by parts of them, and counts them.
type prometheus struct {
	answers []answer
	asked   int
	down    bool
}

type answer struct {
	part string
	v    model.Vector
}

func (p *prometheus) Query(_ context.Context, query string, _ time.Time, _ ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	p.asked++
	if p.down {
		return nil, nil, nil, errors.New("connection refused")
	}
	if strings.ContainsAny(query, "{") && !strings.Contains(query, `"train"`) && !strings.Contains(query, "count by (job_id") {
		return model.Vector{}, nil, nil, nil // Of another job.
	}
	for _, a := range p.answers {
		if strings.Contains(query, a.part) {
			return a.v, nil, nil, nil
		}
	}
	return model.Vector{}, nil, nil, nil
}

func sample(value float64, labels ...string) *model.Sample {
	s := &model.Sample{Metric: model.Metric{}, Value: model.SampleValue(value)}
	for i := 0; i < len(labels); i += 2 {
		s.Metric[model.LabelName(labels[i])] = model.LabelValue(labels[i+1])
	}
	return s
}

// training is a job of sixteen ranks on two hosts: two tensor-parallel groups of four a stage, two stages of two replicas.
func training() *prometheus {
	var info, up, stalled, own, members, inside model.Vector
	for r := range 16 {
		rank := strconv.Itoa(r)
		info = append(info, sample(1, "job_id", "train", "rank", rank, "host", "node-"+strconv.Itoa(r/8), "gpu", strconv.Itoa(r%8), "world_size", "16", "instance", "node-"+strconv.Itoa(r/8)))
		up = append(up, sample(map[bool]float64{true: 1}[r != 3], "rank", rank))
		// Ranks 2 and 9 come late into operations of their stages, of which the second is in operations for longer.
		inside = append(inside, sample(map[int]float64{2: 0.3, 9: 0.5}[r]+map[bool]float64{true: 0.4 + 0.4*float64(r/8)}[r != 2 && r != 9], "rank", rank))
		stalled = append(stalled, sample(map[bool]float64{true: 4.2}[r == 5], "rank", rank))
	}
	for name, c := range map[string]struct{ stride, size int }{"tp_0": {1, 4}, "dp_0": {4, 2}, "pp_0": {8, 2}} {
		own = append(own, sample(1, "comm", name, "rank", "0"))
		for i := range c.size {
			members = append(members, sample(1, "comm", name, "comm_name", name, "rank", strconv.Itoa(i*c.stride), "comm_rank", strconv.Itoa(i), "nranks", strconv.Itoa(c.size)))
		}
	}
	return &prometheus{answers: []answer{
		{"sum by (comm_name, nranks) (sum by (rank, comm)", model.Vector{
			sample(0.25, "comm_name", "dp", "nranks", "2"), sample(0.125, "comm_name", "fsdp", "nranks", "2"), sample(0.5, "comm_name", "tp", "nranks", "4"), sample(0.01, "comm_name", "odd", "nranks", "3"),
		}},
		{"min by (comm_name, nranks)", model.Vector{sample(0.125, "comm_name", "dp", "nranks", "2"), sample(0.0625, "comm_name", "fsdp", "nranks", "2"), sample(0.25, "comm_name", "tp", "nranks", "4")}},
		{`{job_id="train",job="culprit-exporter", comm=""}`, model.Vector{sample(0.03125)}},
		{"count by (job_id, owner)", model.Vector{sample(8, "job_id", "tune"), sample(16, "job_id", "train")}},
		{"count by (comm_name", model.Vector{
			sample(8, "comm_name", "tp_0", "nranks", "4", "nnodes", "1"), sample(8, "comm_name", "tp_1", "nranks", "4", "nnodes", "1"), sample(16, "comm_name", "pp_0", "nranks", "2", "nnodes", "2"),
		}},
		{"last_over_time(culprit_nccl_comm_info", members},
		{"culprit_nccl_comm_info", own},
		{"culprit_nccl_process_info", info},
		{"culprit_nccl_process_up", up},
		{"culprit_nccl_stall_seconds", stalled},
		{"avg_over_time(", model.Vector{sample(1.5)}},
		{"sum(rate(culprit_nccl_iteration_seconds_sum", model.Vector{sample(1.8)}},
		{"max by (function)", model.Vector{sample(2e9, "function", "AllReduce"), sample(math.Inf(1), "function", "Send")}},
		{"min by (function)", model.Vector{sample(8.2, "function", "Send")}},
		{"avg by (function) (rate(culprit_nccl_function_ops_total", model.Vector{sample(4, "function", "AllReduce"), sample(16.4, "function", "Send"), sample(0, "function", "Barrier")}},
		{"avg by (function) (rate(culprit_nccl_bytes_total", model.Vector{sample(4e6, "function", "AllReduce")}},
		{"avg by (function) (sum by (rank, function) (rate(culprit_nccl_op_seconds_total", model.Vector{sample(0.25, "function", "AllReduce")}},
		{"sum by (rank) (rate(culprit_nccl_op_seconds_total", inside},
		{"events_lost", model.Vector{sample(7)}},
	}}
}

var now = time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)

func newSource(p *prometheus) *Source {
	cfg := config.Default().Prometheus
	return NewSource(p, cfg, evidence.NewDirectory(p, cfg, func(error) {}, clock.System), Exporters{})
}

func TestGet(t *testing.T) {
	p := training()
	s := newSource(p)
	j, err := s.Get(t.Context(), identity.Job{ID: "train"}, now)
	if err != nil || len(j.Missing) > 0 {
		t.Fatalf("%v, missing %v", err, j)
	}
	if len(j.Ranks) != 16 || j.Hosts != 2 || j.WorldSize != 16 || j.Iteration != 1.8 || j.Before != 1.5 || j.Lost != 7 || j.MicroBatches != 8 {
		t.Errorf("%+v", j)
	}
	for rank, want := range map[int]incident.RankView{
		3: {Rank: 3, Host: "node-0", GPU: "3", State: "gone"}, 5: {Rank: 5, Host: "node-0", GPU: "5", State: "stuck", Text: "no progress for 4.2 s"}, 15: {Rank: 15, Host: "node-1", GPU: "7", State: "moving"},
	} {
		if j.Ranks[rank] != want {
			t.Errorf("rank %d is %+v", rank, j.Ranks[rank])
		}
	}
	want := &layout.Layout{World: 16, Axes: []layout.Axis{{Kind: layout.Tensor, Size: 4, Stride: 1, Named: true}, {Kind: layout.Data, Size: 2, Stride: 4, Named: true}, {Kind: layout.Pipeline, Size: 2, Stride: 8, Named: true}}}
	if !reflect.DeepEqual(j.Layout, want) {
		t.Errorf("layout %+v", j.Layout)
	}
	if want := []Comm{{"pp", 2, 2, 8}, {"tp", 4, 1, 4}}; !reflect.DeepEqual(j.Comms, want) {
		t.Errorf("communicators %+v", j.Comms)
	}
	// Communicators have two sizes: nobody knows by which factor the bus carries more.
	if want := []Function{{Name: "AllReduce", Ops: 4, Bytes: 4e6, Seconds: 0.25, Bandwidth: 2e9}, {Name: "Send", Ops: 16.4}}; !reflect.DeepEqual(j.Functions, want) {
		t.Errorf("functions %+v", j.Functions)
	}
	if want := []Parallel{
		{layout.Tensor, []string{"tp"}, 0.5, 0.25}, {layout.Data, []string{"dp", "fsdp"}, 0.375, 0.1875}, {"", []string{"odd"}, 0.01, 0},
	}; !reflect.DeepEqual(j.Parallel, want) || j.Others != 0.03125 {
		t.Errorf("parallel %+v, others %g", j.Parallel, j.Others)
	}
	if want := []Share{{9, "node-1", 0.5, 0.8}, {2, "node-0", 0.3, 0.4}}; !reflect.DeepEqual(j.Late, want) {
		t.Errorf("late are %+v", j.Late)
	}
	// Many readers ask Prometheus no more than one.
	asked := p.asked
	if _, err := s.Get(t.Context(), identity.Job{ID: "train"}, now.Add(fresh-1)); err != nil || p.asked != asked {
		t.Errorf("asked %d times more, %v", p.asked-asked, err)
	}
	if _, err := s.Get(t.Context(), identity.Job{ID: "train"}, now.Add(fresh)); err != nil || p.asked == asked {
		t.Errorf("not asked again, %v", err)
	}
}

func TestBus(t *testing.T) {
	p := training()
	for i := range p.answers {
		if p.answers[i].part == "count by (comm_name" {
			p.answers[i].v = model.Vector{sample(16, "comm_name", "dp", "nranks", "16"), sample(16, "comm_name", "self", "nranks", "1")}
		}
	}
	j, err := newSource(p).Get(t.Context(), identity.Job{ID: "train"}, now)
	if err != nil || j.Functions[0].Bus != 2e9*2*15/16 {
		t.Errorf("%+v, %v", j.Functions, err)
	}
}

func TestGetUnknown(t *testing.T) {
	if _, err := newSource(training()).Get(t.Context(), identity.Job{ID: "other"}, now); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	p := training()
	p.down = true
	if _, err := newSource(p).Get(t.Context(), identity.Job{ID: "train"}, now); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("of a Prometheus that does not answer: %v", err)
	}
	if _, err := NewSource(nil, config.Default().Prometheus, nil, Exporters{}).Get(t.Context(), identity.Job{ID: "train"}, now); err == nil {
		t.Error("without Prometheus")
	}
}

// What stops answering in between is said, and the rest is shown.
func TestGetPartly(t *testing.T) {
	p := training()
	s := newSource(p)
	if _, err := s.Get(t.Context(), identity.Job{ID: "train"}, now); err != nil {
		t.Fatal(err)
	}
	p.down = true
	j, err := s.Get(t.Context(), identity.Job{ID: "train"}, now.Add(time.Minute))
	if err != nil || len(j.Ranks) != 16 || j.Ranks[0].State != "unseen" || len(j.Missing) == 0 {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestList(t *testing.T) {
	got, err := newSource(training()).List(t.Context())
	if want := []Listed{{identity.Job{ID: "train"}, 16}, {identity.Job{ID: "tune"}, 8}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFamily(t *testing.T) {
	for name, want := range map[string]string{"tp_0": "tp", "dp": "dp", "PIPELINE_GROUP": "PIPELINE_GROUP", "pp-12": "pp", "7": "7", "": ""} {
		if got := family(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// Two jobs with one id on different nodes are one job to Prometheus, of which some ranks are twice.
func TestClaimedTwice(t *testing.T) {
	p := training()
	for i := range p.answers {
		if p.answers[i].part == "culprit_nccl_process_up" {
			p.answers[i].v = model.Vector{
				sample(1, "rank", "0", "instance", "a"), sample(1, "rank", "0", "instance", "b"), sample(1, "rank", "10", "instance", "a"), sample(1, "rank", "10", "instance", "c"),
				sample(0, "rank", "1", "instance", "a"), sample(1, "rank", "1", "instance", "b"), // It has moved.
				sample(1, "rank", "2", "instance", "a"), sample(1, "rank", "2", "instance", "a", "replica", "2"),
				sample(1, "rank", "-1", "instance", "a"), sample(1, "rank", "-1", "instance", "b"),
			}
		}
	}
	j, err := newSource(p).Get(t.Context(), identity.Job{ID: "train"}, now)
	if err != nil || !slices.Equal(j.Claimed, []int{0, 10}) {
		t.Errorf("%v are claimed twice, %v", j.Claimed, err)
	}
}

// Trend asks for what the rules recorded of one job, by a selector that any server answers with samples.
func TestTrend(t *testing.T) {
	p := &prometheus{answers: []answer{}}
	s := newSource(p)
	if _, err := s.Trend(t.Context(), identity.Job{ID: "train"}, PerSecond, now.Add(-time.Minute), now); err == nil {
		t.Error("a vector was taken for a matrix")
	}
	m := matrix{&model.SampleStream{Values: []model.SamplePair{{Timestamp: 1000, Value: 2}, {Timestamp: 2000, Value: model.SampleValue(math.NaN())}}}}
	got, err := NewSource(&m, config.Default().Prometheus, nil, Exporters{}).Trend(t.Context(), identity.Job{ID: "train"}, Iteration, now.Add(-90*time.Second), now)
	if err != nil || len(got.Points) != 1 || got.Points[0].Value != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := NewSource(nil, config.Default().Prometheus, nil, Exporters{}).Trend(t.Context(), identity.Job{ID: "train"}, Iteration, now, now); err == nil {
		t.Error("without Prometheus")
	}
}

// matrix answers one query alone, that for the iterations of the last 90 s.
type matrix model.Matrix

func (m *matrix) Query(_ context.Context, query string, ts time.Time, _ ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	if want := `job_id:culprit_nccl_iteration_seconds:mean_short{job_id="train",job="",instance=""}[1m30s]`; query != want || !ts.Equal(now) {
		return nil, nil, nil, errors.New("asked for " + query)
	}
	return model.Matrix(*m), nil, nil, nil
}
