// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

func TestSameHost(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"gpu-7", "gpu-7", true},
		{"gpu-7", "GPU-7", true},
		{"gpu-7", "gpu-7.rack1.example.org", true},
		{"gpu-7.", "gpu-7", true},
		{"gpu-7", "gpu-70", false},
		{"gpu-7.rack1", "gpu-7.rack2", false},
		{"gpu-7.rack1", "GPU-7.rack1", true},
	} {
		if sameHost(tc.a, tc.b) != tc.same || sameHost(tc.b, tc.a) != tc.same {
			t.Errorf("%s and %s: want the same: %v", tc.a, tc.b, tc.same)
		}
	}
}

func TestBoundHost(t *testing.T) {
	for _, tc := range []struct{ value, instance, want string }{
		{"gpu-7:9850", "", "gpu-7"}, {"gpu-7", "", "gpu-7"}, {"", "gpu-7:9850", "gpu-7"}, {"[fd00::7]:9850", "", "fd00::7"}, {"", "", ""},
	} {
		if got := boundHost(tc.value, tc.instance); got != tc.want {
			t.Errorf("%q at %q is %q, want %q", tc.value, tc.instance, got, tc.want)
		}
	}
}

// A compromised exporter, or several, say that they run on host a, to Prometheus or to the analyzer alone. No rank is called by a name that
// two exporters have, and none is left out: each is called by its exporter's address.
func TestClaimedHosts(t *testing.T) {
	shows := func(host, instance string) *model.Sample { return series("host", host, "instance", instance) }
	for _, tc := range []struct {
		name   string
		claims func(a, evil string) model.Vector // What exporters of several instances call their hosts.
		told   string                            // What the compromised exporter calls its host in its series
		said   string                            // and in its answers to the analyzer.
		ours   bool                              // Host a is called by its name;
		theirs string                            // the compromised exporter's, by this name; empty: by its address.
	}{
		{"nobody lies", nil, "evil", "evil", true, "evil"},
		{"the name of a host of the job", func(a, evil string) model.Vector { return model.Vector{shows("a", a), shows("a", evil)} }, "a", "a", false, ""},
		{"the name of another host", func(_, evil string) model.Vector {
			return model.Vector{shows("other", "other:9850"), shows("other", evil)}
		}, "other", "other", true, ""},
		{"the name with a domain", func(a, evil string) model.Vector { return model.Vector{shows("a", a), shows("a.example.org", evil)} }, "a.example.org", "a", false, ""},
		{"the name in capitals", func(_, evil string) model.Vector { return model.Vector{shows("B", evil), shows("b", "other:9850")} }, "B", "B", true, ""},
		{"several liars", func(a, evil string) model.Vector {
			return model.Vector{shows("a", a), shows("a", evil), shows("a", "worse:9850")}
		}, "a", "a", false, ""},
		{"to the analyzer alone", nil, "evil", "a", true, "evil"},
		{"in its processes' series alone", func(a, evil string) model.Vector {
			return model.Vector{shows("a", a), shows("a", evil), shows("evil", evil)}
		}, "a", "a", false, ""},
		{"a name that looks like another's", nil, "\u0430", "a", true, ""}, // A letter of another alphabet.
		{"a name with a space", nil, "a ", "a", true, ""},
		{"the address of another exporter", func(_, _ string) model.Vector { return model.Vector{shows("gpu-7", "gpu-7:9850")} }, "gpu-7", "gpu-7", true, ""},
		{"the host is down", func(_, evil string) model.Vector {
			return model.Vector{shows("down", evil), shows("down", "down:9850")} // By what that one said last.
		}, "down", "down", true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRack(t)
			r.add(t, 0, "a", serve(stateOf("a", rankProcess(0, "a"))))
			r.add(t, 1, "evil", serve(stateOf(tc.said, rankProcess(1, tc.said))))
			r.live[1].Metric["host"] = model.LabelValue(tc.told)
			a, evil := string(r.live[0].Metric["instance"]), string(r.live[1].Metric["instance"])
			if tc.claims != nil {
				r.prom.twice = tc.claims(a, evil)
			}
			s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Ask(t.Context(), s.AllNodes())
			ev := s.Evidence()
			want := []string{"a", tc.theirs}
			if !tc.ours {
				want[0] = a
			}
			if tc.theirs == "" {
				want[1] = evil
			}
			var got []string
			for i := range ev.Ranks {
				p, _ := s.Process(ev.Ranks[i].ID)
				if got = append(got, ev.Ranks[i].Host); p.Host != ev.Ranks[i].Host {
					t.Errorf("rank %d is on %s by its exporter and on %s by Prometheus", ev.Ranks[i].ID, ev.Ranks[i].Host, p.Host)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the ranks are on %v, want %v", got, want)
			}
			claims := strings.Join(Conflicts(&ev), "; ")
			if told := strings.Contains(claims, evil); told != (tc.theirs == "") {
				t.Errorf("missing is %q", claims)
			}
		})
	}
}

// With exporters.host_label nothing that an exporter says of its host is used.
func TestHostLabel(t *testing.T) {
	r := newRack(t)
	r.Directory.cfg.HostLabel = "node"
	r.add(t, 0, "a", serve(stateOf("a", rankProcess(0, "a"))))
	r.add(t, 1, "evil", serve(stateOf("a", rankProcess(1, "a"))))
	r.live[0].Metric["node"], r.live[1].Metric["node"], r.live[1].Metric["host"] = "a", "evil:9850", "a"
	s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Ask(t.Context(), s.AllNodes())
	ev := s.Evidence()
	if len(ev.Ranks) != 2 || ev.Ranks[0].Host != "a" || ev.Ranks[1].Host != "evil" || len(ev.Missing) > 0 {
		t.Errorf("the ranks are %+v, missing is %+v", ev.Ranks, ev.Missing)
	}
	if slices.ContainsFunc(r.prom.asked, func(q string) bool { return strings.Contains(q, "build_info") }) {
		t.Error("it asks what exporters call their hosts")
	}
}

// Prometheus has nothing that names the host of an exporter, but for the address: the exporter shows triggers alone, or processes without
// a host. What it calls its host when it is asked counts only where the address says the same.
func TestHostsThatPrometheusLacks(t *testing.T) {
	for _, tc := range []struct {
		name, told string
		trigger    bool // Only a trigger leads to the exporter.
		want       string
	}{
		{"a trigger alone", "a", true, ""},
		{"no host in its series", "a", false, ""},
		{"the host of its address", "127.0.0.1", true, "127.0.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRack(t)
			state := stateOf(tc.told, rankProcess(0, tc.told))
			state.Facts = []nodeapi.Fact{{Component: "nic", Kind: "port_down", Rank: -1}}
			r.add(t, 0, "", serve(state))
			at := string(r.live[0].Metric["instance"])
			var hints []Hint
			if tc.trigger {
				r.prom.answers = map[string]model.Value{}
				r.Exporters.Instances, hints = []string{at}, []Hint{{Rank: 0, Instance: at}}
			}
			s, err := r.Open(t.Context(), identity.Job{ID: "job"}, hints)
			if err != nil {
				t.Fatal(err)
			}
			s.Ask(t.Context(), s.AllNodes())
			ev := s.Evidence()
			if tc.want == "" {
				tc.want = at
			}
			if len(ev.Ranks) != 1 || ev.Ranks[0].Host != tc.want || len(ev.Facts) != 1 || ev.Facts[0].Host != tc.want {
				t.Errorf("ranks are %+v, facts are %+v, want host %s", ev.Ranks, ev.Facts, tc.want)
			}
		})
	}
}

// The queries for the claimed names read what exporters say of themselves and of the job's processes.
func TestClaimsAreRead(t *testing.T) {
	r := newRack(t)
	if _, err := r.Directory.ClaimedHosts(t.Context(), identity.Job{ID: "job"}); err != nil {
		t.Fatal(err)
	}
	for _, q := range r.prom.asked {
		for _, part := range []string{"culprit_exporter_build_info{", `culprit_nccl_process_info{`, `job_id="job"`, `job="culprit-exporter"`} {
			if !strings.Contains(q, part) {
				t.Errorf("%s does not have %s", q, part)
			}
		}
	}
}
