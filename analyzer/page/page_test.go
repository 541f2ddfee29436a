// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
)

var opened = time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)

// hung is an incident of so many ranks, eight to a host, in which one is to blame.
func hung(world, culprit int, state func(rank int) string) incident.Incident {
	inc := incident.Incident{
		Version: 1, ID: "abcdefghijkl", JobID: "train-7", State: incident.Open, OpenedAt: opened, UpdatedAt: opened.Add(time.Minute),
		Analyses: []incident.Analysis{{At: opened.Add(time.Minute), Nodes: world / 8, Asked: 3, Answered: 3, Bytes: 42_000_000}},
		Verdict: &rca.Verdict{
			Version: 1, Class: rca.Fault, Code: "H3", Cause: rca.CauseNetworkSend, Confidence: 0.95, Page: true, Summary: fmt.Sprintf("Rank %d does not send.", culprit),
			Action: "Check the NIC.", Comm: "dp", Op: "AllReduce #100", Stalled: world - 1, WorldSize: world,
			Culprits: []rca.Culprit{{Rank: culprit, Host: fmt.Sprintf("node-%d", culprit/8), GPU: "1", Channel: -1, Why: "does not deliver its data"}},
			Chain:    []rca.Link{{From: 7, To: culprit, Reason: "has not sent", Comm: "dp", Op: "AllReduce #100", Sure: true}},
			Waits: []rca.WaitGroup{
				{Ranks: []int{culprit}, Count: 1, Root: true, On: -1, Reason: "does not deliver its data", Op: "AllReduce #100", Comm: "dp", Comms: 1},
				{Ranks: []int{1, 2, 3}, Count: 3071, On: 0, Reason: "has not sent", Op: "AllReduce #100", Comm: "dp", Comms: 1, Sure: true},
				{Ranks: []int{8, 9}, Count: world - 3072, On: 1, Reason: "has not called the operation", Op: "Recv", Comms: 64},
			},
			Evidence: []string{"It stands still."},
		},
	}
	for r := range world {
		s := state(r)
		if r == culprit {
			s = "culprit"
		}
		inc.Ranks = append(inc.Ranks, incident.RankView{Rank: r, Host: fmt.Sprintf("node-%d", r/8), GPU: fmt.Sprint(r % 8), State: s, Text: fmt.Sprintf("no progress for %d ms", r)})
	}
	return inc
}

func render(t *testing.T, inc *incident.Incident, o Options) string {
	t.Helper()
	var b strings.Builder
	if o.Now.IsZero() {
		o.Now = opened.Add(3 * time.Minute)
	}
	if err := WriteIncident(&b, inc, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func compressed(t *testing.T, s string) int {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

// However many ranks a job has, and however unevenly they were asked, the page is small and has the culprit on top.
func TestPageOfManyRanks(t *testing.T) {
	uneven := func(rank int) string { return states[1+(rank*2654435761>>7)%(len(states)-1)].Name }
	for name, c := range map[string]struct {
		world int
		state func(int) string
	}{
		"10,240 alike":   {10240, func(int) string { return "unseen" }},
		"10,240 uneven":  {10240, uneven},
		"102,400 alike":  {102400, func(int) string { return "stuck" }},
		"102,400 uneven": {102400, uneven},
	} {
		inc := hung(c.world, c.world/2+5, c.state)
		html := render(t, &inc, Options{})
		if n := compressed(t, html); n > 60_000 || len(html) > 600_000 {
			t.Errorf("%s: %d bytes, compressed %d", name, len(html), n)
		}
		g := newGrid(inc.Ranks, nil)
		if len(g.Rows) > mostRows || !slices.ContainsFunc(g.Rows[0].Cells, func(c Cell) bool { return c.State == "culprit" }) {
			t.Errorf("%s: %d rows, first %+v", name, len(g.Rows), g.Rows[0])
		}
		shown := 0
		for _, l := range g.Legend {
			shown += l.Count
		}
		if shown != c.world {
			t.Errorf("%s: the legend counts %d ranks", name, shown)
		}
	}
}

// Rows that look alike are one, and the row says in words what its colours say.
func TestGridFolds(t *testing.T) {
	inc := hung(32, 5, func(rank int) string {
		if rank < 8 {
			return "stuck"
		}
		return "unseen"
	})
	g := newGrid(inc.Ranks, nil)
	if len(g.Rows) != 2 || g.Rows[1].Name != "3 hosts: node-1, node-2, node-3" || g.Rows[1].Text != "ranks 8–31: not asked" {
		t.Fatalf("rows are %+v", g.Rows)
	}
	if want := "rank 5: culprit (no progress for 5 ms); ranks 0–4, 6, 7: stuck (no progress for 0 ms, for one)"; g.Rows[0].Text != want {
		t.Errorf("%q, want %q", g.Rows[0].Text, want)
	}
}

// Ranks of which nobody knows the host do not make one row of thousands.
func TestGridWithoutHosts(t *testing.T) {
	var views []incident.RankView
	for r := range 1000 {
		views = append(views, incident.RankView{Rank: r, State: "idle"})
	}
	g := newGrid(views, nil)
	for _, r := range g.Rows {
		if len(r.Cells) > rowRanks {
			t.Errorf("a row of %d cells", len(r.Cells))
		}
	}
	if len(g.Rows) > 2 {
		t.Errorf("%d rows", len(g.Rows))
	}
}

// The drawing has every group, each below the one that it waits for, and nothing beyond its edges.
func TestGraph(t *testing.T) {
	inc := hung(10240, 5, func(int) string { return "unseen" })
	g := newGraph(inc.Verdict)
	if len(g.Boxes) != 3 || len(g.Arrows) != 2 || !g.Boxes[0].Root || g.Boxes[1].Head != "3,071 ranks wait here: 1–3 and 3,068 more" {
		t.Fatalf("%+v", g)
	}
	for i, b := range g.Boxes {
		if b.X < 0 || b.X+b.W > g.Width || b.Y+b.H > g.Height || i > 0 && b.Y <= g.Boxes[i-1].Y {
			t.Errorf("box %d is outside: %+v of %d x %d", i, b, g.Width, g.Height)
		}
	}
	if want := "Blocked on the ranks above: has not called the operation · Recv on 64 communicators · inferred"; g.Boxes[2].Text != want {
		t.Errorf("%q, want %q", g.Boxes[2].Text, want)
	}
	if newGraph(&rca.Verdict{}) != nil {
		t.Error("a graph of nobody")
	}
}

// A file may hold a graph that no engine makes: it neither loops nor loses a group.
func TestGraphOfRubbish(t *testing.T) {
	v := rca.Verdict{Waits: []rca.WaitGroup{{On: 0, Count: 1}, {On: 7, Count: -3}, {On: -9}, {On: 2}}}
	if g := newGraph(&v); len(g.Boxes) != 4 {
		t.Errorf("%+v", g)
	}
}

// Whatever a job, a host or a process is called stays text.
func TestHostileNamesStayText(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	inc := hung(16, 5, func(int) string { return evil })
	inc.JobID = evil
	inc.Verdict.Summary, inc.Verdict.Action, inc.Verdict.Op, inc.Verdict.Comm = evil, evil, evil, evil
	inc.Verdict.Culprits[0].Host = "$(reboot)"
	inc.Verdict.Waits[0].Reason, inc.Verdict.Chain[0].Reason = evil, evil
	inc.Ranks[0].Host, inc.Ranks[0].Text = evil, evil
	inc.Triggers = []incident.Trigger{{Name: evil, Summary: evil, Comm: evil}}
	inc.Stacks = []incident.StackGroup{{Ranks: []int{1}, Frames: []string{evil}}}
	html := render(t, &inc, Options{Links: []Link{{Text: evil, URL: "javascript:alert(1)"}}, Warning: evil, Similar: []incident.Incident{inc}})
	for _, not := range []string{"<script>", "<img", "href=\"javascript:", "scontrol", "kubectl"} {
		if strings.Contains(html, not) {
			t.Errorf("%q is in the page", not)
		}
	}
	var b strings.Builder
	f := ParseFilter(url.Values{"q": {evil}, "host": {evil}, "class": {evil}, "page": {"99999999999999999999"}})
	if err := WriteIndex(&b, []incident.Incident{inc, inc}, f, Options{Now: opened}); err != nil || strings.Contains(b.String(), "<script>") || strings.Contains(b.String(), "<img") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// The policy lets the pages' own style through, whichever page it is.
func TestPolicyIsOfTheStyle(t *testing.T) {
	inc := hung(8, 5, func(int) string { return "stuck" })
	_, style, _ := strings.Cut(render(t, &inc, Options{}), "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(Policy, want) || strings.Contains(Policy, "unsafe") {
		t.Errorf("%s does not hold %s", Policy, want)
	}
}

// A page of its own needs nothing else.
func TestPageAlone(t *testing.T) {
	inc := hung(8, 5, func(int) string { return "stuck" })
	html := render(t, &inc, Options{Alone: true, Title: "Analysis of files", More: []Section{{Title: "Sources", Items: []string{"a file"}}}})
	for _, not := range []string{"<script", "href=", "data-events", "open for"} {
		if strings.Contains(html, not) {
			t.Errorf("%q is in the page", not)
		}
	}
	for _, want := range []string{"<span>Analysis of files</span>", ">node-0 · GPU 1</h1>", "<h2>Sources</h2>", "7 of 8 ranks are stuck."} {
		if !strings.Contains(html, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

// Advice takes a machine out of service where a machine is bad, and nowhere else.
func TestAdvice(t *testing.T) {
	v := rca.Verdict{Cause: rca.CauseGPU, Action: "Check the GPU.", Culprits: []rca.Culprit{{Rank: 5, Host: "Node-2"}, {Rank: 6, Host: "Node-2"}}}
	got := advice(&v, nil)
	if len(got) != 1 || len(got[0].Commands) != 2 || got[0].Commands[1] != "kubectl cordon node-2" || !strings.Contains(got[0].Commands[0], "NodeName=Node-2 State=DRAIN") {
		t.Errorf("%+v", got)
	}
	for scheduler, want := range map[string]string{incident.Slurm: "scontrol", incident.Kubernetes: "kubectl"} {
		if got := advice(&v, &incident.Workload{Scheduler: scheduler}); len(got[0].Commands) != 1 || !strings.HasPrefix(got[0].Commands[0], want) {
			t.Errorf("%s: %+v", scheduler, got)
		}
	}
	v.Cause, v.Action, v.Culprits[0].PID = rca.CauseNotCalled, "Take its stack (py-spy dump --pid PID).", 17
	if got := advice(&v, nil); len(got) != 2 || len(got[0].Commands) != 0 || got[0].Do != "Take its stack (py-spy dump --pid 17)." {
		t.Errorf("%+v", got)
	}
	if got := advice(&rca.Verdict{Action: "Wait."}, nil); len(got) != 1 || got[0].Do != "Wait." {
		t.Errorf("%+v", got)
	}
}

func TestIndex(t *testing.T) {
	var all []incident.Incident
	for i := range 120 {
		inc := hung(8, i%8, func(int) string { return "stuck" })
		inc.ID, inc.JobID, inc.Ranks = fmt.Sprintf("incident%04d", i), fmt.Sprintf("job-%d", i), nil
		inc.Verdict.Culprits[0].Host = fmt.Sprintf("node-%d", i%3)
		inc.Triggers = []incident.Trigger{{Name: "CulpritJobStalled", Labels: map[string]string{"namespace": "shared", "team": fmt.Sprintf("team-%d", i%4)}}}
		if i%2 == 1 {
			end := opened.Add(time.Hour)
			inc.State, inc.ResolvedAt = incident.Resolved, &end
		}
		all = append(all, inc)
	}
	for _, c := range []struct {
		query    string
		has, not []string
	}{
		{"", []string{"Incidents 1 to 50 of 120.", "?page=2", "node-0</a>", "40 incidents", "open for", "lasted"}, []string{`rel="prev"`}},
		{"page=3", []string{"Incidents 101 to 120 of 120.", "?page=2"}, []string{`rel="next"`}},
		{"page=99", []string{"Incidents 101 to 120 of 120."}, nil},
		{"q=job-77", []string{"1 incident."}, []string{"job-78<"}},
		{"q=JOB-7+node-1", []string{"job-7<", "job-70<"}, []string{"job-8<"}},
		{"host=node-2&state=open", []string{"20 incidents.", `value="node-2"`}, nil},
		{"", []string{"By class", "By team", `href="?team=team-3"`, "30 incidents", `href="?class=fault"`, "120 incidents", `href="job?id=job-8"`}, []string{"?team=shared", `href="job?id=job-9"`}},
		{"team=team-1", []string{"30 incidents.", `value="team-1"`}, []string{"job-8<"}},
		{"class=benign", []string{"No incident matches."}, nil},
	} {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := WriteIndex(&b, all, ParseFilter(q), Options{Now: opened.Add(2 * time.Hour)}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.has {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%q: %q is not in the page", c.query, want)
			}
		}
		for _, not := range c.not {
			if strings.Contains(b.String(), not) {
				t.Errorf("%q: %q is in the page", c.query, not)
			}
		}
	}
}

// Look-ups that paged nobody are hidden until somebody asks for them; an analysis under way may still page.
func TestIndexHidesTheQuiet(t *testing.T) {
	loud, slow, quiet, fresh := hung(8, 5, func(int) string { return "stuck" }), hung(8, 5, func(int) string { return "moving" }), hung(8, 5, func(int) string { return "idle" }), hung(8, 5, func(int) string { return "idle" })
	loud.JobID, slow.JobID, quiet.JobID, fresh.JobID = "job-loud", "job-slow", "job-quiet", "job-new"
	slow.Verdict.Class = rca.SlowCompute
	quiet.Verdict.Class, quiet.Verdict.Page = rca.Healthy, false
	fresh.Verdict = nil
	all := []incident.Incident{loud, slow, quiet, fresh}
	for query, want := range map[string][]string{
		"": {"job-loud", "job-slow", "job-new"}, "severity=critical": {"job-loud"}, "severity=warning": {"job-slow"}, "severity=none": {"job-quiet", "job-new"},
		"severity=all": {"job-loud", "job-slow", "job-quiet", "job-new"},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := WriteIndex(&b, all, ParseFilter(q), Options{Now: opened}); err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if id := all[i].JobID; strings.Contains(b.String(), id) != slices.Contains(want, id) {
				t.Errorf("%q: %s is shown: %t", query, id, !slices.Contains(want, id))
			}
		}
		if hidden := strings.Contains(b.String(), `<a href="?severity=all">1 more incident</a> paged nobody.`); hidden != (query == "") {
			t.Errorf("%q: it says that one is hidden: %t", query, hidden)
		}
	}
}

func TestSimilar(t *testing.T) {
	var all []incident.Incident
	for i := range 4 {
		inc := hung(8, 5, func(int) string { return "stuck" })
		inc.ID, inc.OpenedAt = fmt.Sprint(i), opened.Add(time.Duration(i)*time.Hour)
		all = append(all, inc)
	}
	all[1].Verdict.Culprits[0].Host = "elsewhere"
	got := Similar(&all[0], all)
	if len(got) != 2 || got[0].ID != "3" || got[1].ID != "2" {
		t.Errorf("%+v", got)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{count(0), "0"},
		{count(999), "999"},
		{count(10240), "10,240"},
		{count(-1234567), "-1,234,567"},
		{size(0), "0 B"},
		{size(999), "999 B"},
		{size(12345), "12 kB"},
		{size(1500), "1.5 kB"},
		{size(42_000_000), "42 MB"},
		{size(999_999), "1.0 MB"},
		{size(1 << 62), "4611686 TB"},
		{seconds(0.2501), "250 ms"},
		{seconds(1.25), "1.3 s"},
		{seconds(90), "90 s"},
		{list([]int{3, 1, 2, 9, 11, 12}, 0), "1–3, 9, 11, 12"},
		{named([]int{5}, 1), "rank 5"},
		{named(nil, 1200), "1,200 ranks"},
		{list([]int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}, 0), "1, 3, 5, 7, 9, 11, 13, 15 and 2 more"},
		{cut("abcdef", 4), "abc…"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// What was weighed is a table: what decided, and who is to blame only where the verdict says so.
func TestHypotheses(t *testing.T) {
	v := &rca.Verdict{Class: rca.Fault, Hypotheses: []rca.Hypothesis{
		{Ranks: []int{5}, Class: rca.Fault, Cause: rca.CauseGPU, Weight: 0.93, Explains: 3071, Chosen: true, Reason: "Has a GPU that stopped"},
		{Group: "dp", Class: rca.Unknown, Cause: rca.CauseUnknown, Weight: 0.3, Reason: "It explains nobody"},
	}}
	h := newHypotheses(v)
	if want := (hypothesis{"Rank 5", "fault, gpu", "0.93", "3,071", "to blame", "Has a GPU that stopped", true}); h.Rows[0] != want || h.Rows[1].Who != "dp" || h.Rows[1].Outcome != "set aside" {
		t.Errorf("%+v", h)
	}
	v.Class = rca.Unknown
	if h := newHypotheses(v); h.Rows[0].Outcome != "suspected" {
		t.Errorf("%+v", h)
	}
	v.Class, v.Hypotheses = rca.SlowCompute, []rca.Hypothesis{{Ranks: []int{5}, Saves: 0.37, Chosen: true}}
	if h := newHypotheses(v); h.Rows[0].Effect != "−37%" || h.Effect != "Change of an iteration without it" {
		t.Errorf("%+v", h)
	}
	if newHypotheses(&rca.Verdict{}) != nil {
		t.Error("a table of nothing")
	}
}

// Nobody is both accused and cleared, and nobody without a name is cleared.
func TestConsidered(t *testing.T) {
	v := &rca.Verdict{
		Culprits: []rca.Culprit{{Rank: 5}, {Rank: -1, Group: "stage 3"}},
		RuledOut: []rca.Candidate{{Rank: 5, Reason: "accused"}, {Rank: -1, Reason: "nobody"}, {Rank: -1, Group: "stage 3"}, {Rank: 7, Reason: "it waits"}, {Rank: -1, Group: "rail 2", Reason: "fast"}},
	}
	if got := considered(v); !slices.Equal(got, []cleared{{"rank 7", "it waits"}, {"rail 2", "fast"}}) {
		t.Errorf("%+v", got)
	}
}

// Ranks that stand at the same line have the same letter, and do not fold into those that stand elsewhere.
func TestGridMarksStacks(t *testing.T) {
	inc := hung(32, 5, func(int) string { return "stuck" })
	inc.Stacks = []incident.StackGroup{{Ranks: []int{5, 16}, Frames: []string{"main (a.py:1)"}}, {Ranks: []int{17}, Frames: []string{"main (a.py:2)"}}}
	g := newGrid(inc.Ranks, stackMarks(inc.Stacks))
	if len(g.Rows) != 3 || g.Rows[0].Cells[5].Label != "5 A" || g.Rows[0].Cells[4].Label != "4" {
		t.Fatalf("%+v", g.Rows)
	}
	for _, r := range g.Rows {
		if r.Name == "node-2" && (r.Cells[0].Label != "16 A" || r.Cells[1].Label != "17 B") {
			t.Errorf("%+v", r.Cells)
		}
	}
	html := render(t, &inc, Options{})
	if !strings.Contains(html, "Stack B: rank 17") || !strings.Contains(html, "A letter beside a rank") {
		t.Error("the letters are not explained")
	}
}
