// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/observe"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// Recorded are incidents of jobs on the real NCCL library and on a real GPU.
func Recorded(t *testing.T) map[string]*kept.Record {
	t.Helper()
	out := map[string]*kept.Record{}
	for _, set := range []string{"nccl", "gpu"} {
		files, err := filepath.Glob(filepath.Join("../../offline/testdata", set, "*.tar.gz"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no incidents in %s: %v", set, err)
		}
		for _, path := range files {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			r, err := kept.Read(f)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			out[filepath.Base(path)] = r
		}
	}
	return out
}

// worlds are those of recorded incidents and of a larger job, in which nothing is wrong.
func worlds(t *testing.T) map[string]*World {
	t.Helper()
	out := map[string]*World{}
	for name, r := range Recorded(t) {
		out[name] = newWorld(observe.Read(r.Evidence, r.Options))
	}
	ev, _ := rcatest.BigHang(128)
	out["large"] = newWorld(observe.Read(ev, rca.Options{}))
	return out
}

// terms lists all terms of a world.
func terms(w *World) (out []Term) {
	w.each(func(t Term) { out = append(out, t) })
	return out
}

// A fault that is put in and taken out leaves nothing behind, and what a world becomes does not depend on the way to it.
func TestPush(t *testing.T) {
	for name, w := range worlds(t) {
		all := candidates(w)
		if len(all) == 0 {
			continue
		}
		nothing, score := terms(w), w.score()
		step := max(1, len(all)/8)
		for i := 0; i < len(all); i += step {
			for k := 0; k < len(all); k += step {
				w.become([]Fault{all[i], all[k]})
				there := w.score()
				straight := newWorld(w.Job)
				straight.become([]Fault{all[k]})
				straight.push(all[i])
				if !slices.Equal(terms(w), terms(straight)) || there != straight.score() {
					t.Fatalf("%s: %s and %s: %+v, the other way round %+v", name, describe(w.Job, all[i]), describe(w.Job, all[k]), there, straight.score())
				}
				sum := 0.0
				for _, x := range terms(w) {
					sum += x.Nats
				}
				if sum != there.nats {
					t.Fatalf("%s: %s and %s: the terms add up to %v, the score is %v", name, describe(w.Job, all[i]), describe(w.Job, all[k]), sum, there.nats)
				}
				w.become(nil)
				if !slices.Equal(terms(w), nothing) || w.score() != score {
					t.Fatalf("%s: %s and %s are taken out, and the world is not as it was", name, describe(w.Job, all[i]), describe(w.Job, all[k]))
				}
			}
		}
	}
}

// The world in which the truth is wrong, and nothing else, predicts all that a large job shows: a ring that is jammed up to the one that did
// not enter, and everybody behind it.
func TestTruthExplains(t *testing.T) {
	ev, culprit := rcatest.BigHang(128)
	w := newWorld(observe.Read(ev, rca.Options{}))
	w.become([]Fault{{Absent, w.Index.NodeOf(culprit), -1}})
	n := 0
	for _, x := range terms(w) {
		if x.Seen == observe.NotCalled { // A program may wait for an operation before it calls the next one.
			continue
		}
		if n++; x.Nats < likely*float64(x.Of)-fine {
			t.Errorf("%s: %s%s is worth %.2f", w.Index.RankName(x.Node), name(&x), where(w.Job, &x), x.Nats)
		}
	}
	if n < 50 {
		t.Errorf("%d terms, want 50", n)
	}
}

// Data that came before a NIC died stays where no kernel takes it. Where a kernel runs, it is taken.
func TestLeftovers(t *testing.T) {
	op := &observe.Operation{}
	for to, want := range map[way]float64{runs: wrong, waits: possible, frozen: possible} {
		if got := receives(runs, to, wire, op).grade(observe.Unconsumed); got != want {
			t.Errorf("of a receiver that does %d, data that is not taken is worth %.1f, want %.1f", to, got, want)
		}
	}
}
