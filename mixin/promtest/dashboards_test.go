// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type target struct {
	RefID      string     `json:"refId"`
	Expr       string     `json:"expr"`
	Datasource datasource `json:"datasource"`
}

type panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Datasource  datasource `json:"datasource"`
	Targets     []target   `json:"targets"`
	Panels      []panel    `json:"panels"`
	Collapsed   bool       `json:"collapsed"`
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

type board struct {
	file         string
	raw          string
	ID           *int    `json:"id"`
	UID          string  `json:"uid"`
	Title        string  `json:"title"`
	Description  string  `json:"description"`
	GraphTooltip int     `json:"graphTooltip"`
	Editable     bool    `json:"editable"`
	Panels       []panel `json:"panels"`
	Templating   struct {
		List []struct {
			Name        string     `json:"name"`
			Type        string     `json:"type"`
			Definition  string     `json:"definition"`
			Description string     `json:"description"`
			Datasource  datasource `json:"datasource"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []target `json:"list"`
	} `json:"annotations"`
}

// clusterBoards renders the dashboards for jobs that are told apart by cluster and id.
func clusterBoards(t *testing.T) []board {
	t.Helper()
	out, err := exec.Command(filepath.Join(root, "bin", "tools", "jsonnet"), "-e",
		`((import "`+filepath.Join(root, "mixin", "mixin.libsonnet")+`") + { _config+:: { jobLabels: ["cluster", "job_id", "owner"] } }).grafanaDashboards`).Output()
	if err != nil {
		t.Fatalf("rendering the dashboards (go run ./tools/ci get jsonnet makes what it takes): %v", err)
	}
	var rendered map[string]json.RawMessage
	if err := json.Unmarshal(out, &rendered); err != nil {
		t.Fatal(err)
	}
	var list []board
	for file, raw := range rendered {
		b := board{file: file, raw: string(raw)}
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, b)
	}
	return list
}

// valuesOf gives the expression that the values of a variable come from.
func valuesOf(definition, name string) string {
	if expr, ok := strings.CutPrefix(definition, "query_result("); ok {
		return strings.TrimSuffix(expr, ")")
	}
	return strings.TrimSuffix(strings.TrimPrefix(definition, "label_values("), ", "+name+")")
}

// TestClusterVariable: where jobs are told apart by cluster, every dashboard has a variable for it, every query selects it, and every link
// keeps it. Without, nothing speaks of it.
func TestClusterVariable(t *testing.T) {
	for _, b := range boards(t) {
		if strings.Contains(b.raw, "$cluster") || strings.Contains(b.raw, "${cluster") || b.variables()["cluster"] {
			t.Errorf("%s: cluster is in what is rendered without it", b.file)
		}
	}
	found := clusterBoards(t)
	if want := len(boards(t)); len(found) != want {
		t.Errorf("%d dashboards, want %d", len(found), want)
	}
	for _, b := range found {
		t.Run(b.file, func(t *testing.T) {
			list := b.Templating.List
			if list[1].Name != "cluster" || list[1].Definition != "label_values(culprit_nccl_process_info, cluster)" {
				t.Errorf("the second variable is %+v", list[1])
			}
			selects := func(text string) {
				expr, err := Parse(text)
				if err != nil {
					t.Error(err)
					return
				}
				parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
					v, ok := node.(*parser.VectorSelector)
					if !ok {
						return nil
					}
					has, own := false, strings.HasPrefix(v.Name, "culprit_analyzer_")
					for _, m := range v.LabelMatchers {
						has = has || m.String() == `cluster=~"$cluster"`
						own = own || m.String() == `job="culprit-analyzer"`
					}
					if has == own {
						t.Errorf("%s in %s selects the cluster: %v", v, text, has)
					}
					return nil
				})
			}
			for _, v := range list[2:] {
				if v.Type == "query" {
					selects(valuesOf(v.Definition, v.Name))
				}
			}
			for _, a := range b.Annotations.List {
				selects(a.Expr)
			}
			for _, p := range b.allPanels() {
				for _, target := range p.Targets {
					selects(target.Expr)
				}
			}
			for _, link := range regexp.MustCompile(`"(/d/|\$\{analyzer\}/job\?)[^"]*`).FindAllString(b.raw, -1) {
				if !strings.Contains(link, "${cluster:") {
					t.Errorf("%s leaves the cluster", link)
				}
			}
		})
	}
}

func boards(t *testing.T) []board {
	t.Helper()
	var out []board
	for _, path := range files(t, "dashboards/*.json") {
		b := board{file: filepath.Base(path), raw: read(t, path)}
		if err := json.Unmarshal([]byte(b.raw), &b); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, b)
	}
	return out
}

// everything is the panels, the rows, and the panels inside rows.
func (b board) everything() []panel {
	var out []panel
	for _, p := range b.Panels {
		out = append(append(out, p), p.Panels...)
	}
	return out
}

// allPanels is everything without the rows.
func (b board) allPanels() []panel {
	return slices.DeleteFunc(b.everything(), func(p panel) bool { return p.Type == "row" })
}

func (b board) variables() map[string]bool {
	out := map[string]bool{}
	for _, v := range b.Templating.List {
		out[v.Name] = true
	}
	return out
}

func TestDashboards(t *testing.T) {
	names := catalogue(t)
	uids := map[string]string{}
	for _, b := range boards(t) {
		t.Run(b.file, func(t *testing.T) {
			if b.UID == "" || len(b.UID) > 40 {
				t.Errorf("uid is %q", b.UID)
			}
			if other, taken := uids[b.UID]; taken {
				t.Errorf("uid %q is that of %s, too", b.UID, other)
			}
			uids[b.UID] = b.file
			if b.ID != nil || strings.Contains(b.raw, "__inputs") {
				t.Error("the dashboard was exported, not made to be provisioned")
			}
			if b.Title == "" || b.Description == "" || b.Editable || b.GraphTooltip != 1 {
				t.Error("title, description, shared crosshair or read-only are not as they should be")
			}
			if !b.variables()["datasource"] {
				t.Error("there is no variable for the data source")
			}
			for _, v := range b.Templating.List {
				if v.Type == "query" && (v.Description == "" || v.Datasource.UID != "${datasource}") {
					t.Errorf("variable %s lacks a description or $datasource", v.Name)
				}
				if v.Type == "query" {
					checkExpr(t, "variable "+v.Name, valuesOf(v.Definition, v.Name), names)
				}
			}
			for _, a := range b.Annotations.List {
				if a.Datasource.UID != "${datasource}" {
					t.Errorf("annotation %q does not use $datasource", a.Expr)
				}
				checkExpr(t, "annotation", a.Expr, names)
			}
			if len(b.Annotations.List) == 0 {
				t.Error("no alerts as annotations")
			}
			checkVariablesExist(t, b)
			checkIDs(t, b)
		})
		for _, p := range b.allPanels() {
			t.Run(b.file+"/"+p.Title, func(t *testing.T) { checkPanel(t, p, names) })
		}
	}
}

func checkExpr(t *testing.T, what, text string, names Catalogue) {
	t.Helper()
	expr, err := Parse(text)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, missing := range Undocumented(expr, names) {
		t.Errorf("%s: %s is not in docs/metrics.md and no rule records it", what, missing)
	}
	if AveragesRanks(expr) {
		t.Errorf("%s: %q averages, which hides the one rank that matters", what, text)
	}
}

func checkPanel(t *testing.T, p panel, names Catalogue) {
	t.Helper()
	if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
		t.Error("title, description or unit is missing")
	}
	if p.Datasource.UID != "${datasource}" {
		t.Error("the panel does not use $datasource")
	}
	if len(p.Targets) == 0 {
		t.Error("the panel asks nothing")
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if target.RefID == "" || refs[target.RefID] {
			t.Errorf("refId %q is empty or taken", target.RefID)
		}
		refs[target.RefID] = true
		if target.Datasource.Type != "prometheus" || target.Datasource.UID != "${datasource}" {
			t.Errorf("query %s does not use $datasource", target.RefID)
		}
		checkExpr(t, "query "+target.RefID, target.Expr, names)
	}
}

// checkIDs checks that ids are unique and that no two panels lie on each other.
func checkIDs(t *testing.T, b board) {
	t.Helper()
	ids := map[int]bool{}
	for _, p := range b.everything() {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("the id of panel %q is 0 or taken", p.Title)
		}
		ids[p.ID] = true
		if p.GridPos.W < 1 || p.GridPos.X < 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q lies outside the grid", p.Title)
		}
	}
	for i, p := range b.Panels {
		for _, q := range b.Panels[i+1:] {
			if p.GridPos.X < q.GridPos.X+q.GridPos.W && q.GridPos.X < p.GridPos.X+p.GridPos.W &&
				p.GridPos.Y < q.GridPos.Y+q.GridPos.H && q.GridPos.Y < p.GridPos.Y+p.GridPos.H {
				t.Errorf("panels %q and %q overlap", p.Title, q.Title)
			}
		}
	}
}

var usedVariable = regexp.MustCompile(`\$\{?([a-z][a-z_]*)`)

func checkVariablesExist(t *testing.T, b board) {
	t.Helper()
	have := b.variables()
	for _, m := range usedVariable.FindAllStringSubmatch(b.raw, -1) {
		if !have[m[1]] {
			t.Errorf("variable $%s is used and not defined", m[1])
		}
	}
}

var analyzerLink = regexp.MustCompile(`"url": "\$\{analyzer\}(/[^"?$]*)`)

// checkAnalyzerLinks says that dashboards lead to the analyzer's pages: those of one job to that job's, the list of jobs to any.
func checkAnalyzerLinks(t *testing.T, all []board) {
	t.Helper()
	for file, want := range map[string][]string{
		"culprit-jobs.json": {"/", "/incidents/", "/job", "/jobs"}, "culprit-communicator.json": {"/", "/job"}, "culprit-rank.json": {"/", "/job"},
	} {
		i := slices.IndexFunc(all, func(b board) bool { return b.file == file })
		var got []string
		for _, m := range analyzerLink.FindAllStringSubmatch(all[i].raw, -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s links to the analyzer's pages %q, want %q", file, got, want)
		}
	}
}

var drilldown = regexp.MustCompile(`"url": "/d/([^?"]+)\?([^"]*(?:\\"[^"]*)*)"`)

func TestLinksResolve(t *testing.T) {
	all := boards(t)
	found := 0
	reached := map[string]bool{}
	for _, b := range all {
		for _, m := range drilldown.FindAllStringSubmatch(b.raw, -1) {
			found++
			i := slices.IndexFunc(all, func(other board) bool { return other.UID == m[1] })
			if i < 0 {
				t.Errorf("%s links to %s, which does not exist", b.file, m[1])
				continue
			}
			if all[i].UID != b.UID {
				reached[m[1]] = true
			}
			for parameter := range strings.SplitSeq(m[2], "&") {
				name, _, _ := strings.Cut(parameter, "=")
				if name, ok := strings.CutPrefix(name, "var-"); ok && !all[i].variables()[name] {
					t.Errorf("%s hands %s to %s, which has no such variable", b.file, name, m[1])
				}
			}
		}
	}
	checkAnalyzerLinks(t, all)
	if found == 0 {
		t.Error("no dashboard links to another")
	}
	for _, uid := range []string{"culprit-jobs", "culprit-communicator", "culprit-rank", "culprit-node"} {
		if !reached[uid] {
			t.Errorf("no link leads to %s", uid)
		}
	}
}
