// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder/frtest"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/offline/report"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// harm is a way to spoil a directory of dumps.
type harm struct {
	name  string
	ranks []int // Whose dumps suffer; nil everybody's, but what they say stays whole.
	do    func(t *testing.T, dir string)
}

// harms lists what happens to dumps on their way: each rank's lost, each cut off at several places, names that say
// nothing, and names that lie.
func harms(world int) []harm {
	var out []harm
	for r := range world {
		out = append(out, harm{fmt.Sprintf("without rank %d", r), []int{r}, func(t *testing.T, dir string) {
			if err := os.Remove(dumpFile(dir, r)); err != nil {
				t.Fatal(err)
			}
		}})
		for _, percent := range []int{5, 50, 95} {
			out = append(out, harm{fmt.Sprintf("rank %d cut at %d%%", r, percent), []int{r}, func(t *testing.T, dir string) {
				info, err := os.Stat(dumpFile(dir, r))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(dumpFile(dir, r), info.Size()*int64(percent)/100); err != nil {
					t.Fatal(err)
				}
			}})
		}
	}
	rename := func(name func(place int) string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			random := rand.New(rand.NewPCG(1, 2))
			for r, place := range random.Perm(world) {
				if err := os.Rename(dumpFile(dir, r), filepath.Join(dir, "moving-"+fmt.Sprint(place))); err != nil {
					t.Fatal(err)
				}
			}
			for place := range world {
				if err := os.Rename(filepath.Join(dir, "moving-"+fmt.Sprint(place)), filepath.Join(dir, name(place))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return append(out,
		harm{"names without numbers", nil, rename(func(place int) string { return "dump-" + string(rune('a'+place)) })},
		harm{"names of other ranks", nil, rename(func(place int) string { return fmt.Sprintf("nccl_trace_rank_%d", place) })},
	)
}

// A degraded copy keeps the verdict or weakens it: nobody innocent is ever accused, a culprit that is no longer accused
// is named as a suspect or its file as incomplete, and what happens to the files of others changes nothing.
func TestDegradedCopies(t *testing.T) {
	for _, job := range []struct {
		name string
		make func() *frtest.Job
	}{
		{"host side", moe},
		{"device side", func() *frtest.Job {
			j := frtest.Training(frtest.Layout{TP: 4, DP: 2, PP: 2, Steps: 6, Creation: 30})
			j.HangGPU = map[int]int{9: j.CallIndex(9, "_all_gather_base", 4), 14: j.CallIndex(14, "_all_gather_base", 4)}
			return j
		}},
	} {
		guilty := []int{9, 14}
		for _, h := range harms(16) {
			t.Run(job.name+"/"+h.name, func(t *testing.T) {
				dir := write(t, job.make())
				h.do(t, dir)
				r := analyze(t, dir)
				got := diagnosis.Accused(r.Verdict)
				if r.Verdict.Class == rca.Unknown {
					got = nil
				}
				for _, a := range got {
					if !slices.Contains(guilty, a) {
						t.Errorf("accuses %v: %s", got, r.Verdict.Summary)
					}
				}
				for _, g := range guilty {
					named := slices.Contains(got, g)
					suspected := slices.ContainsFunc(report.Suspects(r), func(s string) bool { return strings.HasPrefix(s, fmt.Sprintf("rank %d ", g)) })
					cut := slices.ContainsFunc(r.Files, func(f load.File) bool { return f.Path == dumpFile(dir, g) && f.Warning != "" })
					switch {
					case named, slices.Contains(h.ranks, g) && cut, slices.Contains(h.ranks, g) && suspected:
					case !slices.Contains(h.ranks, g):
						t.Errorf("rank %d is no longer accused: %s", g, r.Verdict.Summary)
					default:
						t.Errorf("rank %d is neither accused nor suspected: %s, %q", g, r.Verdict.Summary, report.Suspects(r))
					}
				}
			})
		}
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/clocks %d", job.name, seed), func(t *testing.T) {
				j := job.make()
				random := rand.New(rand.NewPCG(seed, 7))
				off := make([]int64, 16)
				for i := range off {
					off[i] = random.Int64N(10_000_001) - 5_000_000
				}
				j.Clock = func(rank int) int64 { return off[rank] }
				if got := diagnosis.Accused(analyze(t, write(t, j)).Verdict); !slices.Equal(got, guilty) {
					t.Errorf("accuses %v", got)
				}
			})
		}
	}
}
